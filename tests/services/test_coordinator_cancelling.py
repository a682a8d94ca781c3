"""Stopping many jobs: what each step leaves behind, and who wins when others are at the same jobs."""

import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from aijobs.core.clock import Chance, seeded_chance
from aijobs.core.lifecycle import Parked
from aijobs.core.model import ErrorClass, Job, Status
from aijobs.services.coordinator import Coordinator, cancelling
from aijobs.services.coordinator.cancelling import Cancellation, Stopped
from aijobs.store import jobs, moves
from aijobs.store.engine import Store
from aijobs.store.jobs import Filter
from aijobs.store.tables import events, notifications
from tests.support.clock import ManualClock
from tests.support.invariants import violations
from tests.support.jobs import claim_one, claim_some, ended, fail, new_job, present, settings_of, succeed
from tests.support.waking import listening

SETTINGS = settings_of(
    notify={"people": {"kind": "log", "on": ["cancelled"]}},
    types={"t": {"provider": "p", "notify": ["people"]}},
)


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, SETTINGS, chance=chance)


def _enqueue(coordinator: Coordinator, count: int) -> list[str]:
    made = coordinator.enqueue_many([new_job({"n": n}) for n in range(count)], actor="t")
    return [one.job.id for one in made]  # type: ignore[union-attr]


def _look(store: Store, wanted: Filter = Filter()) -> tuple[list[str], Cancellation]:  # noqa: B008  # it is frozen
    with store.read() as tx:
        found = jobs.unfinished(tx, wanted)
    return [job.id for job in found], Cancellation(actor="ana", reason="a loop", still=wanted.still)


def _kinds(store: Store, job_id: str) -> list[str]:
    with store.read() as tx:
        return [event["kind"] for event in jobs.events_of(tx, job_id)]


def _same(first: Job, second: Job) -> bool:
    """Whether they are alike but for what is a job's own."""
    own = ("id", "input_hash")
    names = [name for name in Job.__dataclass_fields__ if name not in own]
    return [getattr(first, name) for name in names] == [getattr(second, name) for name in names]


def test_many_are_stopped_as_one_is_in_steps_of_a_bounded_size(
    coordinator: Coordinator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "STEP", 30)
    (alone,) = _enqueue(coordinator, 1)
    coordinator.cancel(alone, actor="ana", reason="a loop")
    _enqueue(coordinator, 70)
    ids, said = _look(store)

    steps = list(coordinator.cancel_many(ids, said))

    assert [len(step.cancelled) for step in steps] == [30, 30, 10]
    assert [job_id for step in steps for job_id in step.cancelled] == ids
    assert all(_same(present(store, job_id), present(store, alone)) for job_id in ids)
    with store.read() as tx:
        (event,) = jobs.events_of(tx, ids[0])
        (single,) = jobs.events_of(tx, alone)
        assert {**event, "id": 0, "job_id": ""} == {**single, "id": 0, "job_id": ""}
        assert tx.execute(select(func.count()).select_from(events)).scalar_one() == 71
        assert tx.execute(select(func.count()).select_from(notifications)).scalar_one() == 71
    assert claim_some(coordinator, 10) == []
    assert violations(store) == []


def test_a_held_job_and_one_that_waits_to_be_tried_again_are_closed(
    coordinator: Coordinator, store: Store
) -> None:
    held = settings_of(types={"t": {"provider": "p", "on_unknown_outcome": "hold"}})
    holding = Coordinator(store, held, chance=seeded_chance(2))
    first, second = _enqueue(coordinator, 2)
    for claim in claim_some(holding, 2):
        error = ErrorClass.NETWORK_TIMEOUT if claim.job.id == first else ErrorClass.NETWORK
        fail(holding, claim.job, error, maybe_billed=claim.job.id == first)
    assert [present(store, one).hold_reason is not None for one in (first, second)] == [True, False]
    ids, said = _look(store)

    list(coordinator.cancel_many(ids, said))

    assert {present(store, job_id).status for job_id in ids} == {Status.CANCELLED}
    assert present(store, first).hold_reason is None
    assert present(store, first).last_error_class == "network_timeout"
    assert violations(store) == []


def test_a_job_that_is_claimed_between_the_look_and_the_write_is_asked_to_stop(
    coordinator: Coordinator, store: Store
) -> None:
    _enqueue(coordinator, 2)
    ids, said = _look(store)
    running = claim_some(coordinator, 1)[0].job

    (step,) = coordinator.cancel_many(ids, said)

    assert (step.asked, len(step.cancelled)) == ((running.id,), 1)
    assert present(store, running.id).status is Status.PROCESSING
    assert coordinator.renew(
        {running.id: running.lock_token}, running.locked_until or running.created_at
    ).cancel
    assert _kinds(store, running.id) == ["cancel_requested"]


def test_the_write_itself_passes_by_a_job_that_has_been_claimed_or_handed_back_since(
    coordinator: Coordinator, store: Store
) -> None:
    (job_id,) = _enqueue(coordinator, 1)
    as_it_was = present(store, job_id)

    claimed = claim_one(coordinator)
    with store.write() as tx:
        assert moves.cancel(tx, [as_it_was, claimed], store.clock.now()) == 0
    fail(coordinator, claimed)
    with store.write() as tx:
        assert moves.cancel(tx, [as_it_was], store.clock.now()) == 0

    assert present(store, job_id).status is Status.FAILED


def test_a_job_that_is_claimed_in_between_is_left_alone_where_only_waiting_ones_were_meant(
    coordinator: Coordinator, store: Store
) -> None:
    _enqueue(coordinator, 2)
    ids, said = _look(store, Filter(statuses=(Status.PENDING,)))
    running = claim_some(coordinator, 1)[0].job

    (step,) = coordinator.cancel_many(ids, said)

    assert (step.asked, len(step.cancelled), step.changed) == ((), 1, 1)
    assert present(store, running.id).cancel_requested_at is None


def test_a_job_that_has_left_the_filter_in_between_is_left_alone(
    coordinator: Coordinator, store: Store, clock: ManualClock
) -> None:
    held = settings_of(types={"t": {"provider": "p", "on_unknown_outcome": "hold"}})
    holding = Coordinator(store, held, chance=seeded_chance(2))
    (job_id,) = _enqueue(coordinator, 1)
    fail(holding, claim_one(holding), ErrorClass.NETWORK_TIMEOUT, maybe_billed=True)
    looks = [_look(store, wanted) for wanted in (Filter(held=True), Filter(error_class="network_timeout"))]

    coordinator.retry(job_id, actor="bob", reason="the provider knows nothing of it")
    clock.advance(timedelta(seconds=1))
    fail(coordinator, claim_one(coordinator), ErrorClass.UNAVAILABLE)

    assert [[step.changed for step in coordinator.cancel_many(*look)] for look in looks] == [[1], [1]]
    assert present(store, job_id).status is Status.FAILED


def test_a_job_that_ends_in_between_is_counted_and_stands(coordinator: Coordinator, store: Store) -> None:
    _enqueue(coordinator, 2)
    ids, said = _look(store)
    job = claim_some(coordinator, 1)[0].job
    succeed(coordinator, job)

    (step,) = coordinator.cancel_many([*ids, "gone-from-the-store"], said)

    assert (len(step.cancelled), step.ended_already) == (1, 2)
    assert present(store, job.id).status is Status.SUCCEEDED
    assert _kinds(store, job.id) == []


def test_one_that_was_asked_before_is_not_asked_again(coordinator: Coordinator, store: Store) -> None:
    _enqueue(coordinator, 1)
    job = claim_one(coordinator)
    ids, said = _look(store)

    (first,) = coordinator.cancel_many(ids, said)
    (second,) = coordinator.cancel_many(ids, said)

    assert (first.asked, second.asked, second.asked_already) == ((job.id,), (), 1)
    assert _kinds(store, job.id) == ["cancel_requested"]


def test_workers_hear_of_a_parked_job_that_is_to_stop_for_its_next_look_is_due(
    coordinator: Coordinator, store: Store, clock: ManualClock
) -> None:
    _enqueue(coordinator, 1)
    parked = Parked(provider_job_id="r", poll_at=clock.now() + timedelta(hours=1))
    coordinator.finish([ended(claim_one(coordinator), parked)])
    ids, said = _look(store)

    with listening(store) as wake:
        list(coordinator.cancel_many(ids, said))

        assert wake.wait(10.0)
    assert present(store, ids[0]).locked_until == clock.now()


def test_two_people_who_cancel_the_same_jobs_cancel_each_once(
    coordinator: Coordinator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "STEP", 25)
    _enqueue(coordinator, 200)
    ids, said = _look(store)
    together = threading.Barrier(2)
    done: list[list[Stopped]] = []

    def cancel(order: Sequence[str], seed: int) -> None:
        person = Coordinator(store, SETTINGS, chance=seeded_chance(seed))
        together.wait()
        done.append(list(person.cancel_many(order, said)))

    threads = [threading.Thread(target=cancel, args=(ids[::way], way)) for way in (1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    cancelled = [job_id for steps in done for step in steps for job_id in step.cancelled]
    assert sorted(cancelled) == sorted(ids)
    assert sum(step.ended_already for steps in done for step in steps) == 200
    assert all(_kinds(store, job_id) == ["cancelled"] for job_id in ids[::20])
    assert violations(store) == []
