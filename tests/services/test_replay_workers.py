"""A replay that nobody works for: a preview notes it, its plan stays good, a run says what it waits for."""

import threading

import pytest

from aijobs.store import workers
from tests.services.test_replay import Desk, Working


@pytest.fixture
def desk(store, clock):
    return Desk(store, clock)


def come(desk, *types: str) -> None:
    """Let a worker be heard of now that takes *types*, or every type."""
    with desk.store.write() as tx:
        workers.register(
            tx, name="w1", host="h", pid=1, version="1", concurrency=1, types=types or None,
            now=desk.clock.now(),
        )  # fmt: skip


class Idle(threading.Event):
    """Instead of waiting, let time go on while nobody works; `set` after a minute."""

    def __init__(self, desk) -> None:
        super().__init__()
        self.desk, self.left = desk, 120

    def wait(self, timeout=None):
        self.desk.clock.advance(seconds=timeout or 0.5)
        self.left -= 1
        if not self.left:
            self.set()
        return self.is_set()


def seen(desk):
    plan = desk.plan()
    (check,) = (check for check in plan.checks if check.check == "workers")
    return plan.replayable, plan.blocked, check.ok, check.evidence


def told(desk, plan, stop) -> list[str]:
    said: list[str] = []
    desk.runner().run(plan.id, hear=lambda outcome: None, stop=stop, tell=said.append)
    return said


def test_a_preview_notes_that_no_worker_is_alive_and_the_plan_stays_good(desk):
    desk.die(2)
    nobody = seen(desk)
    come(desk)
    somebody = seen(desk)
    come(desk, "u")
    others = seen(desk)
    come(desk)
    desk.clock.advance(desk.settings.worker.lease * 2)
    silent = seen(desk)

    assert nobody == (2, False, False, "no worker is alive: what is replayed waits for one (aijobs worker)")
    assert somebody == (2, False, True, "1 alive")
    assert others == (2, False, False, "1 alive, none of which serves type t")
    assert silent == nobody
    assert desk.run(desk.plan().id).state == "done"


def test_without_dead_letters_no_worker_is_looked_for(desk):
    assert desk.plan().checks == ()


def test_a_run_that_nobody_works_for_says_so_once(desk):
    desk.die(2)

    assert told(desk, desk.plan(), Idle(desk)) == [
        "no worker is alive: what is replayed waits for one (aijobs worker)"
    ]


def test_a_run_says_that_its_canary_or_its_batch_does_not_end(desk):
    (canary,) = desk.die(1)
    desk.clock.advance(seconds=1)
    (other,) = desk.die(1)
    plan = desk.plan()

    class Later(Idle):
        def wait(self, timeout=None):
            if self.left % 30 == 0:
                come(desk)
            if self.left == 60:
                desk.work()
            return super().wait(timeout)

    assert told(desk, plan, Later(desk)) == [
        f"waiting for the canary to end: aijobs diagnose {canary}",
        f"waiting for the batch to end: aijobs diagnose {other}",
    ]


def test_a_run_that_goes_on_says_nothing(desk):
    desk.die(30)

    assert told(desk, desk.plan(), Working(desk)) == []
