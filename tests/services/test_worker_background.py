"""Work that goes on at the provider: saved at once, parked, looked at again, never sent twice."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.model import CallFacts, Done, ErrorClass, Pending, Reply, Status, Usage
from aijobs.core.polling import GONE_FOR
from aijobs.providers.contract import Call, PollFailed
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import failure, history, new_job, present, settings_of
from tests.support.wait import eventually
from tests.support.workers import Answer, Latch, Running, ScriptedProvider, drain, running

FOLLOW = {"max_queue_wait": "20m", "max_run": "1h"}
SETTINGS = settings_of(
    types={"t": {"provider": "p", "background": True, "background_options": FOLLOW}},
    providers={"p": {"kind": "simulator"}},
)


def enqueue(store: Store, chance: Chance, count: int = 1, **changes: Any) -> list[str]:
    coordinator = Coordinator(store, SETTINGS, chance=chance)
    return [coordinator.enqueue(new_job({"n": n}, **changes), actor="test").job.id for n in range(count)]


def pending(call: Call, **more: Any) -> Pending:
    return Pending(provider_job_id=f"resp-{call.job_id}", **more)


def provider(*polls: Answer, **more: Any) -> ScriptedProvider:
    """Takes every job in the background; *polls* are the answers to the looks, the last one for ever."""
    answers: Iterator[Answer] = iter(polls)
    last: list[Answer] = [Done(result='"done"')]

    def poll(call: Call) -> Answer:
        last[0] = next(answers, last[0])
        return last[0]

    return ScriptedProvider(pending, poll=poll, **more)


def parked(store: Store, job_id: str) -> bool:
    return present(store, job_id).parked_at is not None


def until_polled(one: Running, clock: ManualClock, times: int = 1) -> None:
    """Let the time of the next looks come until there were so many."""

    def looked() -> bool:
        clock.advance(seconds=40)
        return bool(one.provider.count("poll") >= times)

    eventually(looked, every=0.05)


def test_the_providers_id_is_saved_and_the_job_is_parked_until_the_next_look(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)

    with running(store, provider(), settings=SETTINGS):
        eventually(lambda: parked(store, job_id))

    job = present(store, job_id)
    assert (job.status, job.provider_job_id) == (Status.PROCESSING, f"resp-{job_id}")
    assert job.locked_until is not None
    assert timedelta(seconds=2) <= job.locked_until - clock.now() <= timedelta(seconds=2.2)
    assert history(store, job_id) == []


def test_a_parked_job_is_asked_after_and_not_sent_again(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)
    one_more = Pending(provider_job_id=f"resp-{job_id}", provider_status="in_progress")

    with running(store, provider(one_more, Done(result="42")), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        until_polled(one, clock, 2)
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)

    assert one.provider.count("submit") == 1
    with store.read() as tx:
        assert jobs.result_of(tx, job_id) == "42"
    (attempt,) = history(store, job_id)
    assert (attempt["outcome"], attempt["attempt"], attempt["provider_job_id"]) == (
        "succeeded",
        1,
        f"resp-{job_id}",
    )


def test_the_waits_grow_with_age_and_the_providers_word_goes_before(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)
    later = Pending(provider_job_id=f"resp-{job_id}", poll_after=timedelta(seconds=100))

    with running(store, provider(later), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        until_polled(one, clock)
        eventually(lambda: parked(store, job_id))

    until = present(store, job_id).locked_until
    assert until is not None
    assert timedelta(seconds=60) <= until - clock.now() <= timedelta(seconds=110)


def test_a_parked_job_holds_no_slot(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 10)

    with running(store, provider(), settings=SETTINGS, concurrency=1) as one:
        eventually(lambda: all(parked(store, job_id) for job_id in ids))

    assert one.provider.count("submit") == 10


def test_a_busy_worker_still_looks_at_parked_work(store: Store, clock: ManualClock, chance: Chance) -> None:
    first, second = enqueue(store, chance, 2)
    latch = Latch()

    async def submit(call: Call) -> Reply:
        if call.job_id == second:
            await latch.passed()
            return Done(result="1")
        return pending(call)

    one_provider = ScriptedProvider(submit)
    with running(store, one_provider, settings=SETTINGS, concurrency=1) as one:
        eventually(lambda: one.provider.count("submit") == 2)  # the only slot is taken
        until_polled(one, clock)
        eventually(lambda: present(store, first).status is Status.SUCCEEDED)
        latch.open.set()


def test_another_worker_goes_on_where_a_dead_one_was(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)
    with running(store, provider(), settings=SETTINGS):
        eventually(lambda: parked(store, job_id))

    with running(store, provider(Done(result="7")), settings=SETTINGS) as second:
        until_polled(second, clock)
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)

    assert second.provider.count("submit") == 0


def test_a_question_that_goes_wrong_is_no_failure_of_the_work(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)
    wrong = [
        PollFailed(failure=failure(c)) for c in (ErrorClass.NETWORK, ErrorClass.AUTH, ErrorClass.UNAVAILABLE)
    ]

    with running(store, provider(*wrong, Done(result="1")), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        until_polled(one, clock, 4)
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)

    assert one.provider.count("submit") == 1
    assert [attempt["outcome"] for attempt in history(store, job_id)] == ["succeeded"]


def test_a_provider_that_knows_no_such_work_is_not_believed_at_once(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance, max_attempts=1)
    gone = PollFailed(failure=failure(ErrorClass.BAD_RESPONSE, code="result_lost"), gone=True)

    with running(store, provider(gone), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        clock.advance(seconds=3)
        eventually(lambda: one.provider.count("poll") == 1)
        eventually(lambda: parked(store, job_id))
        after_one = present(store, job_id).status
        clock.advance(GONE_FOR)
        eventually(lambda: present(store, job_id).status is Status.DEAD_LETTER)

    assert after_one is Status.PROCESSING
    assert present(store, job_id).last_error_code == "result_lost"


def test_work_that_fails_at_the_provider_fails_the_attempt(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)

    with running(store, provider(failure(ErrorClass.CONTENT_POLICY)), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        until_polled(one, clock)
        eventually(lambda: present(store, job_id).status is Status.DEAD_LETTER)


@pytest.mark.parametrize(
    ("state", "after"), [("queued", timedelta(minutes=21)), ("in_progress", timedelta(hours=2))]
)
def test_work_that_never_ends_is_cancelled_at_the_provider_and_failed(
    store: Store, clock: ManualClock, chance: Chance, state: str, after: timedelta
) -> None:
    (job_id,) = enqueue(store, chance, max_attempts=1)
    stays = Pending(provider_job_id=f"resp-{job_id}", provider_status=state)

    with running(store, provider(stays), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        clock.advance(after)
        eventually(lambda: present(store, job_id).status is Status.DEAD_LETTER)

    job = present(store, job_id)
    assert one.provider.count("cancel") == 1
    assert (job.last_error_class, job.last_error_code) == ("network_timeout", "provider_stuck")
    assert history(store, job_id)[0]["maybe_billed"]


def test_work_still_running_at_the_deadline_is_cancelled_at_the_provider(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    deadline = clock.now() + timedelta(seconds=10)
    (job_id,) = enqueue(store, chance, deadline=deadline)

    with running(store, provider(), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        clock.advance(seconds=10)
        eventually(lambda: present(store, job_id).status is Status.DEAD_LETTER)

    assert (one.provider.count("poll"), one.provider.count("cancel")) == (0, 1)
    assert present(store, job_id).last_error_class == "deadline_exceeded"


def test_the_next_look_is_never_planned_beyond_the_deadline(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    deadline = clock.now() + timedelta(seconds=1)
    (job_id,) = enqueue(store, chance, deadline=deadline)

    with running(store, provider(), settings=SETTINGS):
        eventually(lambda: parked(store, job_id))

    assert present(store, job_id).locked_until == deadline


# --- Cancel ---------------------------------------------------------------------------------------


def cancel(store: Store, chance: Chance, job_id: str) -> None:
    Coordinator(store, SETTINGS, chance=chance).cancel(job_id, actor="test", reason="no longer wanted")


def test_a_parked_job_that_is_cancelled_is_stopped_at_the_provider(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    usage = CallFacts(usage=Usage(input_tokens=5), provider_job_id=f"resp-{job_id}")
    stopped = failure(ErrorClass.CANCELLED, facts=usage)

    with running(store, provider(cancel=lambda _: stopped), settings=SETTINGS) as one:
        eventually(lambda: parked(store, job_id))
        cancel(store, chance, job_id)
        eventually(lambda: present(store, job_id).status is Status.CANCELLED)

    assert (one.provider.count("cancel"), one.provider.count("poll")) == (1, 0)
    (attempt,) = history(store, job_id)
    assert (attempt["outcome"], attempt["input_tokens"]) == ("cancelled", 5)


def test_work_that_was_done_before_the_cancel_arrived_counts(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)

    with running(store, provider(cancel=lambda _: Done(result='"paid for"')), settings=SETTINGS):
        eventually(lambda: parked(store, job_id))
        cancel(store, chance, job_id)
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)


def test_a_provider_that_does_not_confirm_the_cancel_does_not_keep_the_job_open(
    store: Store, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)
    unclear = PollFailed(failure=failure(ErrorClass.NETWORK))

    with running(store, provider(cancel=lambda _: unclear), settings=SETTINGS):
        eventually(lambda: parked(store, job_id))
        cancel(store, chance, job_id)
        eventually(lambda: present(store, job_id).status is Status.CANCELLED)


def test_a_worker_that_stops_while_it_looks_leaves_the_job_parked(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)
    latch = Latch()

    async def never(call: Call) -> Answer:
        await latch.passed()
        return Done(result="1")

    slow = ScriptedProvider(pending, poll=never)
    with running(store, slow, settings=SETTINGS, grace=timedelta(0)) as one:
        eventually(lambda: parked(store, job_id))
        until_polled(one, clock)
        one.worker.stop()
        one.ended()

    job = present(store, job_id)
    assert (job.status, job.provider_job_id) == (Status.PROCESSING, f"resp-{job_id}")
    assert job.parked_at is not None
    assert history(store, job_id) == []


def test_drain_follows_what_it_has_parked(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 3)
    quick = {"poll_first": "1s", "poll_cap": "1s"}
    types = {"t": {"provider": "p", "background": True, "background_options": quick}}
    hinted = ScriptedProvider(lambda call: pending(call, poll_after=timedelta(0)))

    report = drain(store, hinted, settings=settings_of(types=types, providers={"p": {"kind": "simulator"}}))

    assert report.succeeded == 3
    assert {present(store, job_id).status for job_id in ids} == {Status.SUCCEEDED}
