"""Whoever leaves work to others says so: an idle worker does not find out at its next look only."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from aijobs.core.clock import Chance
from aijobs.core.lifecycle import Abandoned
from aijobs.services.coordinator import Coordinator
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.switching import Switching
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_one, ended, new_job, settings_of
from tests.support.waking import listening

LONG = 10.0
"""Seconds no test waits for unless it fails."""

Way = Callable[[Coordinator, dict[str, object]], object]


def one(coordinator: Coordinator, delayed: dict[str, object]) -> None:
    coordinator.enqueue(new_job(**delayed), actor="test")


def some(coordinator: Coordinator, delayed: dict[str, object]) -> None:
    coordinator.enqueue_many([new_job({"n": n}, **delayed) for n in range(2)], actor="test")


def many(coordinator: Coordinator, delayed: dict[str, object]) -> None:
    coordinator.enqueue_many([new_job({"n": n}, **delayed) for n in range(200)], actor="test")


def in_a_transaction_of_the_callers_own(coordinator: Coordinator, delayed: dict[str, object]) -> None:
    with coordinator.store.write() as tx:
        coordinator.enqueue_in(tx, [new_job(**delayed)], actor="test")


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, settings_of(), chance=chance)


@pytest.mark.parametrize("way", [one, some, many, in_a_transaction_of_the_callers_own])
def test_workers_hear_of_a_delayed_job_when_it_comes_in(
    store: Store, clock: ManualClock, coordinator: Coordinator, way: Way
) -> None:
    with listening(store) as wake:
        way(coordinator, {"run_at": clock.now() + timedelta(seconds=30)})

        assert wake.wait(LONG)


def test_workers_hear_of_a_job_that_is_handed_back(store: Store, coordinator: Coordinator) -> None:
    coordinator.enqueue(new_job(), actor="test")
    job = claim_one(coordinator)
    with listening(store) as wake:
        coordinator.finish([ended(job, Abandoned(reason="shutdown"))])

        assert wake.wait(LONG)


def test_workers_hear_that_a_person_lets_a_provider_be_called_again(
    store: Store, coordinator: Coordinator
) -> None:
    desk = ProviderDesk(store, coordinator.settings)
    desk.hold("p", actor="ana", reason="a test", lasting=None)
    with listening(store) as wake:
        desk.reset("p", actor="ana", reason="it is well")

        assert wake.wait(LONG)


def test_workers_hear_that_a_switch_was_thrown(store: Store, coordinator: Coordinator) -> None:
    with listening(store) as wake:
        Switching(store, coordinator.settings).pause(
            ["t"], below=None, actor="ana", reason="a test", lasting=None
        )

        assert wake.wait(LONG)


def test_a_word_to_the_workers_that_was_rolled_back_with_a_savepoint_is_sent_again(
    store: Store, coordinator: Coordinator
) -> None:
    with listening(store) as wake:
        with store.write() as tx:
            inner = tx.begin_nested()
            coordinator.enqueue_in(tx, [new_job({"n": 1}), new_job({"n": 2})], actor="test")
            inner.rollback()
            coordinator.enqueue_in(tx, [new_job({"n": 3}), new_job({"n": 4})], actor="test")

        assert wake.wait(LONG)


def test_workers_hear_of_a_job_whose_worker_was_lost(
    store: Store, clock: ManualClock, coordinator: Coordinator
) -> None:
    coordinator.enqueue(new_job(), actor="test")
    claim_one(coordinator)
    clock.advance(LEASE * 2)
    with listening(store) as wake:
        coordinator.rescue(limit=10)

        assert wake.wait(LONG)
