"""The register of workers."""

from datetime import timedelta

import pytest

from aijobs.store import workers
from aijobs.store.engine import Store
from aijobs.store.workers import WorkerRecord, WorkerState
from tests.support.clock import ManualClock


def register(store: Store, name: str = "w1", types: tuple[str, ...] | None = None, pid: int = 7) -> None:
    said = {"host": "box", "pid": pid, "version": "1.0", "concurrency": 4, "types": types}
    with store.write() as tx:
        workers.register(tx, name=name, **said, now=store.clock.now())  # type: ignore[arg-type]


def listed(store: Store) -> list[WorkerRecord]:
    with store.read() as tx:
        return workers.listed(tx)


def test_a_registered_worker_is_listed_with_all_it_said(store: Store, clock: ManualClock) -> None:
    register(store, types=("summary", "übersetzung"))

    assert listed(store) == [
        WorkerRecord(
            name="w1", host="box", pid=7, version="1.0", concurrency=4, types=("summary", "übersetzung"),
            state=WorkerState.RUNNING, started_at=clock.now(), heartbeat_at=clock.now(),
        )
    ]  # fmt: skip


def test_a_worker_for_every_type_is_told_from_one_for_none(store: Store) -> None:
    register(store, "all", types=None)
    register(store, "none", types=())

    assert {w.name: w.types for w in listed(store)} == {"all": None, "none": ()}


def test_a_worker_that_goes_on_otherwise_is_listed_with_what_it_takes_now(
    store: Store, clock: ManualClock
) -> None:
    register(store, types=("t", "u"))
    register(store, "w2")

    with store.write() as tx:
        answers = [workers.configure(tx, name, concurrency=9, types=("t",)) for name in ("w1", "w3")]

    assert answers == [True, False]
    assert {w.name: (w.concurrency, w.types) for w in listed(store)} == {"w1": (9, ("t",)), "w2": (4, None)}


def test_the_worker_that_runs_longest_is_listed_first(store: Store, clock: ManualClock) -> None:
    register(store, "z")
    clock.advance(seconds=1)
    register(store, "a")

    assert [w.name for w in listed(store)] == ["z", "a"]


def test_a_heartbeat_moves_only_the_workers_own_time(store: Store, clock: ManualClock) -> None:
    register(store, "w1")
    register(store, "w2")
    started = clock.now()
    later = clock.advance(seconds=10)

    with store.write() as tx:
        known = workers.heartbeat(tx, "w1", now=later)

    assert known
    assert {w.name: w.heartbeat_at for w in listed(store)} == {"w1": later, "w2": started}


def test_a_heartbeat_of_an_unknown_or_stopped_worker_says_so(store: Store, clock: ManualClock) -> None:
    register(store)

    with store.write() as tx:
        workers.set_state(tx, "w1", "stopped", now=clock.now())
        answers = [workers.heartbeat(tx, name, now=clock.advance(seconds=1)) for name in ("w1", "w2")]

    assert answers == [False, False]


def test_a_worker_says_what_it_is_about_to_do(store: Store, clock: ManualClock) -> None:
    register(store)

    with store.write() as tx:
        answers = [workers.set_state(tx, name, "stopping", now=clock.now()) for name in ("w1", "w2")]

    assert answers == [True, False]
    assert [w.state for w in listed(store)] == [WorkerState.STOPPING]


def test_a_state_nobody_knows_is_a_defect(store: Store, clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="sleeping"), store.write() as tx:
        workers.set_state(tx, "w1", "sleeping", now=clock.now())


def test_a_worker_that_starts_again_under_its_name_replaces_its_entry(
    store: Store, clock: ManualClock
) -> None:
    register(store, pid=7)
    with store.write() as tx:
        workers.set_state(tx, "w1", "stopped", now=clock.now())
    clock.advance(seconds=5)

    register(store, pid=8)

    assert [(w.pid, w.state, w.started_at) for w in listed(store)] == [(8, WorkerState.RUNNING, clock.now())]


def test_only_workers_not_heard_of_for_long_are_forgotten(store: Store, clock: ManualClock) -> None:
    register(store, "old")
    clock.advance(timedelta(days=1))
    register(store, "young")

    with store.write() as tx:
        gone = workers.forget(tx, before=clock.now())

    assert gone == 1
    assert [w.name for w in listed(store)] == ["young"]
