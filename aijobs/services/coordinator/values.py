"""What goes into the coordinator and what comes back."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from aijobs.core.lifecycle import AttemptEnd, Move
from aijobs.core.model import Job, Status

if TYPE_CHECKING:
    from aijobs.core.log_events import LogEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """A job that exists now. *duplicate*: its key was known; then *result* is filled if it has succeeded."""

    job: Job
    duplicate: bool = False
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a worker asks for: at most *slots* jobs to start and *resume_slots* to look at again."""

    worker: str
    slots: int
    lease: timedelta
    types: tuple[str, ...] | None = None  # None: every type of the configuration
    resume_slots: int | None = None  # None: as many as slots


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerChange:
    """What one call, begun or ended, changed about its provider, as the log calls it."""

    event: "LogEvent"
    provider: str
    why: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A job leased to the caller. *resume*: a provider works on it already; poll, don't submit.

    *truncated*: how many answers of this round were cut off, where the type then asks for more room.
    *due_at*: since when it had waited; None of work that is resumed. *breaker*: it is a first trial.
    """

    job: Job
    payload: str
    resume: bool = False
    truncated: int = 0
    due_at: datetime | None = None
    breaker: BreakerChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What became of the leases: *lost* ones belong to somebody else; *cancel* ones are asked to stop."""

    lost: frozenset[str] = frozenset()
    cancel: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended, as its worker saw it. The fence is that of *job* as it was claimed."""

    job: Job
    end: AttemptEnd
    started_at: datetime
    worker: str
    client_request_id: str | None = None


Decided = tuple[Ended, Job, Move]
"""The end of an attempt, its job as it is now, and what becomes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What was written. Not *applied*: the lease was lost, nothing changed; *status* is the present one.

    *breaker*: what the call told of its provider, if that changed anything.
    """

    job_id: str
    applied: bool
    move: Move | None = None
    status: Status | None = None
    breaker: BreakerChange | None = None


class Reception(StrEnum):
    """What became of a webhook delivery."""

    ACCEPTED = "accepted"  # its job is known and will be looked at, or has ended already
    DUPLICATE = "duplicate"  # a copy of one we have
    UNMATCHED = "unmatched"  # kept until its job becomes known
    IGNORED = "ignored"  # of a kind that concerns no job


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The answer to a delivery. *contradicts*: a copy whose body differs from that of the first."""

    reception: Reception
    job_id: str | None = None
    contradicts: bool = False


class Fate(StrEnum):
    """What became of a delivery whose work was looked at."""

    ADOPTED = "adopted"  # its job waited: the work counts as that job's, nothing is sent anew
    LATE = "late"  # its job has ended otherwise: noted, with what it cost
    KNOWN = "known"  # there was nothing new in it
    OPEN = "open"  # its job runs, or the work is not done: look again
    UNKNOWN = "unknown"  # it names no job of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The fate of one delivery, and the job it concerns."""

    fate: Fate
    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """What a repair found and did (nothing, with a preview). *why*: what it cannot help, and why."""

    found: int = 0
    repaired: int = 0
    ids: tuple[str, ...] = ()
    why: tuple[tuple[str, str], ...] = ()  # (id, reason)
