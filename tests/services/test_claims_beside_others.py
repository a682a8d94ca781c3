"""Claims at the same moment, on PostgreSQL: what one leaves the others find, and none goes by an old look."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.lifecycle import Parked
from aijobs.services.coordinator import Claim, Coordinator
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.switching import Switching
from aijobs.store import claims, moves
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Store, open_store
from tests.support.blocked import waits_for_a_lock
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_one, claim_some, ended, fail, new_job, settings_of
from tests.support.wait import eventually
from tests.support.waking import listening

pytestmark = pytest.mark.postgres

LONG = 10.0
"""Seconds no test waits for unless it fails."""
LIMITED: dict[str, Any] = {"concurrency": {"global": 100}}
RATED: dict[str, Any] = {"providers": {"p": {"kind": "python", "callable": "builtins:str", "rate": "30/m"}}}


@pytest.fixture
def store(postgres_store_url: str, clock: ManualClock) -> Iterator[Store]:
    opened = open_store(postgres_store_url, clock=clock)
    yield opened
    opened.close()


@contextlib.contextmanager
def in_the_middle(claim: Callable[[], list[Claim]]) -> Iterator["Future[list[Claim]]"]:
    """Another claim has chosen its jobs and goes on when the block is left."""
    reached, go = threading.Event(), threading.Event()
    lease = moves.claim

    def wait_once(*given: Any) -> Any:
        moves.claim = lease
        reached.set()
        go.wait(LONG)
        return lease(*given)

    with ThreadPoolExecutor(1) as threads:
        moves.claim = wait_once
        going_on = threads.submit(claim)
        try:
            assert reached.wait(LONG)
            yield going_on
        finally:
            moves.claim = lease
            go.set()


@contextlib.contextmanager
def waiting_its_turn(store: Store, claim: Callable[[], list[Claim]]) -> Iterator["Future[list[Claim]]"]:
    """A claim waits until another one, which takes nothing, is over at the end of the block."""
    with ThreadPoolExecutor(1) as threads, store.write() as tx:
        claims.lock(tx)
        waits = threads.submit(claim)
        eventually(lambda: waits_for_a_lock(store))
        yield waits


@pytest.mark.parametrize("types", [("t",), ("t", "u"), ("t", "u", "v", "w")])
def test_a_claim_leaves_to_others_all_that_it_does_not_take(
    store: Store, chance: Chance, types: tuple[str, ...]
) -> None:
    settings = settings_of(types={name: {"provider": "p"} for name in types})
    coordinator = Coordinator(store, settings, chance=chance)
    jobs = [new_job({"n": n}, type=types[n % len(types)]) for n in range(12)]
    coordinator.enqueue_many(jobs, actor="test")

    with in_the_middle(lambda: claim_some(coordinator, 5)) as first:
        second = claim_some(coordinator, 5, worker="w2")
        rest = claim_some(coordinator, 5, worker="w3")

    assert [len(first.result()), len(second), len(rest)] == [5, 5, 2]


def test_what_others_take_of_one_type_is_made_up_for_from_another(store: Store, chance: Chance) -> None:
    settings = settings_of(types={"t": {"provider": "p"}, "u": {"provider": "p"}})
    coordinator = Coordinator(store, settings, chance=chance)
    coordinator.enqueue_many(
        [new_job({"n": n}, type="t", priority=5) for n in range(4)]
        + [new_job({"n": n}, type="u") for n in range(6)],
        actor="test",
    )

    with in_the_middle(lambda: claim_some(coordinator, 3)):  # the most urgent
        found = claim_some(coordinator, 5, worker="w2")

    assert sorted(claim.job.type for claim in found) == ["t", "u", "u", "u", "u"]


@pytest.mark.parametrize(("slots", "left"), [(1, True), (3, False)])
def test_workers_hear_of_jobs_that_came_due_and_were_left_by_the_claim_that_put_them_in_line(
    store: Store, clock: ManualClock, chance: Chance, slots: int, left: bool
) -> None:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    later = clock.now() + timedelta(seconds=5)
    coordinator.enqueue_many([new_job({"n": n}, run_at=later) for n in range(3)], actor="test")
    clock.advance(seconds=5)

    with listening(store) as wake:
        with in_the_middle(lambda: claim_some(coordinator, slots)):
            meanwhile = claim_some(coordinator, 1, worker="w2")
        woken = wake.wait(LONG if left else 0.05)
        claim_some(coordinator, 1, worker="w2")
        again = wake.wait(0.05)

    assert (meanwhile, woken, again) == ([], left, False)


def pause(store: Store, coordinator: Coordinator) -> None:
    Switching(store, coordinator.settings).pause(["t"], below=None, actor="a", reason="r", lasting=None)


def hold(store: Store, coordinator: Coordinator) -> None:
    ProviderDesk(store, coordinator.settings).hold("p", actor="a", reason="r", lasting=None)


@pytest.mark.parametrize("stop", [pause, hold])
@pytest.mark.parametrize("sections", [LIMITED, RATED], ids=["limits", "a rate"])
def test_a_claim_that_waited_for_its_turn_starts_nothing_that_was_stopped_meanwhile(
    store: Store, chance: Chance, sections: dict[str, Any], stop: Callable[[Store, Coordinator], None]
) -> None:
    coordinator = Coordinator(store, settings_of(**sections), chance=chance)
    coordinator.enqueue(new_job(), actor="test")

    with waiting_its_turn(store, lambda: claim_some(coordinator)) as waits:
        stop(store, coordinator)

    assert waits.result() == []


def test_so_does_one_that_waits_because_a_provider_is_in_trouble(store: Store, chance: Chance) -> None:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    coordinator.enqueue_many([new_job({"n": n}) for n in range(2)], actor="test")
    fail(coordinator, claim_one(coordinator))

    with waiting_its_turn(store, lambda: claim_some(coordinator)) as waits:
        pause(store, coordinator)

    assert waits.result() == []


def test_a_lease_counts_from_when_the_claim_no_longer_waits(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = Coordinator(store, settings_of(**LIMITED), chance=chance)
    coordinator.enqueue(new_job(), actor="test")

    with waiting_its_turn(store, lambda: claim_some(coordinator)) as waits:
        now = clock.advance(seconds=20)

    (claim,) = waits.result()
    assert claim.job.locked_until == now + LEASE


def test_a_webhook_is_taken_in_while_a_claim_waits_for_its_turn(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = Coordinator(store, settings_of(**LIMITED), chance=chance)
    job_id = coordinator.enqueue(new_job(), actor="test").job.id
    parked = Parked(provider_job_id="r1", poll_at=clock.now())
    coordinator.finish([ended(claim_one(coordinator), parked)])
    delivery = Delivery(
        provider="p", delivery_id="d", event_type="response.completed", provider_job_id="r1", job_id=None,
        body_hash="x", outcome="unmatched", sent_at=None, received_at=clock.now(), handled_at=None,
    )  # fmt: skip

    with ThreadPoolExecutor(1) as threads, waiting_its_turn(store, lambda: claim_some(coordinator)) as waits:
        received = threads.submit(lambda: coordinator.receive(delivery)).result(LONG)

    assert received.job_id == job_id
    assert [claim.job.id for claim in waits.result()] == [job_id]
