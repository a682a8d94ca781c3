"""Stopping a worker, and cancelling what it runs."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import Interrupted
from aijobs.core.log_events import LogEvent
from aijobs.core.model import Done, Reply, Status
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Ended, Finished
from aijobs.services.worker.attempt import Attempt, Stop
from aijobs.services.worker.crew import Crew
from aijobs.store.engine import Store
from aijobs.store.wake import Wake
from tests.support.jobs import claim_some, history, new_job, present, settings_of
from tests.support.wait import eventually
from tests.support.workers import Heard, Latch, ScriptedProvider, make_worker, running


def enqueue(store: Store, chance: Chance, count: int = 1, **changes: Any) -> list[str]:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    return [coordinator.enqueue(new_job({"n": n}, **changes), actor="test").job.id for n in range(count)]


def waiting_for(latch: Latch) -> ScriptedProvider:
    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result="1")

    return ScriptedProvider(answer)


async def stubborn(call: Call) -> Reply:
    """A job that does not let itself be cancelled."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if stubborn_may_end.is_set():
                raise


stubborn_may_end = threading.Event()


# --- Stopping -------------------------------------------------------------------------------------


def test_what_runs_may_end_within_the_grace_and_nothing_more_is_claimed(store: Store, chance: Chance) -> None:
    ids, latch = enqueue(store, chance, 3), Latch()

    with running(store, waiting_for(latch), concurrency=2) as one:
        eventually(lambda: one.provider.count("submit") == 2)
        one.worker.stop("SIGTERM")
        latch.open.set()
        report = one.ended()

    assert (report.succeeded, report.handed_back, report.stopped_by) == (2, 0, "SIGTERM")
    assert sorted(present(store, job_id).status for job_id in ids) == ["pending", "succeeded", "succeeded"]


def test_what_does_not_end_within_the_grace_is_handed_back_and_costs_no_attempt(
    store: Store, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)

    with running(store, waiting_for(Latch()), grace=timedelta(milliseconds=50)) as one:
        eventually(lambda: one.provider.calls)
        one.worker.stop()
        report = one.ended()

    job = present(store, job_id)
    assert (report.handed_back, report.failed) == (1, 0)
    assert (job.status, job.attempts, job.locked_by) == (Status.PENDING, 0, None)
    (attempt,) = history(store, job_id)
    assert (attempt["outcome"], attempt["counted"], attempt["maybe_billed"]) == ("abandoned", False, True)


def test_a_job_handed_back_is_run_by_the_next_worker(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance, max_attempts=1)
    with running(store, waiting_for(Latch()), grace=timedelta(0)) as one:
        eventually(lambda: one.provider.calls)
        one.worker.stop()
        one.ended()

    with running(store):
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)

    assert [attempt["outcome"] for attempt in history(store, job_id)] == ["abandoned", "succeeded"]


def test_a_claim_that_was_under_way_is_handed_back_unstarted(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)

    class Slow(Coordinator):
        """The signal comes while the claim is being written."""

        def claim(self, request: ClaimRequest) -> list[Claim]:
            found = super().claim(request)
            if found:
                one.worker.stop()
                eventually(lambda: one.crew.closing)
            return found

    one = make_worker(store, coordinator=Slow(store, settings_of(), chance=chance))
    one.thread.start()
    report = one.ended()

    job = present(store, job_id)
    assert (report.handed_back, one.provider.calls) == (1, [])
    assert (job.status, job.attempts) == (Status.PENDING, 0)
    assert history(store, job_id) == []  # it never began: no attempt is left behind


def test_stopping_at_once_hands_back_everything_and_says_so(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 3)

    with running(store, waiting_for(Latch()), grace=timedelta(hours=1)) as one:
        eventually(lambda: one.provider.count("submit") == 3)
        one.worker.stop()
        one.worker.stop_now()
        with pytest.raises(Interrupted):
            one.ended()

    assert {(present(store, job_id).status, present(store, job_id).attempts) for job_id in ids} == {
        (Status.PENDING, 0)
    }
    assert one.worker.report.handed_back == 3


def test_a_job_that_refuses_to_be_cancelled_is_handed_back_over_its_head(
    store: Store, chance: Chance
) -> None:
    (job_id,) = enqueue(store, chance)
    stubborn_may_end.clear()

    with running(store, ScriptedProvider(stubborn), grace=timedelta(0)) as one:
        eventually(lambda: one.provider.calls)
        one.worker.stop()
        eventually(lambda: present(store, job_id).status is Status.PENDING)
        stubborn_may_end.set()
        assert one.ended().handed_back == 1


def test_what_such_a_job_answers_afterwards_is_ignored(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    may_answer, answered = threading.Event(), threading.Event()

    async def late(call: Call) -> Reply:
        while not may_answer.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        answered.set()
        return Done(result="1")

    class Slow(Coordinator):
        """The job answers while it is being handed back."""

        def finish(self, ends: Sequence[Ended]) -> list[Finished]:
            found = super().finish(ends)
            may_answer.set()
            eventually(answered.is_set)
            return found

    coordinator = Slow(store, settings_of(), chance=chance)
    with running(store, ScriptedProvider(late), coordinator=coordinator, grace=timedelta(0)) as one:
        eventually(lambda: one.provider.calls)
        one.worker.stop()
        report = one.ended()

    assert (report.handed_back, report.lost, report.succeeded) == (1, 0, 0)
    assert present(store, job_id).status is Status.PENDING


def test_the_first_reason_to_stop_stands(store: Store, chance: Chance) -> None:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    enqueue(store, chance)
    attempt = Attempt.of(claim_some(coordinator)[0], store.clock.now())

    attempt.interrupt(Stop.CANCELLED, "a person asked")
    attempt.interrupt(Stop.HANDED_BACK, "the worker stopped")

    assert (attempt.stop, attempt.why) == (Stop.CANCELLED, "a person asked")


def test_stopping_before_it_has_begun_ends_it(store: Store) -> None:
    one = make_worker(store)
    one.worker.stop("early")

    one.thread.start()

    assert one.ended().stopped_by == "early"


def test_an_idle_worker_stops_at_once(store: Store) -> None:
    with running(store, grace=timedelta(hours=1), poll=timedelta(hours=1)) as one:
        eventually(lambda: one.crew)
        one.worker.stop()
        one.ended()


def test_cancelling_the_coroutine_hands_back_what_runs(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    one = make_worker(store, waiting_for(Latch()))

    async def embed() -> None:
        task = asyncio.create_task(one.worker.run_until_stopped())
        while not one.provider.calls:  # noqa: ASYNC110  # a list does not tell
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(embed())

    assert (present(store, job_id).status, present(store, job_id).attempts) == (Status.PENDING, 0)


# --- Side tasks -----------------------------------------------------------------------------------


def test_a_lease_keeper_that_dies_stops_the_worker_with_its_error(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    log = Heard()

    class Broken(Coordinator):
        def renew(self, leases: Any, until: Any) -> Any:
            raise ZeroDivisionError("a defect")

    coordinator = Broken(store, settings_of(), chance=chance)
    one = make_worker(store, waiting_for(Latch()), coordinator=coordinator, log=log)
    one.thread.start()
    with pytest.raises(ZeroDivisionError):
        one.ended()

    assert present(store, job_id).status is Status.PENDING
    assert log.fields_of(LogEvent.SIDE_TASK_DIED)


def test_a_wake_up_that_dies_stops_the_worker_with_its_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, timeout: float) -> bool:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(Wake, "wait", broken)
    one = make_worker(store)
    one.thread.start()

    with pytest.raises(ZeroDivisionError):
        one.ended()


# --- Cancelling -----------------------------------------------------------------------------------


def cancel(store: Store, chance: Chance, job_id: str) -> None:
    Coordinator(store, settings_of(), chance=chance).cancel(job_id, actor="test", reason="no longer wanted")


def test_a_cancel_is_noticed_while_the_job_runs(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)

    with running(store, waiting_for(Latch()), renew_every=timedelta(hours=1)) as one:
        eventually(lambda: one.provider.calls)
        cancel(store, chance, job_id)
        eventually(lambda: present(store, job_id).status is Status.CANCELLED)
        eventually(lambda: one.so_far.cancelled == 1)

    assert [attempt["outcome"] for attempt in history(store, job_id)] == ["cancelled"]


def test_a_cancel_is_noticed_with_a_renewal_when_nothing_wakes_the_worker(
    store: Store, chance: Chance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Crew, "watch", lambda self: asyncio.Event().wait())
    (job_id,) = enqueue(store, chance)

    with running(store, waiting_for(Latch())) as one:
        eventually(lambda: one.provider.calls)
        cancel(store, chance, job_id)
        eventually(lambda: present(store, job_id).status is Status.CANCELLED)


def test_a_success_stands_although_a_cancel_was_asked_for(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)

    def answer(call: Call) -> Reply:
        cancel(store, chance, job_id)
        return Done(result="1")

    with running(store, ScriptedProvider(answer), renew_every=timedelta(hours=1)):
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)
