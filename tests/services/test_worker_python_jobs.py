"""What a python job may ask of its worker."""

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aijobs.core.clock import Chance, SystemClock
from aijobs.core.model import Done, ErrorClass, Pending, Reply, Status
from aijobs.providers.contract import Call, CallFailed, PollFailed
from aijobs.providers.python import PythonAdapter
from aijobs.services.coordinator import Coordinator
from aijobs.services.worker.attempt import Attempt
from aijobs.services.worker.effects import Ledger
from aijobs.services.worker.gate import StoreGate
from aijobs.services.worker.lane import Lane
from aijobs.store import effects, jobs
from aijobs.store.engine import Store
from tests.services.test_lost_answers import LostAnswer
from tests.support.clock import ManualClock
from tests.support.fuse import Blow, Fuse
from tests.support.jobs import LEASE, claim_one, claim_some, failure, history, new_job, present, settings_of
from tests.support.spans import Spans, parent_id, span_id
from tests.support.wait import eventually
from tests.support.workers import Latch, Running, ScriptedProvider, make_worker

AT_ONCE = {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}
SETTINGS = settings_of(
    providers={
        "p": {"kind": "python", "callable": "tests.services.test_worker_python_jobs:job"},
        "other": {"kind": "python", "callable": "builtins:str"},
    },
    retry={"internal": AT_ONCE, "worker_lost": AT_ONCE},
)

work: list[Callable[[Any, Any], Any]] = []
"""What the job does; a test puts it here."""


async def job(given: Any, context: Any) -> Any:
    """The callable of the configuration."""
    answer = work[0](given, context)
    return await answer if asyncio.iscoroutine(answer) else answer


def plain(given: Any, context: Any) -> Any:
    """The same as a plain function, which runs in a thread."""
    return work[0](given, context)


class Two:
    """The python adapter for `p`, a scripted provider for `other`."""

    def __init__(self, other: ScriptedProvider, *, path: str) -> None:
        self.python = PythonAdapter("p", path, clock=SystemClock())
        self.other = other

    def get(self, name: str) -> Any:
        return self.python if name == "p" else self.other

    async def close(self) -> None:
        await self.other.close()


def worker_for(
    store: Store, does: Callable[[Any, Any], Any], *, other: ScriptedProvider | None = None,
    in_thread: bool = False, **options: Any,
) -> Running:  # fmt: skip
    """A worker whose python jobs do what is given."""
    work[:] = [does]
    one = make_worker(store, settings=SETTINGS, **({"drain": True} | options))
    path = f"tests.services.test_worker_python_jobs:{'plain' if in_thread else 'job'}"
    one.worker._providers = Two(other or ScriptedProvider(), path=path)
    one.thread.start()
    return one


def enqueue(store: Store, chance: Chance, **changes: Any) -> str:
    return Coordinator(store, SETTINGS, chance=chance).enqueue(new_job(**changes), actor="test").job.id


def result(store: Store, job_id: str) -> Any:
    with store.read() as tx:
        text = jobs.result_of(tx, job_id)
    return None if text is None else json.loads(text)


def test_the_context_says_which_attempt_of_which_job_it_is(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)

    worker_for(store, lambda _, c: [c.job_id, c.attempt, c.fence, c.cancelled()]).ended()

    assert result(store, job_id) == [job_id, 1, 1, False]


# --- Side effects ---------------------------------------------------------------------------------


async def mail_then_fail(given: Any, context: Any) -> Any:
    async with context.side_effect("mail") as effect:
        if not effect.done:
            sent.append(context.attempt)
            effect.record({"id": 7})
    if context.attempt == 1:
        raise ValueError("after the mail")
    return effect.value


sent: list[int] = []


def test_a_side_effect_that_is_done_is_not_done_again_by_the_next_attempt(
    store: Store, chance: Chance
) -> None:
    sent.clear()
    job_id = enqueue(store, chance)

    worker_for(store, mail_then_fail).ended()

    assert sent == [1]
    assert result(store, job_id) == {"id": 7}
    assert [one["outcome"] for one in history(store, job_id)] == ["failed", "succeeded"]


def test_a_plain_function_guards_its_side_effects_with_with(store: Store, chance: Chance) -> None:
    sent.clear()
    job_id = enqueue(store, chance)

    def does(given: Any, context: Any) -> Any:
        with context.side_effect("mail") as effect:
            if not effect.done:
                sent.append(context.attempt)
                effect.record("sent")
        if context.attempt == 1:
            raise ValueError("after the mail")
        return effect.value

    worker_for(store, does, in_thread=True).ended()

    assert sent == [1]
    assert result(store, job_id) == "sent"


def test_a_coroutine_may_use_with_as_well(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)

    def does(given: Any, context: Any) -> Any:
        with context.side_effect("mail") as effect:
            return effect.done

    worker_for(store, does).ended()

    assert result(store, job_id) is False
    with store.read() as tx:
        (record,) = effects.effects_of(tx, job_id)
    assert record.done_at


def test_an_effect_that_was_cut_off_is_uncertain(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)

    async def does(given: Any, context: Any) -> Any:
        async with context.side_effect("mail") as effect:
            if context.attempt == 1:
                raise ValueError("in the middle")
            return [effect.done, effect.uncertain]

    worker_for(store, does).ended()

    assert result(store, job_id) == [False, True]


@pytest.mark.parametrize("begun_before", [False, True])
def test_a_lost_answer_to_the_beginning_of_an_effect_makes_it_no_less_certain(
    store: Store, clock: ManualClock, chance: Chance, begun_before: bool
) -> None:
    enqueue(store, chance)
    coordinator, faults = Coordinator(store, SETTINGS, chance=chance), list[Exception]()
    if begun_before:
        cut_off = claim_one(coordinator)
        with store.write() as tx:
            effects.begin(tx, cut_off.id, name="mail", fence=cut_off.lock_token, now=clock.now())
        clock.advance(LEASE)
        coordinator.rescue(limit=1)
    (claim,) = claim_some(coordinator)
    lane, gate = Lane("store"), SimpleNamespace(away=False, lost=faults.append)

    async def uncertain() -> bool:
        ledger = Ledger(store, lane=lane, gate=cast("StoreGate", gate), clock=clock)
        LostAnswer(blow=Blow.CUT).attach(store)
        async with ledger.effect(Attempt.of(claim, clock.now()), "mail") as effect:
            return effect.uncertain

    found = asyncio.run(uncertain())
    lane.close(timeout=5)
    Fuse().attach(store)

    assert found is begun_before
    assert len(faults) == 1


def test_under_a_lost_lease_no_effect_is_begun(store: Store, clock: ManualClock, chance: Chance) -> None:
    job_id = enqueue(store, chance)
    other, latch = Coordinator(store, SETTINGS, chance=chance), Latch()
    begun: list[str] = []

    async def does(given: Any, context: Any) -> Any:
        if context.attempt == 1:
            waiting.set()
            await latch.passed()
        async with context.side_effect("mail"):
            begun.append(context.job_id)

    waiting = threading.Event()
    hour = timedelta(hours=1)
    one = worker_for(store, does, drain=False, concurrency=1, renew_every=hour, repair_every=hour)
    eventually(waiting.is_set)
    one.crew.shift._check_leases = lambda now: None  # type: ignore[method-assign]
    clock.advance(LEASE)
    other.rescue(limit=10)
    claim_one(other, worker="other")
    latch.open.set()
    eventually(lambda: one.so_far.lost == 1)
    one.worker.stop()
    one.ended()

    assert begun == []
    with store.read() as tx:
        assert effects.effects_of(tx, job_id) == []


# --- Calls ----------------------------------------------------------------------------------------


def test_a_job_may_call_a_provider_and_gets_what_a_job_would_store(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)
    other = ScriptedProvider(lambda call: Done(result='{"text": "hello"}'))

    async def does(given: Any, context: Any) -> Any:
        return await context.acall("other", model="m", prompt="say hello", timeout=timedelta(seconds=3))

    worker_for(store, does, other=other).ended()

    (call,) = other.calls
    assert result(store, job_id) == {"text": "hello"}
    assert (call.model, call.prompt, call.timeout) == ("m", "say hello", timedelta(seconds=3))
    assert call.client_request_id == f"aijobs-{job_id}-1-1"


def test_a_type_that_is_dropped_while_its_function_runs_leaves_it_its_time_limit(
    store: Store, chance: Chance
) -> None:
    job_id = enqueue(store, chance)

    async def does(given: Any, context: Any) -> Any:
        one.crew._limits.configure(settings_of(types={"u": {"provider": "p"}}))
        return await context.acall("other", model="m", prompt="say hello")

    one = worker_for(store, does, other=ScriptedProvider(), concurrency=1)
    one.ended()

    assert result(store, job_id) == "done"


def test_a_plain_function_may_call_too(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)

    worker_for(store, lambda _, context: context.call("other", input=1), in_thread=True).ended()

    assert result(store, job_id) == "done"


def test_a_coroutine_that_calls_without_awaiting_is_told(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance, max_attempts=1)

    worker_for(store, lambda _, context: context.call("other")).ended()

    job = present(store, job_id)
    assert job.last_error_code == "RuntimeError"
    assert "acall" in (job.last_error_message or "")


def test_a_call_that_fails_fails_the_attempt_with_its_own_class(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)
    other = ScriptedProvider(lambda _: failure(ErrorClass.CONTENT_POLICY, code="refused"))

    async def does(given: Any, context: Any) -> Any:
        return await context.acall("other")

    worker_for(store, does, other=other).ended()

    job = present(store, job_id)
    assert (job.status, job.last_error_class, job.last_error_code) == (
        Status.DEAD_LETTER, "content_policy", "refused"
    )  # fmt: skip


def test_a_job_may_catch_a_call_that_fails(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)

    async def does(given: Any, context: Any) -> Any:
        try:
            return await context.acall("other")
        except CallFailed as error:
            return error.failure.error_class

    worker_for(store, does, other=ScriptedProvider(lambda _: failure())).ended()

    assert result(store, job_id) == "network"


def test_the_same_question_has_the_same_key_in_every_attempt(store: Store, chance: Chance) -> None:
    enqueue(store, chance)
    other = ScriptedProvider()

    async def does(given: Any, context: Any) -> Any:
        if context.attempt == 2:
            await context.acall("other", input="something else first")
        await context.acall("other", input="a")
        await context.acall("other", input="a")
        if context.attempt == 1:
            raise ValueError("again, please")

    worker_for(store, does, other=other).ended()

    keys = [call.idempotency_key for call in other.calls if call.input == "a"]
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2
    assert len({call.client_request_id for call in other.calls}) == 5


def test_an_answer_that_comes_later_is_waited_for(store: Store, chance: Chance) -> None:
    job_id = enqueue(store, chance)
    soon = timedelta(milliseconds=1)
    not_yet = Pending(provider_job_id="r", poll_after=soon)
    polls = iter([PollFailed(failure=failure(hint=soon)), not_yet, Done(result="5")])
    other = ScriptedProvider(
        lambda _: Pending(provider_job_id="r", poll_after=soon), poll=lambda _: next(polls)
    )

    async def does(given: Any, context: Any) -> Any:
        return await context.acall("other")

    worker_for(store, does, other=other).ended()

    assert result(store, job_id) == 5
    assert other.count("submit") == 1


def test_an_answer_that_does_not_come_in_time_is_cancelled(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id = enqueue(store, chance, max_attempts=1)
    soon = timedelta(milliseconds=1)

    def still(call: Call) -> Reply:
        clock.advance(seconds=10)
        return Pending(provider_job_id="r", poll_after=soon)

    other = ScriptedProvider(lambda _: Pending(provider_job_id="r", poll_after=soon), poll=still)

    async def does(given: Any, context: Any) -> Any:
        return await context.acall("other", timeout=timedelta(seconds=15))

    worker_for(store, does, other=other).ended()

    assert other.count("cancel") == 1
    assert present(store, job_id).last_error_class == "network_timeout"


@pytest.mark.parametrize("in_thread", [False, True])
def test_after_a_cancel_the_context_says_so_and_calls_nobody(
    store: Store, chance: Chance, in_thread: bool
) -> None:
    job_id = enqueue(store, chance)
    said: list[object] = []
    running = threading.Event()

    def does(given: Any, context: Any) -> Any:
        running.set()
        eventually(context.cancelled)
        try:
            context.call("other")
        except CallFailed as error:
            said.append(error.failure.error_class)

    async def does_async(given: Any, context: Any) -> Any:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            said.append(context.cancelled())

    one = worker_for(store, does if in_thread else does_async, in_thread=in_thread, drain=False)
    eventually(running.is_set)
    Coordinator(store, SETTINGS, chance=chance).cancel(job_id, actor="test", reason=None)
    eventually(lambda: present(store, job_id).status is Status.CANCELLED)
    eventually(lambda: said)
    one.worker.stop()
    one.ended()

    assert said == [ErrorClass.CANCELLED if in_thread else True]
    assert one.worker._providers.other.calls == []  # type: ignore[attr-defined]


def test_a_call_of_the_function_itself_is_a_span_of_the_attempt(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    async def does(given: Any, context: Any) -> Any:
        return await context.acall("other", model="m", prompt="x")

    enqueue(store, chance)
    spans, other = Spans(clock), ScriptedProvider()

    worker_for(store, does, other=other, tracing=spans.tracing).ended()

    process, inner = spans.one("process t"), spans.one("submit m")
    assert parent_id(inner) == parent_id(spans.one("submit")) == span_id(process)
    assert (other.calls[0].traceparent or "").split("-")[2] == f"{span_id(inner):016x}"
