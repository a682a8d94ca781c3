"""What a stream of a job's events tells, whatever the clock does."""

from datetime import timedelta

from aijobs.core.clock import Chance
from aijobs.http.serve.stream_route import Cursor, Look
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import claim_one, new_job, settings_of, succeed


def look(store: Store, job_id: str) -> Look:
    with store.read() as tx:
        job = jobs.get(tx, job_id)
        assert job is not None
        return Look(job=job, events=jobs.events_of(tx, job_id), executions=jobs.executions_of(tx, job_id))


def test_the_end_of_a_job_is_told_though_the_clock_was_set_back(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    coordinator.enqueue(new_job(), actor="test")
    job = claim_one(coordinator)
    (*_, (cursor, _, _)) = look(store, job.id).since(Cursor())
    clock.set(clock.now() - timedelta(seconds=2))
    succeed(coordinator, job)

    *_, (cursor, kind, told) = look(store, job.id).since(cursor)

    assert (kind, told["status"]) == ("job", "succeeded")
    assert list(look(store, job.id).since(cursor)) == []
