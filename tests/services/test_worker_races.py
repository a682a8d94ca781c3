"""Races between the end of an attempt, the sweep, and the next claim: exactly one of them wins."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from aijobs.core.clock import Chance
from aijobs.core.model import Status
from aijobs.services.coordinator import Coordinator
from aijobs.services.sweeper import Sweeper
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_some, history, new_job, present, settings_of, succeed

ROUNDS = 60
SETTINGS = settings_of(retry={"worker_lost": {"retries": 0}})


def at_once(*acts: Callable[[], object]) -> None:
    """Do all of them at the same instant, each in a thread."""
    start = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> None:
        start.wait()
        act()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_completion_and_two_sweeps_at_the_end_of_the_lease_have_one_winner(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = Coordinator(store, SETTINGS, chance=chance)
    applied: list[bool] = []
    repaired: list[int] = []
    wins: Counter[Status] = Counter()

    for n in range(ROUNDS):
        coordinator.enqueue(new_job({"n": n}, max_attempts=1), actor="test")
        (claim,) = claim_some(coordinator)
        clock.advance(LEASE)
        applied.clear()
        repaired.clear()

        at_once(
            lambda job=claim.job: applied.append(succeed(coordinator, job).applied),  # type: ignore[misc]
            lambda: repaired.append(Sweeper(coordinator).sweep()["expired_leases"].repaired),
            lambda: repaired.append(Sweeper(coordinator).sweep()["expired_leases"].repaired),
        )

        status = present(store, claim.job.id).status
        wins[status] += 1
        assert applied == [status is Status.SUCCEEDED]
        assert sum(repaired) == (1 if status is Status.DEAD_LETTER else 0)
        assert len(history(store, claim.job.id)) == 1
        assert present(store, claim.job.id).attempts == 1

    assert set(wins) <= {Status.SUCCEEDED, Status.DEAD_LETTER}


def test_two_workers_that_claim_at_once_never_get_the_same_job(store: Store, chance: Chance) -> None:
    coordinator = Coordinator(store, SETTINGS, chance=chance)
    coordinator.enqueue_many([new_job({"n": n}) for n in range(200)], actor="test")
    got: list[str] = []
    lock = threading.Lock()

    def claim_all() -> None:
        mine: list[str] = []
        while found := claim_some(coordinator, 7):
            mine += [claim.job.id for claim in found]
        with lock:
            got.extend(mine)

    at_once(claim_all, claim_all, claim_all)

    assert len(got) == len(set(got)) == 200


def test_a_renewal_and_a_sweep_at_the_end_of_the_lease_agree(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = Coordinator(store, SETTINGS, chance=chance)
    lost: list[bool] = []

    for n in range(ROUNDS):
        coordinator.enqueue(new_job({"n": n}, max_attempts=1), actor="test")
        (claim,) = claim_some(coordinator)
        now = clock.advance(LEASE)
        lost.clear()

        at_once(
            lambda job=claim.job, until=now + LEASE: lost.append(  # type: ignore[misc]
                job.id in coordinator.renew({job.id: job.lock_token}, until).lost
            ),
            lambda: Sweeper(coordinator).sweep(),
        )

        job = present(store, claim.job.id)
        assert lost == [job.status is Status.DEAD_LETTER]
        if job.status is Status.PROCESSING:
            assert job.locked_until == now + timedelta(seconds=60)
            succeed(coordinator, claim.job)
