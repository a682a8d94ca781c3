"""A store that is upgraded, or replaced, under a worker: it claims nothing more, and what it has is saved."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from aijobs.core.clock import Chance
from aijobs.core.errors import SchemaMismatch, StoreUnreachable
from aijobs.core.log_events import LogEvent
from aijobs.core.model import Done, Reply, Status
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Coordinator
from aijobs.services.worker.schema_watch import SchemaWatch
from aijobs.store import schema
from aijobs.store.engine import Store, open_store
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


def put_aside(path: Path) -> Path:
    """Move a store away, with what belongs to it."""
    aside = path.with_name("aside.db")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


def test_a_worker_whose_file_was_replaced_saves_into_its_own_and_claims_from_neither(
    sqlite_store_url: str, clock: ManualClock, chance: Chance
) -> None:
    store = open_store(sqlite_store_url, clock=clock)
    first, latch, log = enqueue(store, chance, 1), Latch(), Heard()
    assert store.path

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result='"saved"')

    one = make_worker(store, ScriptedProvider(answer), log=log)
    one.thread.start()
    eventually(lambda: one.provider.calls)
    aside = put_aside(store.path)
    other = open_store(sqlite_store_url, clock=clock, create=True)
    second = enqueue(other, chance, 2)
    clock.advance(timedelta(seconds=2))
    eventually(lambda: log.fields_of(LogEvent.WORKER_STOPPING))
    latch.open.set()
    with pytest.raises(StoreUnreachable, match="another file has taken the place"):
        one.ended()
    store.close()

    own = open_store(f"sqlite:///{aside}", clock=clock)
    assert present(own, first).status is Status.SUCCEEDED
    assert present(other, second).status is Status.PENDING
    own.close()
    other.close()


def test_while_no_file_is_there_nothing_is_claimed_and_it_may_come_back(
    sqlite_store_url: str, clock: ManualClock
) -> None:
    store = open_store(sqlite_store_url, clock=clock)
    watch = SchemaWatch(store)
    assert store.path
    aside = store.path.rename(store.path.with_name("aside.db"))

    for _ in range(2):  # at once again, too
        with pytest.raises(StoreUnreachable, match="no job store at"):
            watch.fault()
    aside.rename(store.path)

    assert watch.fault() is None
    store.close()
