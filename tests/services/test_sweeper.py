"""One pass over what fell through."""

import threading
from datetime import timedelta

import pytest

from aijobs.core.clock import Chance
from aijobs.core.model import Status
from aijobs.core.replaying import ReplayOptions
from aijobs.services.coordinator import Coordinator, Rescue
from aijobs.services.notifier import OVERDUE_AFTER, Notifier
from aijobs.services.replay import Planner
from aijobs.services.sweeper import GONE_AFTER, STUCK_AFTER, WAITED_FOR, Sweeper
from aijobs.store import leases, provider_states, replays, workers
from aijobs.store.dead_letters import DeadLetterFilter
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_some, history, new_job, present, settings_of, succeed


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


def test_a_job_that_nobody_claims_is_told_of_with_what_keeps_it(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    job = coordinator.enqueue(new_job(), actor="test").job

    clock.advance(WAITED_FOR - timedelta(seconds=1))
    early = Sweeper(coordinator).sweep()["stuck_pending"]
    clock.advance(seconds=1)
    late = Sweeper(coordinator).sweep()["stuck_pending"]

    assert early == Rescue()
    assert (late.found, late.repaired, late.ids) == (1, 0, (job.id,))
    ((job_id, why),) = late.why
    assert (job_id, "worker" in why) == (job.id, True)


def test_a_job_that_is_removed_before_its_diagnosis_stops_no_sweep(
    store: Store, clock: ManualClock, chance: Chance, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = coordinator_on(store, chance)
    job = coordinator.enqueue(new_job(), actor="test").job
    clock.advance(WAITED_FOR)
    find = leases.waiting_since
    monkeypatch.setattr(leases, "waiting_since", lambda *asked: ["0" * 36, *find(*asked)])

    found = Sweeper(coordinator).sweep()

    assert [job_id for job_id, _ in found["stuck_pending"].why] == [job.id]
    assert "gone_workers" in found


def test_a_replay_whose_owner_died_is_said_to_be_interrupted(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    plan = Planner(store, settings_of(), chance=chance).plan(
        DeadLetterFilter(), ReplayOptions(), limit=10, actor="test", reason=None
    )
    with store.write() as tx:
        replays.take(tx, plan.id, "dead-host", clock.now(), clock.now() + LEASE)

    early = Sweeper(coordinator).sweep()["dead_replays"]
    clock.advance(LEASE)
    found = Sweeper(coordinator).sweep()["dead_replays"]

    assert early == Rescue()
    assert found == Rescue(found=1, repaired=1, ids=(plan.id,))
    with store.read() as tx:
        assert replays.get(tx, plan.id).state == "interrupted"  # type: ignore[union-attr]


def test_a_trial_that_was_renewed_after_it_was_found_dead_is_left_alone(
    store: Store, clock: ManualClock
) -> None:
    trial = {"provider": "p", "job_id": "j", "fence": 1, "locked_until": clock.now()}
    with store.write() as tx:
        provider_states.add_trials(tx, [trial])
        found = provider_states.dead_trials(tx, clock.now())
        provider_states.add_trials(tx, [{**trial, "locked_until": clock.now() + LEASE}])

        assert found == ["j"]
        assert provider_states.drop_dead_trials(tx, found, clock.now()) == 0
        assert provider_states.trials_out(tx, clock.now()) == {"p": 1}


def test_trials_and_workers_that_are_long_gone_are_cleared_away(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator = coordinator_on(store, chance)
    now = clock.now()
    with store.write() as tx:
        provider_states.add_trials(
            tx, [{"provider": "p", "job_id": "j", "fence": 1, "locked_until": now + LEASE}]
        )
        workers.register(tx, name="w1", host="h", pid=1, version="1", concurrency=1, types=None, now=now)

    early = Sweeper(coordinator).sweep()
    clock.advance(GONE_AFTER + timedelta(seconds=1))
    late = Sweeper(coordinator).sweep()

    assert (early["dead_trials"], early["gone_workers"]) == (Rescue(), Rescue())
    assert late["dead_trials"] == Rescue(found=1, repaired=1, ids=("j",))
    assert late["gone_workers"] == Rescue(found=1, repaired=1, ids=("w1",))


def test_notifications_that_nobody_delivers_are_delivered_by_the_sweep(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    settings = settings_of(types={"t": {"provider": "p", "notify": ["log"]}}, notify={"log": {"kind": "log"}})
    coordinator = Coordinator(store, settings, chance=chance)
    coordinator.enqueue(new_job(), actor="test")
    succeed(coordinator, claim_some(coordinator)[0].job)
    notifier = Notifier(store, settings, chance=chance)
    sweeper = Sweeper(coordinator, notifications=notifier.repair)

    early = sweeper.sweep()["unsent_notifications"]
    clock.advance(OVERDUE_AFTER)
    preview = sweeper.sweep(preview=True)["unsent_notifications"]
    found = sweeper.sweep()["unsent_notifications"]

    assert early == Rescue()
    assert (preview.found, preview.repaired) == (1, 0)
    assert (found.found, found.repaired) == (1, 1)
    assert sweeper.sweep()["unsent_notifications"] == Rescue()
