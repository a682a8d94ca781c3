"""Which index SQLite goes by in what is run all the time: it must not read what it does not return.

PostgreSQL chooses by what it knows of the rows; on tables as small as a test's that says nothing.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, event

from aijobs.store import claims, jobs, moves, provider_states, retention
from aijobs.store.engine import open_store
from tests.support.clock import START

LOOKS: dict[str, tuple[str, Callable[[Connection], Any]]] = {
    "expired leases": ("ix_jobs_lease", lambda tx: claims.expired(tx, START, 9, lock=False)),
    "parked jobs": ("ix_jobs_look", lambda tx: claims.parked_due(tx, START, ["t"], 9)),
    "jobs by id": ("sqlite_autoindex_jobs_1", lambda tx: moves.locked(tx, ["a", "b"])),
    "leases by id": ("(status=? AND id=?)", lambda tx: moves.renew(tx, [("a", 1)], START)),
    "a look made due": ("sqlite_autoindex_jobs_1", lambda tx: moves.hasten(tx, ["a"], START)),
    "jobs by their work": ("ix_jobs_provider_job_id", lambda tx: moves.by_work(tx, [("p", "a"), ("p", "b")])),
    "what runs": ("ix_jobs_running", claims.running),
    "calls under way": ("ix_jobs_running", claims.in_flight),
    "old inputs": ("sqlite_autoindex_job_inputs_1", lambda tx: retention.drop_inputs(tx, START, 9, "")),
    "old deliveries": ("ix_deliveries_handled", lambda tx: retention.drop_deliveries(tx, START, 9)),
    "old notifications": (
        "SEARCH notifications USING INDEX sqlite_autoindex_notifications_1",
        lambda tx: retention.drop_notifications(tx, START, 9),
    ),
    "old events of no job": ("ix_events_of_none", lambda tx: retention.drop_events(tx, START, 9)),
    "why a breaker opened": ("ix_events_of_none", lambda tx: provider_states.why_opened(tx, "p", START)),
    "old usage": ("sqlite_autoindex_usage_days_1", lambda tx: retention.drop_usage(tx, START, 9)),
    "inputs by id": ("sqlite_autoindex_job_inputs_1", lambda tx: jobs.payloads_of(tx, ["a", "b"])),
}
"""The index, and what should go by it."""


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_goes_by_its_index(sqlite_store_url: str, look: str) -> None:
    index, statement = LOOKS[look]

    with closing(open_store(sqlite_store_url)) as store, store.write() as tx:
        plan = plan_of(tx, statement)

    assert index in plan


def plan_of(tx: Connection, look: Callable[[Connection], Any]) -> str:
    """How the statement of *look* is carried out."""
    seen: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, values: Any, *___: object) -> None:
        seen.append((statement, values))

    event.listen(tx, "before_cursor_execute", note)
    look(tx)
    event.remove(tx, "before_cursor_execute", note)
    (statement, values) = seen[-1]
    return str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all())
