"""One pass over what fell through."""

import threading
from datetime import timedelta

from aijobs.core.clock import Chance
from aijobs.core.model import Status
from aijobs.services.coordinator import Coordinator, Rescue
from aijobs.services.sweeper import STUCK_AFTER, Sweeper
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_some, history, new_job, present, settings_of


def coordinator_on(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, settings_of(), chance=chance)


def lose(coordinator: Coordinator, clock: ManualClock, count: int = 1) -> list[str]:
    """Jobs whose worker is never heard of again, their leases over."""
    coordinator.enqueue_many([new_job({"n": n}) for n in range(count)], actor="test")
    ids = [claim.job.id for claim in claim_some(coordinator, count)]
    clock.advance(LEASE)
    return ids


def test_a_job_whose_worker_is_gone_is_found_and_recorded_as_lost(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    (job_id,) = lose(coordinator, clock)

    found = Sweeper(coordinator).sweep()

    assert found["expired_leases"] == Rescue(found=1, repaired=1, ids=(job_id,))
    assert present(store, job_id).status is Status.FAILED
    assert [(one["outcome"], one["worker"]) for one in history(store, job_id)] == [("lost", "w1")]


def test_before_the_lease_is_over_there_is_nothing_to_find(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    lose(coordinator, clock)
    clock.advance(seconds=-1)

    assert Sweeper(coordinator).sweep()["expired_leases"] == Rescue()


def test_a_second_sweep_does_nothing(store: Store, clock: ManualClock, chance: Chance) -> None:
    coordinator = coordinator_on(store, chance)
    lose(coordinator, clock)
    Sweeper(coordinator).sweep()

    again = Sweeper(coordinator).sweep()

    assert set(again.values()) == {Rescue()}


def test_a_preview_finds_the_same_and_changes_nothing(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    (job_id,) = lose(coordinator, clock)
    before = present(store, job_id)

    found = Sweeper(coordinator).sweep(preview=True)

    assert found["expired_leases"] == Rescue(found=1, repaired=0, ids=(job_id,))
    assert present(store, job_id) == before


def test_a_sweep_is_bounded_and_the_next_one_goes_on(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    lose(coordinator, clock, 5)
    sweeper = Sweeper(coordinator)

    repaired = [sweeper.sweep(limit=2)["expired_leases"].repaired for _ in range(4)]

    assert repaired == [2, 2, 1, 0]


def test_five_machines_that_sweep_at_once_record_each_attempt_once(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    ids = lose(coordinator, clock, 20)
    repaired: list[int] = []
    start = threading.Barrier(5)

    def sweep() -> None:
        start.wait()
        repaired.append(Sweeper(coordinator).sweep()["expired_leases"].repaired)

    machines = [threading.Thread(target=sweep) for _ in range(5)]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join()

    assert sum(repaired) == 20
    assert {len(history(store, job_id)) for job_id in ids} == {1}
    assert {present(store, job_id).attempts for job_id in ids} == {1}


def test_jobs_past_their_deadline_are_given_up(store: Store, clock: ManualClock, chance: Chance) -> None:
    coordinator = coordinator_on(store, chance)
    deadline = clock.now() + timedelta(seconds=5)
    job = coordinator.enqueue(new_job(deadline=deadline), actor="test").job
    clock.advance(seconds=5)

    found = Sweeper(coordinator).sweep()

    assert found["past_deadline"] == Rescue(found=1, repaired=1, ids=(job.id,))
    assert present(store, job.id).status is Status.DEAD_LETTER


def test_a_job_long_due_that_is_not_in_line_is_put_there(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    due = clock.now() + timedelta(seconds=5)
    job = coordinator.enqueue(new_job(run_at=due), actor="test").job
    clock.advance(timedelta(seconds=5) + STUCK_AFTER)
    sweeper = Sweeper(coordinator)

    preview, found, again = sweeper.sweep(preview=True), sweeper.sweep(), sweeper.sweep()

    assert preview["stuck_pending"] == Rescue(found=1, ids=(job.id,))
    assert found["stuck_pending"] == Rescue(found=1, repaired=1, ids=(job.id,))
    assert again["stuck_pending"] == Rescue()


def test_a_job_that_has_only_just_become_due_is_left_to_the_workers(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    coordinator.enqueue(new_job(run_at=clock.now() + timedelta(seconds=5)), actor="test")
    clock.advance(seconds=6)

    assert Sweeper(coordinator).sweep()["stuck_pending"] == Rescue()
