"""The words of aijobs: statuses, jobs, attempts and what a provider may answer. Values only."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum


class Status(StrEnum):
    """Where a job stands. `core/lifecycle.py` has the legal moves between these."""

    PENDING = "pending"  # accepted, not yet claimed
    PROCESSING = "processing"  # claimed under a lease, or parked at a provider
    FAILED = "failed"  # this attempt failed; waits to be tried again
    SUCCEEDED = "succeeded"  # the result is stored
    DEAD_LETTER = "dead_letter"  # out of attempts, or failed for good; waits for a person
    CANCELLED = "cancelled"  # a person or the caller stopped it

    @property
    def final(self) -> bool:
        """Whether nothing happens to the job any more unless a person replays it."""
        return self in FINAL


FINAL = frozenset({Status.SUCCEEDED, Status.DEAD_LETTER, Status.CANCELLED})


class Outcome(StrEnum):
    """How one attempt ended; one immutable execution record each."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"  # the lease ran out: the worker crashed, hung, or lost the store
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # handed back at shutdown; not counted


class ErrorClass(StrEnum):
    """What kind of failure it was: it alone decides whether, when and how often to try again."""

    NETWORK = "network"
    NETWORK_TIMEOUT = "network_timeout"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    UNAVAILABLE = "unavailable"
    BAD_RESPONSE = "bad_response"
    OUTPUT_TRUNCATED = "output_truncated"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH = "context_length"
    CONTENT_POLICY = "content_policy"
    NOT_FOUND = "not_found"
    AUTH = "auth"
    PERMISSION = "permission"
    CANCELLED = "cancelled"
    WORKER_LOST = "worker_lost"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    INTERNAL = "internal"


class Phase(StrEnum):
    """How far a call got. From SENT on, the provider may have done (and billed) the work."""

    PREPARING = "preparing"
    CONNECTING = "connecting"
    SENT = "sent"
    HEADERS = "headers"
    BODY = "body"

    @property
    def maybe_billed(self) -> bool:
        """Whether the provider may have received the request."""
        return self not in (Phase.PREPARING, Phase.CONNECTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call in one normal form. Unknown is None, never 0.

    *input_tokens* and *output_tokens* are everything billed; the others are parts of them.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    service_tier: str | None = None
    reported_cost: float | None = None
    raw: str | None = None


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """What is known of one provider call, whatever became of it."""

    provider: str | None = None
    model: str | None = None
    http_status: int | None = None
    provider_job_id: str | None = None
    provider_request_id: str | None = None
    client_request_id: str | None = None
    phase: Phase = Phase.PREPARING
    elapsed_seconds: float | None = None
    usage: Usage = NO_USAGE
    rate_limits: str | None = None  # what the headers said of the provider's limits, as JSON
    owner: str | None = None  # the job that the work's metadata at the provider names as its own


NO_CALL = CallFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt failed, classified. *message* is redacted before it gets here."""

    error_class: ErrorClass
    code: str | None = None
    message: str = ""
    hint: timedelta | None = None  # the provider's own word on when to come back
    maybe_billed: bool = False
    force_retry: bool | None = None  # `x-should-retry`: True allows one more of a permanent class
    facts: CallFacts = NO_CALL


@dataclass(frozen=True, slots=True)
class Job:
    """The present of one job; the history is in its executions and events.

    Field order is the order of the columns of table `jobs`: a row becomes a Job by position, because that is
    done twice a job on the worker's path. Anybody else names the fields.
    """

    id: str
    type: str
    user: str  # "" when none was given
    key: str | None
    status: Status
    priority: int
    attempts: int  # counted attempts of this round, the running one included
    max_attempts: int
    round: int  # 1, then one more with each replay
    deferrals: int  # waits of this round that did not cost an attempt
    next_run_at: datetime | None
    locked_until: datetime | None
    locked_by: str | None
    lock_token: int  # the fence: grows with every claim
    claimed_at: datetime | None  # when the running attempt began
    parked_at: datetime | None  # set while the provider works and no worker does
    hold_reason: str | None  # set while a person must decide (unknown outcome)
    cancel_requested_at: datetime | None
    provider: str | None
    model: str | None
    provider_job_id: str | None
    last_error_class: str | None
    last_error_code: str | None
    last_error_message: str | None
    deadline: datetime | None
    input_hash: str
    request_id: str | None
    traceparent: str | None
    schedule: str | None
    key_expires_at: datetime | None
    code_version: str | None
    created_by: str
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What somebody asks to be done. *payload* is JSON text that has passed `core/payload.py`."""

    type: str
    payload: str
    input_hash: str
    user: str = ""
    key: str | None = None
    priority: int = 0
    run_at: datetime | None = None  # None: at once
    deadline: datetime | None = None
    max_attempts: int = 5
    request_id: str | None = None
    traceparent: str | None = None
    schedule: str | None = None
    key_expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt, written once when it ends and never changed; kept over replays."""

    job_id: str
    fence: int
    shadow: bool = False
    round: int
    attempt: int
    counted: bool = True
    worker: str | None = None
    provider: str | None = None
    model: str | None = None
    outcome: Outcome
    error_class: str | None = None
    error_code: str | None = None
    http_status: int | None = None
    message: str | None = None
    provider_job_id: str | None = None
    provider_request_id: str | None = None
    client_request_id: str | None = None
    started_at: datetime
    finished_at: datetime
    elapsed_seconds: float | None = None
    phase: str | None = None
    hint_seconds: float | None = None
    retry_at: datetime | None = None
    maybe_billed: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    service_tier: str | None = None
    cost: float | None = None
    usage: str | None = None
    fallback: bool = False
    code_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a person or the system did to a job or to the whole, besides attempts. Append-only."""

    kind: str
    actor: str
    at: datetime
    job_id: str | None = None
    reason: str | None = None
    detail: dict[str, object] = field(default_factory=dict)


# --- What a provider may answer -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The provider finished: *result* is JSON text, sanitised, ready to store."""

    result: str
    facts: CallFacts = NO_CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The provider works in the background under *provider_job_id*; ask again after *poll_after*."""

    provider_job_id: str
    poll_after: timedelta | None = None
    provider_status: str | None = None
    facts: CallFacts = NO_CALL


Reply = Done | Pending | Failure
