"""A claim that went through without an answer: its worker lives, and does not know what it holds."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreError, StoreUnreachable
from aijobs.core.lifecycle import Parked
from aijobs.core.model import Status
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store, Tx, open_store
from tests.support.clock import ManualClock
from tests.support.fuse import Blow, Fuse
from tests.support.jobs import (
    LEASE,
    claim_one,
    claim_some,
    ended,
    history,
    new_job,
    present,
    settings_of,
    succeed,
)

HELD = {"t": {"provider": "p", "on_unknown_outcome": "hold"}}


class LostAnswer(Fuse):
    """The store is lost when it has committed, once."""

    def _reach(self, what: str, connection: Any) -> bool:
        if what != "committed" or self.blown:
            return False
        self.blown = what
        return True


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Iterator[Coordinator]:
    yield Coordinator(store, settings_of(types=HELD), chance=chance)
    Fuse().attach(store)


def enqueue(coordinator: Coordinator) -> str:
    return coordinator.enqueue(new_job(max_attempts=1), actor="test").job.id


def claim_unheard(coordinator: Coordinator, *, worker: str = "w1") -> None:
    """A claim that goes through, and whose worker is told that the store is lost."""
    LostAnswer(blow=Blow.CUT).attach(coordinator.store)
    with pytest.raises(StoreError):
        claim_some(coordinator, worker=worker)


def test_the_next_claim_of_the_worker_starts_what_the_lost_one_took(
    store: Store, coordinator: Coordinator
) -> None:
    job_id = enqueue(coordinator)
    claim_unheard(coordinator)
    taken = present(store, job_id)

    job = claim_one(coordinator)
    succeed(coordinator, job)

    assert (taken.status, taken.locked_by) == (Status.PROCESSING, "w1")
    assert (job.id, job.attempts, job.lock_token) == (job_id, 1, taken.lock_token + 1)
    assert [one["outcome"] for one in history(store, job_id)] == ["succeeded"]


def test_a_look_at_parked_work_that_nobody_heard_of_is_taken_again(
    store: Store, coordinator: Coordinator, clock: ManualClock
) -> None:
    job_id = enqueue(coordinator)
    end = Parked(provider_job_id="work-1", poll_at=clock.now() + timedelta(seconds=5))
    coordinator.finish([ended(claim_one(coordinator), end)])
    clock.advance(seconds=6)
    claim_unheard(coordinator)

    (claim,) = claim_some(coordinator)

    assert (claim.job.id, claim.resume, claim.job.provider_job_id) == (job_id, True, "work-1")
    assert history(store, job_id) == []


def test_what_the_worker_knows_that_it_holds_is_left_alone(
    store: Store, coordinator: Coordinator, clock: ManualClock
) -> None:
    mine, unheard = enqueue(coordinator), enqueue(coordinator)
    held = claim_one(coordinator)
    clock.advance(seconds=1)
    claim_unheard(coordinator)

    again = claim_one(coordinator)

    assert (held.id, again.id) == (mine, unheard)
    assert present(store, mine) == held


def test_another_worker_takes_nothing_of_it_before_the_lease_is_over(
    store: Store, coordinator: Coordinator, clock: ManualClock
) -> None:
    job_id = enqueue(coordinator)
    claim_unheard(coordinator)

    found = claim_some(coordinator, worker="w2")
    clock.advance(LEASE)
    coordinator.rescue(limit=10)

    assert found == []
    assert [one["outcome"] for one in history(store, job_id)] == ["lost"]


def test_what_is_committed_only_after_the_next_claim_is_handed_back_by_a_later_one(
    postgres_store_url: str, chance: Chance, clock: ManualClock
) -> None:
    store = open_store(postgres_store_url, clock=clock)
    coordinator = Coordinator(store, settings_of(), chance=chance)
    job_id = enqueue(coordinator)
    slow = store.engine.connect()  # its COMMIT is with a server that waits for its standby

    def unheard(work: Callable[[Tx], object], /) -> Any:
        slow.begin()
        work(slow)
        raise StoreUnreachable("no answer")

    coordinator._claims._write = unheard
    with pytest.raises(StoreError):
        claim_some(coordinator)
    coordinator._claims._write = coordinator._write
    clock.advance(seconds=1)
    meanwhile = claim_some(coordinator)
    slow.commit()
    slow.close()

    job = claim_one(coordinator)

    store.close()
    assert (meanwhile, job.id, job.attempts) == ([], job_id, 1)


def test_what_an_answered_claim_took_is_kept_though_it_was_at_the_instant_of_a_lost_one(
    store: Store, coordinator: Coordinator
) -> None:
    enqueue(coordinator)
    claim_unheard(coordinator)
    job = claim_one(coordinator)

    assert claim_some(coordinator) == []
    assert present(store, job.id) == job


def test_claims_are_looked_for_no_longer_than_what_they_took_is_leased(
    coordinator: Coordinator, clock: ManualClock
) -> None:
    claim_unheard(coordinator)
    clock.advance(LEASE)
    claim_some(coordinator)

    assert not coordinator._claims._unanswered


def test_the_hand_back_itself_may_lose_its_answer(store: Store, coordinator: Coordinator) -> None:
    job_id = enqueue(coordinator)
    claim_unheard(coordinator)
    claim_unheard(coordinator)

    job = claim_one(coordinator)

    assert (job.id, job.attempts) == (job_id, 1)
    assert history(store, job_id) == []
