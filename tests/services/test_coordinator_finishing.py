"""What the end of an attempt writes: all of it or nothing, once, and only by the holder of the lease."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from sqlalchemy import event, text

from aijobs.core.clock import seeded_chance
from aijobs.core.errors import AlreadyFinished, Conflict, NotFound, StoreError
from aijobs.core.lifecycle import Abandoned, Cancelled, Failed, Parked, Succeeded
from aijobs.core.model import CallFacts, ErrorClass, Phase, Status, Usage
from aijobs.services.coordinator import Coordinator, steps
from aijobs.store import claims, jobs
from aijobs.store.engine import open_store
from tests.support.jobs import (
    LEASE,
    claim_one,
    claim_some,
    ended,
    fail,
    failure,
    history,
    new_job,
    present,
    settings_of,
    succeed,
)


@pytest.fixture
def coordinator(store, chance):
    return Coordinator(store, settings_of(), chance=chance)


def claimed(coordinator, **changes):
    coordinator.enqueue(new_job(**changes), actor="t")
    return claim_one(coordinator)


def dead_letters(store, job_id):
    with store.read() as tx:
        return jobs.dead_letters_of(tx, job_id)


def test_a_success_stores_the_result_and_one_execution(store, coordinator, clock):
    job = claimed(coordinator)
    clock.advance(timedelta(seconds=3))
    facts = CallFacts(
        provider="p", model="m", http_status=200, provider_request_id="req-1", phase=Phase.BODY,
        elapsed_seconds=2.5, usage=Usage(input_tokens=10, output_tokens=3),
    )  # fmt: skip

    coordinator.finish([ended(job, Succeeded(result='{"text":"ok"}', facts=facts), at=job.claimed_at)])

    after = present(store, job.id)
    assert (after.status, after.finished_at, after.locked_until) == (Status.SUCCEEDED, clock.now(), None)
    with store.read() as tx:
        assert jobs.result_of(tx, job.id) == '{"text":"ok"}'
    (record,) = history(store, job.id)
    assert (record["outcome"], record["attempt"], record["worker"]) == ("succeeded", 1, "w1")
    assert (record["input_tokens"], record["cache_read_tokens"]) == (10, None)
    assert (record["provider_request_id"], record["elapsed_seconds"]) == ("req-1", 2.5)
    assert record["finished_at"] - record["started_at"] == timedelta(seconds=3)


def test_a_failed_attempt_waits_and_keeps_why(store, coordinator, clock):
    job = claimed(coordinator)

    answer = fail(coordinator, job, ErrorClass.BAD_RESPONSE)

    after = present(store, job.id)
    assert after.status is Status.FAILED
    assert after.next_run_at == answer.move.next_run_at >= clock.now()
    assert (after.last_error_class, after.last_error_code) == ("bad_response", "test")
    (record,) = history(store, job.id)
    assert (record["outcome"], record["error_class"]) == ("failed", "bad_response")
    assert record["retry_at"] == after.next_run_at


def test_every_failed_attempt_stays_in_the_history_until_the_last_makes_a_dead_letter(
    store, coordinator, clock
):
    job = claimed(coordinator, max_attempts=3)
    for _ in range(2):
        fail(coordinator, job, ErrorClass.NETWORK)
        clock.advance(timedelta(hours=1))
        job = claim_one(coordinator)
    fail(coordinator, job, ErrorClass.NETWORK)

    assert present(store, job.id).status is Status.DEAD_LETTER
    assert [(one["attempt"], one["outcome"]) for one in history(store, job.id)] == [
        (1, "failed"), (2, "failed"), (3, "failed"),
    ]  # fmt: skip
    (dead,) = dead_letters(store, job.id)
    assert (dead["state"], dead["attempts"], dead["error_class"]) == ("open", 3, "network")


def test_a_failure_that_can_never_succeed_dies_at_once(store, coordinator):
    job = claimed(coordinator)

    fail(coordinator, job, ErrorClass.INVALID_REQUEST)

    assert (present(store, job.id).status, present(store, job.id).attempts) == (Status.DEAD_LETTER, 1)


def test_ends_of_every_kind_are_written_in_one_batch(store, coordinator, clock):
    for index in range(6):
        coordinator.enqueue(new_job({"n": index}), actor="t")
    a, b, c, d, e, f = (claim.job for claim in claim_some(coordinator, 6))

    answers = coordinator.finish(
        [
            ended(a, Succeeded(result="1")),
            ended(b, Failed(failure=failure(ErrorClass.INTERNAL))),
            ended(c, Failed(failure=failure(ErrorClass.INVALID_REQUEST))),
            ended(d, Cancelled()),
            ended(e, Abandoned(reason="shutdown")),
            ended(f, Parked(provider_job_id="r", poll_at=clock.now() + timedelta(seconds=9))),
        ]
    )

    assert all(answer.applied for answer in answers)
    assert [present(store, job.id).status for job in (a, b, c, d, e, f)] == [
        Status.SUCCEEDED, Status.FAILED, Status.DEAD_LETTER, Status.CANCELLED, Status.PENDING,
        Status.PROCESSING,
    ]  # fmt: skip


def test_a_job_handed_back_unstarted_has_no_attempt_counted_and_none_recorded(store, coordinator):
    job = claimed(coordinator)

    coordinator.finish([ended(job, Abandoned(reason="shutdown"))])

    assert present(store, job.id).attempts == 0
    assert history(store, job.id) == []
    assert claim_one(coordinator, worker="w2").id == job.id


def test_the_same_end_reported_twice_is_written_once(store, coordinator):
    job = claimed(coordinator)

    both = coordinator.finish([ended(job, Succeeded(result="1")), ended(job, Succeeded(result="2"))])
    again = succeed(coordinator, job, "3")

    assert [answer.applied for answer in both] == [True, False]
    assert (again.applied, again.status) == (False, Status.SUCCEEDED)
    assert len(history(store, job.id)) == 1


def test_one_lost_lease_in_a_batch_does_not_stop_the_others(store, coordinator, clock):
    lost = claimed(coordinator)
    clock.advance(LEASE)
    coordinator.rescue(limit=10)
    held = claimed(coordinator, payload='{"n":2}')

    answers = coordinator.finish([ended(lost, Succeeded(result="1")), ended(held, Succeeded(result="2"))])

    assert [answer.applied for answer in answers] == [False, True]
    assert present(store, held.id).status is Status.SUCCEEDED


def test_an_expired_lease_is_recorded_as_lost_and_retried(store, coordinator, clock):
    job = claimed(coordinator)

    clock.advance(LEASE - timedelta(microseconds=1))
    early = coordinator.rescue(limit=10)
    clock.advance(timedelta(microseconds=1))
    previewed = coordinator.rescue(limit=10, preview=True)
    rescued = coordinator.rescue(limit=10)
    again = coordinator.rescue(limit=10)

    assert (early.found, previewed.found, previewed.repaired) == (0, 1, 0)
    assert (rescued.found, rescued.repaired, rescued.ids) == (1, 1, (job.id,))
    assert again.found == 0
    assert (present(store, job.id).status, present(store, job.id).attempts) == (Status.FAILED, 1)
    (record,) = history(store, job.id)
    assert (record["outcome"], record["worker"], record["error_class"]) == ("lost", "w1", "worker_lost")
    assert record["maybe_billed"]


def test_a_job_that_keeps_killing_its_worker_ends_as_a_dead_letter(store, coordinator, clock):
    coordinator.enqueue(new_job(max_attempts=2), actor="t")
    for _ in range(2):
        claim_one(coordinator)
        clock.advance(timedelta(hours=1))
        coordinator.rescue(limit=10)
        clock.advance(timedelta(hours=1))

    assert claim_some(coordinator) == []
    (job,) = _all(store)
    assert (job.status, job.attempts, job.last_error_class) == (Status.DEAD_LETTER, 2, "worker_lost")


def test_a_rescue_is_bounded_and_takes_the_longest_expired_first(coordinator, clock):
    first = claimed(coordinator)
    clock.advance(timedelta(seconds=1))
    claimed(coordinator, payload='{"n":2}')
    clock.advance(LEASE)

    assert coordinator.rescue(limit=1).ids == (first.id,)


@pytest.mark.parametrize("repair", ["rescue", "expire"])
def test_a_large_repair_lets_others_write_between_its_steps(store, coordinator, clock, monkeypatch, repair):
    monkeypatch.setattr(steps, "STEP", 2)
    for _ in range(8):
        coordinator.enqueue(new_job(deadline=clock.now() + LEASE), actor="t")
    if repair == "rescue":
        claim_some(coordinator, 8)
    clock.advance(LEASE)
    commits = []
    event.listen(store.engine, "commit", commits.append)

    some = getattr(coordinator, repair)(limit=3)
    rest = getattr(coordinator, repair)(limit=10)

    assert (some.found, some.repaired, len(set(some.ids))) == (3, 3, 3)
    assert (rest.found, rest.repaired, len(set(rest.ids) - set(some.ids))) == (5, 5, 5)
    assert len(commits) == 2 + 3


def test_a_rescue_does_not_count_all_that_runs(coordinator, clock, monkeypatch):
    claimed(coordinator)
    clock.advance(LEASE)
    monkeypatch.setattr(claims, "in_flight", lambda _: pytest.fail("counted"))

    assert coordinator.rescue(limit=1).repaired == 1


def test_a_finish_and_two_rescues_at_the_same_instant_end_the_attempt_once(store, clock):
    coordinator = Coordinator(store, settings_of(), chance=seeded_chance(1))
    for index in range(12):
        coordinator.enqueue(new_job({"n": index}), actor="t")
    running = [claim.job for claim in claim_some(coordinator, 12)]
    clock.advance(LEASE)
    start = Barrier(3)

    def act(number: int) -> int:
        own = open_store(store.url, clock=store.clock)
        try:
            mine = Coordinator(own, settings_of(), chance=seeded_chance(number))
            start.wait()
            if number:
                return sum(mine.rescue(limit=3).repaired for _ in range(8))
            return sum(succeed(mine, job).applied for job in running)
        finally:
            own.close()

    with ThreadPoolExecutor(3) as pool:
        moved = sum(pool.map(act, range(3)))

    assert moved == 12
    assert all(len(history(store, job.id)) == 1 for job in running)
    assert all(present(store, job.id).attempts == 1 for job in running)


def test_a_deadline_that_passes_while_the_job_waits_ends_it(store, coordinator, clock):
    job = coordinator.enqueue(new_job(deadline=clock.now() + timedelta(minutes=1)), actor="t").job
    clock.advance(timedelta(minutes=1))

    claimed_late = claim_some(coordinator)
    expired = coordinator.expire(limit=10)

    assert (claimed_late, expired.ids) == ([], (job.id,))
    after = present(store, job.id)
    assert after.status is Status.DEAD_LETTER
    assert dead_letters(store, job.id)[0]["error_class"] == "deadline_exceeded"


@pytest.mark.parametrize("after_failure", [False, True])
def test_a_waiting_job_is_cancelled_at_once(store, coordinator, after_failure):
    job = coordinator.enqueue(new_job(), actor="t").job
    if after_failure:
        fail(coordinator, claim_one(coordinator), ErrorClass.INTERNAL)

    cancelled = coordinator.cancel(job.id, actor="ana", reason="wrong file")

    assert cancelled.status is Status.CANCELLED
    with store.read() as tx:
        (event,) = jobs.events_of(tx, job.id)
    assert (event["kind"], event["actor"], event["reason"]) == ("cancelled", "ana", "wrong file")
    assert claim_some(coordinator) == []


def test_a_running_job_is_asked_to_stop_and_is_cancelled_by_its_worker(store, coordinator):
    job = claimed(coordinator)

    asked = coordinator.cancel(job.id, actor="ana", reason=None)
    coordinator.finish([ended(job, Cancelled())])

    assert (asked.status, asked.cancel_requested_at is not None) == (Status.PROCESSING, True)
    assert present(store, job.id).status is Status.CANCELLED
    assert [one["outcome"] for one in history(store, job.id)] == ["cancelled"]


def test_a_cancel_makes_a_parked_job_due_at_once(store, coordinator, clock):
    job = claimed(coordinator)
    poll_at = clock.now() + timedelta(minutes=30)
    coordinator.finish([ended(job, Parked(provider_job_id="r", poll_at=poll_at))])

    coordinator.cancel(job.id, actor="ana", reason=None)
    (claim,) = claim_some(coordinator)

    assert claim.resume
    assert claim.job.cancel_requested_at == clock.now()


def test_a_finished_job_cannot_be_cancelled(coordinator):
    job = claimed(coordinator)
    succeed(coordinator, job)

    with pytest.raises(AlreadyFinished):
        coordinator.cancel(job.id, actor="ana", reason=None)
    with pytest.raises(NotFound):
        coordinator.cancel("no-such-job", actor="ana", reason=None)


def test_a_deadline_keeps_its_length_however_often_the_job_is_replayed(coordinator, clock):
    job = claimed(coordinator, max_attempts=1, deadline=clock.now() + timedelta(hours=1))
    for _ in range(3):
        fail(coordinator, job, ErrorClass.INVALID_REQUEST)
        clock.advance(timedelta(days=3))
        again = coordinator.reopen(job.id, actor="ana", reason="once more")
        assert again.deadline == clock.now() + timedelta(hours=1)
        job = claim_one(coordinator)


def test_a_replay_opens_a_new_round_and_keeps_the_history(store, coordinator, clock):
    job = claimed(coordinator, max_attempts=1, deadline=clock.now() + timedelta(hours=1))
    fail(coordinator, job, ErrorClass.INVALID_REQUEST)
    clock.advance(timedelta(days=3))

    again = coordinator.reopen(job.id, actor="ana", reason="the key was fixed")
    succeed(coordinator, claim_one(coordinator))

    assert (again.status, again.round, again.attempts) == (Status.PENDING, 2, 0)
    assert again.deadline == clock.now() + timedelta(hours=1)
    assert [(one["round"], one["outcome"]) for one in history(store, job.id)] == [
        (1, "failed"), (2, "succeeded"),
    ]  # fmt: skip
    (dead,) = dead_letters(store, job.id)
    assert (dead["state"], dead["actor"]) == ("replayed", "ana")


def test_only_a_dead_letter_can_be_replayed_and_only_once(coordinator):
    job = claimed(coordinator, max_attempts=1)
    with pytest.raises(Conflict):
        coordinator.reopen(job.id, actor="ana", reason="too early")
    fail(coordinator, job, ErrorClass.INVALID_REQUEST)
    coordinator.reopen(job.id, actor="ana", reason="once")

    with pytest.raises(Conflict):
        coordinator.reopen(job.id, actor="bo", reason="twice")


def test_final_states_put_their_notifications_into_the_outbox_in_the_same_transaction(store, chance):
    types = {"t": {"provider": "p", "notify": ["log"]}}
    notify = {"log": {"kind": "log", "on": ["succeeded"]}}
    coordinator = Coordinator(store, settings_of(types=types, notify=notify), chance=chance)
    good = claimed(coordinator)
    succeed(coordinator, good)
    bad = claimed(coordinator, payload="2")
    fail(coordinator, bad, ErrorClass.INVALID_REQUEST)

    with store.read() as tx:
        sent = [[one["event"] for one in jobs.notifications_of(tx, job.id)] for job in (good, bad)]
    assert sent == [["succeeded"], []]


@pytest.mark.parametrize(
    "nonsense",
    [
        "status = 'running'",
        "status = 'succeeded'",
        "finished_at = created_at",
        "locked_until = created_at",
        "status = 'processing'",
        "next_run_at = NULL",
        "attempts = -1",
        "hold_reason = 'why'",
        "parked_at = created_at",
    ],
)
def test_the_database_refuses_a_state_that_contradicts_itself(store, coordinator, nonsense):
    coordinator.enqueue(new_job(), actor="t")

    with pytest.raises(StoreError), store.write() as tx:
        tx.execute(text(f"UPDATE jobs SET {nonsense}"))


def _all(store):
    with store.read() as tx:
        return jobs.page(tx, jobs.Filter(), 100)
