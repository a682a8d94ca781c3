"""Carrying attempts out: from the claim to how it ended. Decides nothing about the job and writes nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from traceback import extract_tb
from typing import assert_never

from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import UsageError
from aijobs.core.lifecycle import AttemptEnd, Cancelled, Failed, Parked, Succeeded
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.model import NO_CALL, Done, ErrorClass, Failure, Pending, Reply
from aijobs.core.polling import GONE_FOR, poll_delay, stuck
from aijobs.core.redaction import redact
from aijobs.core.retry import NO_MORE_ROOM
from aijobs.providers.contract import PollFailed
from aijobs.services.worker.attempt import Attempt, Stop, facts_of, handed_back
from aijobs.services.worker.calls import Calls, may_grow
from aijobs.services.worker.leases import Key


@dataclass(slots=True, kw_only=True)
class Attempts:
    """Carries attempts out.

    *may_call* waits until a call may go out (the store is there, the lease still stands) and says whether it
    may.
    """

    calls: Calls
    clock: Clock
    chance: Chance
    log: Log
    secrets: tuple[str, ...]
    may_call: Callable[[Key], Awaitable[bool]]
    _gone_since: dict[str, datetime] = field(default_factory=dict)

    def prepare(self, attempt: Attempt) -> None:
        """Look up what it needs of the configuration, which is still the one that it was claimed under."""
        try:
            self.calls.means_of(attempt)
        except Exception as fault:  # the policy decides, as for whatever else goes wrong with an attempt
            attempt.unprepared = fault

    async def carry_out(self, attempt: Attempt) -> AttemptEnd | None:
        """How the attempt ended; None when its lease is lost and there is nothing to be said."""
        attempt.entered = True
        try:
            if attempt.stop is not None:
                return await self._stopped(attempt)
            try:
                return await self._carry_out(attempt)
            except asyncio.CancelledError:
                return await self._stopped(attempt)
        except UsageError as fault:
            return self._own_fault(attempt, fault, ErrorClass.INVALID_REQUEST)
        except Exception as fault:  # whatever it is, the job must not be left hanging: the policy decides
            return self._own_fault(attempt, fault, ErrorClass.INTERNAL)

    async def cancel_orphan(self, attempt: Attempt, provider_job_id: str) -> None:
        """Stop work that was begun under a lease now lost: somebody else begins, or has begun, it anew."""
        means = self.calls.means_of(attempt)
        await means.adapter.cancel(means.question, provider_job_id)
        self.log.emit(LogEvent.ORPHAN_CANCELLED, job=attempt.claim.job.id, provider_job_id=provider_job_id)

    # --- The ordinary way ---

    async def _carry_out(self, attempt: Attempt) -> AttemptEnd | None:
        claim, job = attempt.claim, attempt.claim.job
        if job.cancel_requested_at is not None:
            return await self._cancelled(attempt)
        now = self.clock.now()
        if job.deadline is not None and now >= job.deadline:
            return await self._given_up(attempt, ErrorClass.DEADLINE_EXCEEDED, "its deadline has passed")
        if attempt.unprepared is not None:
            raise attempt.unprepared
        means = self.calls.means_of(attempt)
        resumed = job.provider_job_id if claim.resume else None
        call = self.calls.call_of(attempt, now) if resumed is None else means.question
        if not await self.may_call(attempt.key):
            return None
        attempt.call_begun = True
        if resumed is not None:
            return await self._after_poll(attempt, await means.adapter.poll(call, resumed))
        return await self._after_reply(attempt, await means.adapter.submit(call))

    async def _after_reply(self, attempt: Attempt, reply: Reply) -> AttemptEnd:
        match reply:
            case Done(result=result, facts=facts):
                return Succeeded(result=result, facts=facts)
            case Failure():
                return Failed(failure=self._judged(attempt, reply))
            case Pending():
                return await self._parked(attempt, reply)
            case _:
                assert_never(reply)

    def _judged(self, attempt: Attempt, failure: Failure) -> Failure:
        """An answer that was cut off at a limit that grows no more is not asked for again."""
        cut_off = failure.error_class is ErrorClass.OUTPUT_TRUNCATED
        kind = self.calls.means_of(attempt).recipe.kind
        if not cut_off or kind.grow_output is None or may_grow(attempt.claim, kind):
            return failure
        return replace(failure, code=NO_MORE_ROOM)

    async def _after_poll(self, attempt: Attempt, reply: Reply | PollFailed) -> AttemptEnd:
        job = attempt.claim.job
        if not isinstance(reply, PollFailed):
            self._gone_since.pop(job.id, None)
            return await self._after_reply(attempt, reply)
        if reply.gone:
            since = self._gone_since.setdefault(job.id, self.clock.now())
            if self.clock.now() - since >= GONE_FOR:
                del self._gone_since[job.id]
                return Failed(failure=reply.failure)
        # The question went wrong, not the work: ask again later, whatever the question met.
        known, failure = job.provider_job_id or "", reply.failure
        asked = Pending(provider_job_id=known, poll_after=failure.hint, facts=failure.facts)
        return await self._parked(attempt, asked)

    async def _parked(self, attempt: Attempt, pending: Pending) -> AttemptEnd:
        pace = self.calls.means_of(attempt).recipe.pace
        now = self.clock.now()
        age = now - attempt.began_at
        why = stuck(age, pending.provider_status, pace)
        if why is not None:
            return await self._given_up(attempt, ErrorClass.NETWORK_TIMEOUT, f"the provider's work is {why}")
        poll_at = now + poll_delay(age, pending.poll_after, pace, self.chance)
        deadline = attempt.claim.job.deadline
        if deadline is not None:
            poll_at = min(poll_at, deadline)
        return Parked(provider_job_id=pending.provider_job_id, poll_at=poll_at, facts=pending.facts)

    # --- Before its time ---

    async def _stopped(self, attempt: Attempt) -> AttemptEnd | None:
        match attempt.stop:
            case Stop.LOST:
                return None
            case Stop.CANCELLED:
                return await self._cancelled(attempt)
            case Stop.HANDED_BACK | None:
                return handed_back(attempt)
            case _:
                assert_never(attempt.stop)

    async def _cancelled(self, attempt: Attempt) -> AttemptEnd:
        found = await self._cancel_at_provider(attempt)
        if isinstance(found, Done):
            return Succeeded(result=found.result, facts=found.facts)
        facts = found.facts if found is not None else NO_CALL
        return Cancelled(facts=facts if facts is not NO_CALL else facts_of(attempt))

    async def _given_up(self, attempt: Attempt, error_class: ErrorClass, why: str) -> AttemptEnd:
        found = await self._cancel_at_provider(attempt)
        if isinstance(found, Done):
            return Succeeded(result=found.result, facts=found.facts)
        billed = attempt.claim.resume or attempt.call_begun
        return Failed(
            failure=Failure(
                error_class=error_class, code="provider_stuck" if billed else None, message=why,
                maybe_billed=billed, facts=facts_of(attempt),
            )
        )  # fmt: skip

    async def _cancel_at_provider(self, attempt: Attempt) -> Done | Failure | None:
        """Ask the provider to stop. Done: it was quicker, and a result that is paid for counts."""
        job = attempt.claim.job
        if job.provider_job_id is None:
            return None
        means = self.calls.means_of(attempt)
        try:
            reply = await means.adapter.cancel(means.question, job.provider_job_id)
        except asyncio.CancelledError:
            reply = None
        if isinstance(reply, Done):
            return reply
        if isinstance(reply, Failure) and reply.error_class is ErrorClass.CANCELLED:
            return reply
        self.log.emit(LogEvent.CANCEL_UNCONFIRMED, job=job.id, provider_job_id=job.provider_job_id)
        return None

    def _own_fault(self, attempt: Attempt, fault: Exception, error_class: ErrorClass) -> AttemptEnd:
        text = redact(str(fault), secrets=self.secrets, echo_of=attempt.claim.payload)
        if not isinstance(fault, UsageError):
            text = f"{type(fault).__name__} at {_place(fault)}: {text}"
        failure = Failure(
            error_class=error_class,
            code=type(fault).__name__,
            message=text,
            maybe_billed=attempt.call_begun,
            facts=facts_of(attempt),
        )
        return Failed(failure=failure)


def _place(fault: Exception) -> str:
    frames = extract_tb(fault.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
