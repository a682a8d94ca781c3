"""Pages of jobs: newest first whatever is asked for, and a user's are read as the index has them."""

from datetime import timedelta

import pytest
from sqlalchemy import event

from aijobs.core.clock import seeded_chance
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from tests.support.jobs import new_job, settings_of

TYPES = ("a", "b", "c")


@pytest.fixture
def ids(store, clock):
    """Jobs of ana in turns of three types, and some of bo; the ids of ana's, newest first."""
    settings = settings_of(types={name: {"provider": "p"} for name in TYPES})
    coordinator = Coordinator(store, settings, chance=seeded_chance(3))
    found = []
    for n in range(20):
        clock.advance(timedelta(seconds=1))
        new = new_job(n, type=TYPES[n % 3], user="bo" if n % 5 == 4 else "ana")
        found.append((new.user, coordinator.enqueue(new, actor="t").job.id))
    return [job_id for user, job_id in reversed(found) if user == "ana"]


def test_a_users_jobs_of_all_types_come_newest_first_page_by_page(store, ids):
    pages, after = [], None
    with store.read() as tx:
        while page := jobs.page(tx, jobs.Filter(user="ana"), 5, after):
            pages.append([job.id for job in page])
            after = page[-1].id

    assert [len(page) for page in pages] == [5, 5, 5, 1]
    assert [job_id for page in pages for job_id in page] == ids


def test_of_a_user_without_jobs_there_are_none(store, ids):
    with store.read() as tx:
        assert jobs.page(tx, jobs.Filter(user="nobody"), 5) == []


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)  # of so few rows a server sorts all
@pytest.mark.usefixtures("ids")
def test_a_users_jobs_are_not_sorted_for_the_newest(store):
    asked = []
    event.listen(store.engine, "before_cursor_execute", lambda *given: asked.append(given[2:4]))

    with store.read() as tx:
        jobs.page(tx, jobs.Filter(user="ana"), 5)
        plans = [tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given).all() for sql, given in asked[:]]

    assert len(plans) >= len(TYPES)
    assert "TEMP B-TREE" not in str(plans)
