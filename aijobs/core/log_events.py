"""What the services may say happened: one name an event, with fields. How it is worded stands elsewhere.

Fields hold ids, names, counts, times and error classes; never an input, a prompt, a result or a secret.
"""

from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Protocol


class Level(IntEnum):
    """How much an event matters; a log shows those from its own level up."""

    DETAIL = 10  # one event or more a job that goes well
    INFO = 20
    WARNING = 30
    ERROR = 40


class LogEvent(StrEnum):
    """Every event there is."""

    WORKER_STARTED = "worker_started"
    CONFIG_RELOADED = "config_reloaded"
    CONFIG_UNCHANGED = "config_unchanged"
    CONFIG_REFUSED = "config_refused"
    WORKER_STOPPING = "worker_stopping"
    WORKER_STOPPED = "worker_stopped"
    DRAIN_WAITS = "drain_waits"
    SIDE_TASK_DIED = "side_task_died"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_HALF_OPEN = "breaker_half_open"
    BREAKER_RAMP = "breaker_ramp"
    BREAKER_CLOSED = "breaker_closed"
    PROVIDER_HELD = "provider_held"
    JOB_CLAIMED = "job_claimed"
    JOB_SUCCEEDED = "job_succeeded"
    JOB_PARKED = "job_parked"
    JOB_RETRY = "job_retry"
    JOB_HELD = "job_held"
    JOB_DEAD_LETTER = "job_dead_letter"
    JOB_CANCELLED = "job_cancelled"
    JOB_HANDED_BACK = "job_handed_back"
    SHADOW_LEFT_OUT = "shadow_left_out"
    LEASE_LOST = "lease_lost"
    LEASES_RESCUED = "leases_rescued"
    JOBS_EXPIRED = "jobs_expired"
    ORPHAN_CANCELLED = "orphan_cancelled"
    CANCEL_UNCONFIRMED = "cancel_unconfirmed"
    END_REFUSED = "end_refused"
    RESULTS_NOT_SAVED = "results_not_saved"
    JOB_ENDED = "job_ended"
    NOTIFIED = "notified"
    NOTIFICATION_FAILED = "notification_failed"
    NOTIFICATION_NOT_SAVED = "notification_not_saved"
    ALERT = "alert"
    STORE_LOST = "store_lost"
    STORE_BACK = "store_back"
    STORE_WARNING = "store_warning"
    SERVER_STARTED = "server_started"
    SERVER_STOPPED = "server_stopped"
    REQUEST_FAILED = "request_failed"
    DELIVERY_TAKEN = "delivery_taken"
    DELIVERY_CONTRADICTS = "delivery_contradicts"
    DELIVERY_REFUSED = "delivery_refused"
    DELIVERY_NOT_SAVED = "delivery_not_saved"
    REFUSALS_NOT_SAVED = "refusals_not_saved"
    ORPHAN_ADOPTED = "orphan_adopted"
    LATE_OUTCOME = "late_outcome"
    DELIVERIES_EXPIRED = "deliveries_expired"
    TRACING_OFF = "tracing_off"
    TRACING_FAILED = "tracing_failed"


_E = LogEvent
LEVELS = MappingProxyType(
    {
        _E.CONFIG_RELOADED: Level.WARNING,
        _E.CONFIG_REFUSED: Level.ERROR,
        _E.BREAKER_OPENED: Level.WARNING,
        _E.PROVIDER_HELD: Level.WARNING,
        _E.JOB_CLAIMED: Level.DETAIL,
        _E.JOB_SUCCEEDED: Level.DETAIL,
        _E.JOB_PARKED: Level.DETAIL,
        _E.JOB_RETRY: Level.WARNING,
        _E.JOB_HELD: Level.WARNING,
        _E.JOB_DEAD_LETTER: Level.ERROR,
        _E.LEASE_LOST: Level.WARNING,
        _E.LEASES_RESCUED: Level.WARNING,
        _E.JOBS_EXPIRED: Level.WARNING,
        _E.ORPHAN_CANCELLED: Level.WARNING,
        _E.CANCEL_UNCONFIRMED: Level.WARNING,
        _E.END_REFUSED: Level.ERROR,
        _E.RESULTS_NOT_SAVED: Level.ERROR,
        _E.SIDE_TASK_DIED: Level.ERROR,
        _E.NOTIFIED: Level.DETAIL,
        _E.NOTIFICATION_FAILED: Level.WARNING,
        _E.NOTIFICATION_NOT_SAVED: Level.WARNING,
        _E.ALERT: Level.ERROR,
        _E.STORE_LOST: Level.ERROR,
        _E.STORE_BACK: Level.WARNING,
        _E.STORE_WARNING: Level.WARNING,
        _E.REQUEST_FAILED: Level.ERROR,
        _E.DELIVERY_CONTRADICTS: Level.WARNING,
        _E.DELIVERY_REFUSED: Level.WARNING,
        _E.DELIVERY_NOT_SAVED: Level.ERROR,
        _E.REFUSALS_NOT_SAVED: Level.WARNING,
        _E.ORPHAN_ADOPTED: Level.WARNING,
        _E.LATE_OUTCOME: Level.WARNING,
        _E.DELIVERIES_EXPIRED: Level.WARNING,
        _E.TRACING_OFF: Level.WARNING,
        _E.TRACING_FAILED: Level.WARNING,
    }
)
"""The level of each event; what is not named here is INFO."""


def level_of(event: LogEvent) -> Level:
    """How much *event* matters."""
    return LEVELS.get(event, Level.INFO)


class Log(Protocol):
    """Where events go."""

    def wants(self, event: LogEvent) -> bool:
        """Whether *event* would be shown; asked before the fields of an event a job are put together."""
        ...

    def emit(self, event: LogEvent, /, *, level: Level | None = None, **fields: object) -> None:
        """Say that *event* happened; with *level*, it matters so much this time, whatever it does else."""
        ...


class Unheard:
    """A log nobody reads."""

    def wants(self, event: LogEvent) -> bool:  # noqa: ARG002  # the protocol's
        return False

    def emit(self, event: LogEvent, /, *, level: Level | None = None, **fields: object) -> None:
        """Nothing."""
