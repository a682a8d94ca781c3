"""How rows of jobs are locked: by all in one order, no harder than needed. Only PostgreSQL has such locks."""

import pytest
from sqlalchemy import Select
from sqlalchemy.dialects import postgresql

from aijobs.store import moves

LOCKING = {"jobs by id": moves._LOCKED, "leases held": moves._HELD, "jobs by their work": moves._BY_WORK}


@pytest.mark.parametrize("what", LOCKING)
def test_jobs_are_locked_in_the_order_of_their_ids_and_not_against_those_who_only_refer_to_them(
    what: str,
) -> None:
    """Two who lock in different orders deadlock; so does a lock that foreign keys meet with one by id."""
    statement: Select[tuple[object, ...]] = LOCKING[what]
    text = str(statement.compile(dialect=postgresql.dialect()))

    assert text.rstrip().endswith("ORDER BY jobs.id FOR NO KEY UPDATE")
