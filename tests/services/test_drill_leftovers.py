"""What a killed drill left is removed once it is surely over, and nothing that is not a drill's."""

from datetime import timedelta

import pytest

from aijobs.core.clock import Chance
from aijobs.services.coordinator import Coordinator
from aijobs.services.drill.leftovers import SILENCE, clear
from aijobs.services.drill.names import drill_of, name_of, new_name
from aijobs.store import jobs, workers
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import new_job, settings_of

DRILL = "drill-0a1b2c3d"
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def leave(store: Store, chance: Chance):
    """Leaves a job of a type and user in the store."""
    coordinator = Coordinator(store, settings_of(), chance=chance)

    def left(kind: str, user: str) -> str:
        return coordinator.enqueue(new_job(type=kind, user=user), actor="t").job.id

    return left


def ids(store: Store) -> set[str]:
    with store.read() as tx:
        return {job.id for job in jobs.page(tx, jobs.Filter(), 100)}


def beat(store: Store, name: str) -> None:
    with store.write() as tx:
        workers.register(
            tx, name=name, host="h", pid=1, version="1", concurrency=1, types=None, now=store.clock.now()
        )


def test_a_drill_that_was_silent_for_long_is_removed_whole(store: Store, clock: ManualClock, leave) -> None:
    theirs = leave("report", "ana")
    leave(f"{DRILL}-work", f"{DRILL}-ana")
    leave(f"{DRILL}-frail", f"{DRILL}-user7")
    beat(store, f"{DRILL}-1")
    beat(store, "their-1")

    clock.advance(SILENCE - MOMENT)
    early = clear(store)
    clock.advance(MOMENT)
    removed, running = clear(store)

    assert [(one.drill, one.jobs) for one in early[1]] == [(DRILL, 2)]
    assert early[0] == running == []
    assert [(one.drill, one.jobs) for one in removed] == [(DRILL, 2)]
    assert ids(store) == {theirs}
    with store.read() as tx:
        assert [one.name for one in workers.listed(tx)] == ["their-1"]
    assert clear(store) == ([], [])


def test_a_drill_whose_worker_is_heard_of_is_left_alone(store: Store, clock: ManualClock, leave) -> None:
    job = leave(f"{DRILL}-work", f"{DRILL}-ana")
    clock.advance(timedelta(hours=1))
    beat(store, f"{DRILL}-2")
    clock.advance(SILENCE - MOMENT)

    removed, running = clear(store)

    assert (removed, [one.drill for one in running]) == ([], [DRILL])
    assert ids(store) == {job}


@pytest.mark.parametrize(
    ("kind", "user"),
    [
        ("drill-down", f"{DRILL}-ana"),
        ("drill-0a1b2c3-work", "drill-0a1b2c3-ana"),
        (f"{DRILL}-work", "ana"),
        (f"{DRILL}-work", "drill-ffffffff-ana"),
    ],
)
def test_what_only_looks_like_a_drills_stays_for_ever(
    store: Store, clock: ManualClock, leave, kind: str, user: str
) -> None:
    left = {leave(kind, user), leave(kind, f"{DRILL}-ana")}
    clock.advance(timedelta(days=400))

    assert clear(store) == ([], [])
    assert ids(store) == left


def test_a_drill_is_told_by_the_names_it_gives(chance: Chance) -> None:
    drill = new_name(chance)

    assert drill_of(name_of(drill, "work")) == drill
    assert drill_of(drill) is None
