"""Many jobs at once: the fast way gives the answers of the slow one; two imports never spoil each other."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import KeyConflict, StoreError
from aijobs.core.model import Job, NewJob
from aijobs.services.coordinator import Coordinator, Enqueued
from aijobs.services.coordinator.admission import MANY
from aijobs.store import intake, jobs
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import claim_some, new_job, settings_of

COUNT = MANY + 20


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, settings_of(), chance=chance)


def _all(store: Store) -> list[Job]:
    with store.read() as tx:
        return jobs.page(tx, jobs.Filter(), 10_000)


def _batch(count: int = COUNT) -> list[NewJob]:
    return [new_job({"n": n}, key=f"k{n}", user=f"u{n % 3}") for n in range(count)]


def _created(answers: Sequence[object]) -> list[Job]:
    return [one.job for one in answers if isinstance(one, Enqueued) and not one.duplicate]


def test_every_field_arrives_as_one_by_one(
    coordinator: Coordinator, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = clock.now() + timedelta(hours=1, microseconds=123)
    odd = new_job(
        {"text": "tab\t line\n back\\slash \\N \u0000 你好 🎉"}, key="odd\\N key", user="ana", priority=-3,
        run_at=later, deadline=later + timedelta(hours=1), max_attempts=7, request_id="req\\t",
        schedule="nightly", traceparent=f"00-{'a' * 32}-{'b' * 16}-01",
        key_expires_at=later + timedelta(days=1),
    )  # fmt: skip
    batch = [odd, *_batch()]

    fast = _created(coordinator.enqueue_many(batch, actor="ana"))
    monkeypatch.setattr("aijobs.services.coordinator.admission.MANY", 10_000)
    slow = _created(
        coordinator.enqueue_many([replace(one, key=f"{one.key}-2") for one in batch], actor="ana")
    )

    assert len(fast) == len(slow) == len(batch)
    stored = {job.id: job for job in _all(store)}
    assert [stored[job.id] for job in fast] == fast
    assert [stored[job.id] for job in slow] == slow
    ids = [fast[0].id, slow[0].id]
    with store.read() as tx:
        assert jobs.payloads_of(tx, ids) == dict.fromkeys(ids, odd.payload)
        turns = [claim.job.user for claim in claim_some(coordinator, 6)]
    assert sorted(turns) == ["u0", "u0", "u1", "u1", "u2", "u2"]


def test_one_known_key_makes_that_one_a_duplicate_and_the_others_new(
    coordinator: Coordinator, store: Store
) -> None:
    batch = _batch()
    known = coordinator.enqueue(batch[50], actor="a").job

    answers = coordinator.enqueue_many(batch, actor="a")

    duplicates = [one for one in answers if isinstance(one, Enqueued) and one.duplicate]
    assert [one.job for one in duplicates] == [known]
    assert answers[50] is duplicates[0]
    assert len(_all(store)) == COUNT


def test_a_key_twice_in_the_batch_is_one_job(coordinator: Coordinator, store: Store) -> None:
    batch = _batch()

    answers = coordinator.enqueue_many([*batch, batch[7]], actor="a")

    assert isinstance(answers[-1], Enqueued)
    assert isinstance(answers[7], Enqueued)
    assert answers[-1].duplicate
    assert answers[-1].job.id == answers[7].job.id
    assert len(_all(store)) == COUNT


def test_one_conflict_leaves_nothing_of_the_batch(coordinator: Coordinator, store: Store) -> None:
    batch = _batch()
    coordinator.enqueue(replace(batch[50], input_hash="other"), actor="a")

    answers = coordinator.enqueue_many(batch, actor="a")

    assert isinstance(answers[50], KeyConflict)
    assert len(_all(store)) == 1


def test_keys_that_have_outlived_their_time_are_taken_over(
    coordinator: Coordinator, store: Store, clock: ManualClock
) -> None:
    expires = clock.now() + timedelta(days=1)
    batch = [replace(one, key_expires_at=expires) for one in _batch()]
    coordinator.enqueue_many(batch, actor="a")
    clock.advance(timedelta(days=1))

    answers = coordinator.enqueue_many(_batch(), actor="a")

    assert len(_created(answers)) == COUNT
    assert len(_all(store)) == 2 * COUNT


def test_jobs_without_keys_are_all_new(coordinator: Coordinator, store: Store) -> None:
    answers = coordinator.enqueue_many([new_job() for _ in range(COUNT)], actor="a")

    assert len({job.id for job in _created(answers)}) == COUNT
    assert len(_all(store)) == COUNT


def test_two_imports_of_the_same_jobs_at_once_create_each_once(
    coordinator: Coordinator, store: Store
) -> None:
    together = threading.Barrier(2)
    answers: list[Sequence[object]] = []

    def enqueue(batch: list[NewJob]) -> None:
        together.wait()
        answers.append(coordinator.enqueue_many(batch, actor="a"))

    batch = _batch(1000)
    threads = [threading.Thread(target=enqueue, args=(order,)) for order in (batch, batch[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 2
    assert sorted(len(_created(one)) for one in answers) == [0, 1000]
    assert len(_all(store)) == 1000


def test_a_fault_that_is_no_taken_key_is_raised(
    coordinator: Coordinator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = intake._job_rows

    def negative(new: Sequence[intake.New]) -> object:
        attempts = intake._COLUMNS.index("max_attempts")
        return ((*row[:attempts], 0, *row[attempts + 1 :]) for row in rows(new))

    monkeypatch.setattr(intake, "_job_rows", negative)
    with pytest.raises(StoreError):
        coordinator.enqueue_many(_batch(), actor="a")

    assert _all(store) == []
    monkeypatch.setattr(intake, "_job_rows", rows)
    assert len(_created(coordinator.enqueue_many(_batch(), actor="a"))) == COUNT
