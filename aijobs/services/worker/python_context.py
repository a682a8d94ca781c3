"""What a python job may ask of its worker: whether to stop, a ledger of side effects, provider calls."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta

from aijobs.core.clock import Chance, Clock
from aijobs.core.model import Done, ErrorClass, Failure, Job, Pending
from aijobs.core.payload import dump_json
from aijobs.core.polling import Pace, poll_delay
from aijobs.providers.contract import Adapter, Call, CallFailed, PollFailed
from aijobs.services.worker.attempt import Attempt
from aijobs.services.worker.effects import Effect, Ledger
from aijobs.services.worker.ids import client_request_id, idempotency_key, traceparent_as_given
from aijobs.services.worker.leases import LeaseKeeper
from aijobs.services.worker.permit import Permit

_PACE = Pace()


class Desk:
    """What all contexts of a worker share."""

    def __init__(
        self, *, adapter: Callable[[str], Adapter], timeout: Callable[[str], timedelta], permit: Permit,
        keeper: LeaseKeeper, ledger: Ledger, clock: Clock, chance: Chance,
        traceparent: Callable[[Job], str | None] = traceparent_as_given,
    ) -> None:  # fmt: skip
        self.adapter = adapter
        self.timeout = timeout
        self.permit = permit
        self.keeper = keeper
        self.ledger = ledger
        self.clock = clock
        self.chance = chance
        self.traceparent = traceparent
        self.loop = asyncio.get_running_loop()

    def context(self, attempt: Attempt) -> "JobContext":
        """The context of one attempt."""
        return JobContext(self, attempt)


class JobContext:
    """One attempt's `PythonContext`. Its methods may be called from the function's own thread."""

    def __init__(self, desk: Desk, attempt: Attempt) -> None:
        self._desk = desk
        self._attempt = attempt
        self._job = attempt.claim.job
        self._limit = desk.timeout(
            self._job.type
        )  # now, for a reload may drop the type while the function runs
        self._asked: Counter[str] = Counter()

    @property
    def job_id(self) -> str:
        return self._job.id

    @property
    def attempt(self) -> int:
        return self._job.attempts

    @property
    def fence(self) -> int:
        return self._job.lock_token

    def cancelled(self) -> bool:
        return self._attempt.stop is not None or not self._desk.keeper.stands(self._attempt.key)

    def side_effect(self, name: str) -> Effect:
        return self._desk.ledger.effect(self._attempt, name)

    def call(
        self, provider: str, *, model: str | None = None, prompt: str | None = None,
        input: object = None, request: Mapping[str, object] | None = None,  # noqa: A002  # the protocol's
        timeout: timedelta | None = None,
    ) -> object:  # fmt: skip
        if _running_loop() is self._desk.loop:
            raise RuntimeError("a coroutine awaits `acall`: `call` would wait for the loop it runs on")
        asked = self.acall(
            provider, model=model, prompt=prompt, input=input, request=request, timeout=timeout
        )
        return asyncio.run_coroutine_threadsafe(asked, self._desk.loop).result()

    async def acall(
        self, provider: str, *, model: str | None = None, prompt: str | None = None,
        input: object = None, request: Mapping[str, object] | None = None,  # noqa: A002  # the protocol's
        timeout: timedelta | None = None,
    ) -> object:  # fmt: skip
        adapter = self._desk.adapter(provider)
        fingerprint = _fingerprint(provider, model, prompt, input, request)
        self._asked[fingerprint] += 1
        job, number = self._job, self._asked.total()
        call = Call(
            job_id=job.id, type=job.type, attempt=job.attempts, model=model, prompt=prompt, input=input,
            request=request or {}, timeout=timeout or self._limit,
            client_request_id=f"{client_request_id(job)}-{number}",
            idempotency_key=f"{idempotency_key(job)}-{fingerprint}-{self._asked[fingerprint]}",
            traceparent=self._desk.traceparent(job),
        )  # fmt: skip
        reply = await self._ask(adapter, call)
        if isinstance(reply, Done):
            return json.loads(reply.result)
        raise CallFailed(reply)

    async def _ask(self, adapter: Adapter, call: Call) -> Done | Failure:
        if not await self._allowed():
            return _STOPPED
        reply = await adapter.submit(call)
        return await self._wait_for(adapter, call, reply) if isinstance(reply, Pending) else reply

    async def _wait_for(self, adapter: Adapter, call: Call, pending: Pending) -> Done | Failure:
        """The answer comes later although nobody asked for that: look again until it is there."""
        began, clock = self._desk.clock.monotonic(), self._desk.clock
        known, hint = pending.provider_job_id, pending.poll_after
        while (age := timedelta(seconds=clock.monotonic() - began)) < call.timeout:
            await asyncio.sleep(poll_delay(age, hint, _PACE, self._desk.chance).total_seconds())
            if not await self._allowed():
                return _STOPPED
            match await adapter.poll(call, known):
                case Done() | Failure() as end:
                    return end
                case Pending(poll_after=hint):
                    pass
                case PollFailed(failure=failure, gone=True):
                    return failure
                case PollFailed(failure=failure):
                    hint = failure.hint
        await adapter.cancel(call, known)
        return Failure(
            error_class=ErrorClass.NETWORK_TIMEOUT, code="timeout", maybe_billed=True,
            message=f"the provider did not finish within {call.timeout.total_seconds():g} s",
        )  # fmt: skip

    async def _allowed(self) -> bool:
        return self._attempt.stop is None and await self._desk.permit.may_call(self._attempt.key)


_STOPPED = Failure(
    error_class=ErrorClass.CANCELLED, code="stopped", message="the attempt was told to stop before this call"
)


def _fingerprint(*what: object) -> str:
    """The same for the same question in every attempt, whatever was asked before it."""
    return hashlib.sha256(dump_json(what).encode()).hexdigest()[:16]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
