"""A store that is upgraded under a worker at work: it claims nothing more, and what it has is saved."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from aijobs.core.clock import Chance
from aijobs.core.errors import SchemaMismatch
from aijobs.core.log_events import LogEvent
from aijobs.core.model import Done, Reply, Status
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Coordinator
from aijobs.store import schema
from aijobs.store.engine import Store
from aijobs.store.tables import schema_version
from tests.support.clock import ManualClock
from tests.support.jobs import history, new_job, present, settings_of
from tests.support.wait import eventually
from tests.support.workers import Heard, Latch, ScriptedProvider, make_worker


@pytest.fixture
def upgraded(store: Store):
    """Stamps the store as one of a newer version, and takes that back at the end."""

    def stamp(version: str) -> None:
        with store.write() as tx:
            tx.execute(update(schema_version).values(version_num=version))

    yield lambda: stamp("0999")
    stamp(schema.HEAD)


def enqueue(store: Store, chance: Chance, n: int) -> str:
    return Coordinator(store, settings_of(), chance=chance).enqueue(new_job({"n": n}), actor="t").job.id


@pytest.mark.parametrize("drain", [False, True])
def test_what_runs_is_saved_and_nothing_more_is_claimed(
    store: Store, clock: ManualClock, chance: Chance, upgraded, drain: bool
) -> None:
    first, latch, log = enqueue(store, chance, 1), Latch(), Heard()

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result='"saved"')

    one = make_worker(store, ScriptedProvider(answer), log=log, drain=drain)
    one.thread.start()
    eventually(lambda: one.provider.calls)
    upgraded()
    clock.advance(timedelta(seconds=2))
    eventually(lambda: log.fields_of(LogEvent.WORKER_STOPPING))
    second = enqueue(store, chance, 2)
    latch.open.set()
    with pytest.raises(SchemaMismatch, match="newer schema 0999"):
        one.ended()

    assert present(store, first).status is Status.SUCCEEDED
    assert [attempt["outcome"] for attempt in history(store, first)] == ["succeeded"]
    assert present(store, second).status is Status.PENDING
    assert one.provider.count("submit") == 1


def test_what_does_not_end_within_the_grace_is_handed_back(
    store: Store, clock: ManualClock, chance: Chance, upgraded
) -> None:
    job_id, latch = enqueue(store, chance, 1), Latch()

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result="1")

    one = make_worker(store, ScriptedProvider(answer), grace=timedelta(0))
    one.thread.start()
    eventually(lambda: one.provider.calls)
    upgraded()
    clock.advance(timedelta(seconds=2))
    with pytest.raises(SchemaMismatch):
        one.ended()

    assert (present(store, job_id).status, present(store, job_id).attempts) == (Status.PENDING, 0)
    assert [attempt["outcome"] for attempt in history(store, job_id)] == ["abandoned"]
