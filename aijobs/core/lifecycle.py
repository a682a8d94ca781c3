"""The state machine: which moves are legal, and what the end of an attempt leads to.

Pure: the coordinator performs what `decide` returns, and a preview prints the same value.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Protocol, assert_never

from aijobs.core.clock import Chance
from aijobs.core.model import NO_CALL, CallFacts, ErrorClass, Failure, Job, Outcome, Status

_S = Status

MOVES = MappingProxyType(
    {
        # (from, to): the operator's verb for it
        (_S.PENDING, _S.PROCESSING): "claim",
        (_S.FAILED, _S.PROCESSING): "claim",
        (_S.PROCESSING, _S.PROCESSING): "park",  # and poll: the lease becomes the time of the next poll
        (_S.PROCESSING, _S.SUCCEEDED): "finish",
        (_S.PROCESSING, _S.FAILED): "retry",
        (_S.PROCESSING, _S.DEAD_LETTER): "give up",
        (_S.PROCESSING, _S.CANCELLED): "cancel",
        (_S.PROCESSING, _S.PENDING): "hand back",
        (_S.PENDING, _S.CANCELLED): "cancel",
        (_S.FAILED, _S.CANCELLED): "cancel",
        (_S.PENDING, _S.DEAD_LETTER): "expire",  # the deadline passed while it waited
        (_S.FAILED, _S.DEAD_LETTER): "expire",
        (_S.DEAD_LETTER, _S.PENDING): "replay",
    }
)
"""Every legal move and its verb. Whatever is not here cannot be written: the coordinator checks, and the
statements name the expected state. A dead letter that is closed stays a dead letter."""


def is_legal(source: Status, target: Status) -> bool:
    """Whether a job may go from *source* to *target*."""
    return (source, target) in MOVES


# --- How an attempt may end -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The work is done; *result* is JSON text."""

    result: str
    facts: CallFacts = NO_CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The call, or our own code, failed."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The provider goes on by itself; look again at *poll_at*."""

    provider_job_id: str
    poll_at: datetime
    facts: CallFacts = NO_CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The worker saw the request to cancel."""

    facts: CallFacts = NO_CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The lease ran out and no provider job id was saved: crash, hang, or a store that went away."""

    maybe_billed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """The worker hands the job back (shutdown, or it must not start now). Never counts as an attempt."""

    reason: str
    started: bool = False  # whether a call may have gone out
    facts: CallFacts = NO_CALL


AttemptEnd = Succeeded | Failed | Parked | Cancelled | Lost | Abandoned


# --- What it leads to -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the retry policy says of one failure.

    *hold* keeps the job waiting for a person. One that is not *counted* costs the job no attempt.
    """

    retry: bool
    delay: timedelta = timedelta(0)
    counted: bool = True
    hold: bool = False
    reason: str


class RetryPolicy(Protocol):
    """Decides over failures, class by class; `core/retry.py` is the one used."""

    def verdict(self, job: Job, failure: Failure, now: datetime, chance: Chance) -> Verdict:
        """Whether and when to try *job* again after *failure*."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What becomes of the job: the coordinator writes exactly this, guarded by id, status and fence."""

    target: Status
    outcome: Outcome | None  # None: no attempt ended (it is parked, or never began)
    reason: str
    counted: bool = True  # whether the attempt costs one of max_attempts
    next_run_at: datetime | None = None
    locked_until: datetime | None = None
    hold: bool = False
    failure: Failure | None = None


def decide(job: Job, end: AttemptEnd, policy: RetryPolicy, now: datetime, chance: Chance) -> Move:
    """What the end of an attempt of *job* (which is processing) leads to.

    A success stands even when a cancel or the deadline came in the meantime: it has been paid for. A failure
    after a request to cancel cancels. Past the deadline, and when the next try would come after it, the job
    becomes a dead letter now, with that reason.
    """
    match end:
        case Succeeded():
            return Move(target=_S.SUCCEEDED, outcome=Outcome.SUCCEEDED, reason="the result is saved")
        case Parked(poll_at=poll_at):
            return Move(
                target=_S.PROCESSING, outcome=None, reason="the provider works on it", locked_until=poll_at
            )
        case Cancelled():
            return _cancelled("cancelled while it ran")
        case Abandoned(reason=reason, started=started):
            if job.cancel_requested_at and not job.provider_job_id:
                return _cancelled("cancelled while it ran")
            if job.provider_job_id:  # it is paid for and goes on: whoever comes next polls it
                return Move(target=_S.PROCESSING, outcome=None, reason=reason, locked_until=now)
            # A claim that never ran leaves no attempt behind.
            outcome = Outcome.ABANDONED if started else None
            return Move(target=_S.PENDING, outcome=outcome, reason=reason, counted=False, next_run_at=now)
        case Lost(maybe_billed=maybe_billed):
            return _after_failure(
                job, _lost_failure(maybe_billed=maybe_billed), policy, now, chance, Outcome.LOST
            )
        case Failed(failure=failure):
            return _after_failure(job, failure, policy, now, chance, Outcome.FAILED)
        case _:
            assert_never(end)


def _after_failure(
    job: Job, failure: Failure, policy: RetryPolicy, now: datetime, chance: Chance, outcome: Outcome
) -> Move:
    if job.cancel_requested_at:
        return _cancelled("cancelled while it ran", failure)
    verdict = policy.verdict(job, failure, now, chance)
    if verdict.hold:
        return Move(
            target=_S.FAILED, outcome=outcome, reason=verdict.reason, hold=True, failure=failure,
            counted=verdict.counted,
        )  # fmt: skip
    if not verdict.retry:
        return _dead(verdict.reason, failure, outcome, counted=verdict.counted)
    if verdict.counted and job.attempts >= job.max_attempts:
        return _dead(f"all {job.max_attempts} attempts used", failure, outcome)
    at = now + verdict.delay
    if job.deadline and at >= job.deadline:
        reason = "past its deadline" if now >= job.deadline else "the next try would come after its deadline"
        return _dead(reason, failure, outcome, counted=verdict.counted)
    return Move(
        target=_S.FAILED, outcome=outcome, reason=verdict.reason, next_run_at=at, failure=failure,
        counted=verdict.counted,
    )  # fmt: skip


def _dead(reason: str, failure: Failure, outcome: Outcome, *, counted: bool = True) -> Move:
    return Move(target=_S.DEAD_LETTER, outcome=outcome, reason=reason, failure=failure, counted=counted)


def _cancelled(reason: str, failure: Failure | None = None) -> Move:
    return Move(target=_S.CANCELLED, outcome=Outcome.CANCELLED, reason=reason, failure=failure)


def _lost_failure(*, maybe_billed: bool) -> Failure:
    return Failure(
        error_class=ErrorClass.WORKER_LOST,
        message="the worker stopped renewing its lease: it crashed, hung, or lost the store",
        maybe_billed=maybe_billed,
    )
