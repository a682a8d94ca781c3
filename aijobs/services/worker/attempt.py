"""One attempt: a claim at work, why it may have to stop, and what is known of a call cut off."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from aijobs.core.lifecycle import Abandoned
from aijobs.core.model import NO_CALL, CallFacts, Phase
from aijobs.providers.contract import Adapter, Call, PythonContext
from aijobs.services.coordinator import Claim
from aijobs.services.worker.ids import client_request_id
from aijobs.services.worker.leases import Key, key_of
from aijobs.services.worker.recipe import Recipe


class Stop(StrEnum):
    """Why an attempt is made to stop before its time."""

    CANCELLED = "cancelled"  # a person asked for it
    LOST = "lost"  # the lease is gone: whatever it finds out could not be written
    HANDED_BACK = "handed back"  # the worker goes away


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What an attempt needs of the configuration, from its beginning to its end.

    Kept with it, because a reload meanwhile may drop its type or its provider, and work that a provider has
    taken on must not be forgotten for that.
    """

    adapter: Adapter
    recipe: Recipe
    timeout: timedelta
    context: PythonContext | None  # of a python job
    question: Call  # the call that asks after, or cancels, work the provider has: it carries no input


@dataclass(slots=True)
class Attempt:
    """A claim at work. Belongs to the event loop."""

    claim: Claim
    key: Key
    began_at: datetime
    task: "asyncio.Task[None] | None" = None
    entered: bool = False  # its task runs, so it can be cancelled
    call_begun: bool = False  # from here on the provider may have been asked
    means: Means | None = None  # once they are known
    unprepared: Exception | None = None  # why they could not be found; carried out, it ends with that
    stop: Stop | None = None
    why: str = ""

    @classmethod
    def of(cls, claim: Claim, now: datetime) -> "Attempt":
        """The attempt of *claim*, which has just been taken."""
        return cls(claim=claim, key=key_of(claim.job), began_at=claim.job.claimed_at or now)

    def interrupt(self, stop: Stop, why: str) -> None:
        """Make it stop; the first reason stands. A task that has not run yet sees it when it does."""
        if self.stop is None:
            self.stop, self.why = stop, why
            if self.entered and self.task is not None:
                self.task.cancel()


def handed_back(attempt: Attempt) -> Abandoned:
    """The end of an attempt whose worker goes away: it costs the job nothing."""
    return Abandoned(
        reason=attempt.why or "the worker stopped",
        started=attempt.call_begun,
        facts=facts_of(attempt) if attempt.call_begun else NO_CALL,
    )


def facts_of(attempt: Attempt) -> CallFacts:
    """What is known of a call that nobody saw the end of: it must be taken as sent."""
    job = attempt.claim.job
    return CallFacts(
        provider=job.provider,
        model=job.model,
        provider_job_id=job.provider_job_id,
        client_request_id=client_request_id(job),
        phase=Phase.SENT if attempt.call_begun else Phase.PREPARING,
    )
