"""The whole at one moment, as a value: what waits, runs and failed, who works, what holds calls back.

Statistics, metrics, alerts, the live view and the diagnosis of the system all read this one value.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from aijobs.core.switches import Switch
from aijobs.core.totals import PEAKS

OTHER = "other"
"""Stands for every type, provider or model that the configuration does not name: labels stay few."""

OVERDUE = timedelta(minutes=5)
"""What should have happened so long ago and has not is worth telling a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened within a span, over all types or of one."""

    succeeded: int = 0
    dead_letter: int = 0
    cancelled: int = 0
    attempts: int = 0
    failed: int = 0
    rate_limited: int = 0
    lost: int = 0
    started: int = 0
    waited_seconds: float = 0.0
    webhooks: int = 0
    most_retries: int = 0
    longest_webhook_seconds: float = 0.0

    @property
    def ended(self) -> int:
        """Jobs that succeeded or became dead letters; a cancelled one says nothing of success."""
        return self.succeeded + self.dead_letter

    @property
    def success_rate(self) -> float | None:
        """The share of `ended` that succeeded; None when none ended."""
        return self.succeeded / self.ended if self.ended else None

    @property
    def mean_wait(self) -> float | None:
        """Seconds from when a job could run to its claim; None when none was claimed."""
        return self.waited_seconds / self.started if self.started else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute(Window):
    """The window of one minute, over the jobs of one type."""

    minute: datetime
    type: str


_COUNTS = tuple(one.name for one in fields(Window))


def window_of(minutes: Iterable[Minute]) -> Window:
    """The sum of *minutes*; of peaks the highest."""
    sums: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
    for one in minutes:
        for name in _COUNTS:
            value = getattr(one, name)
            sums[name] = max(sums[name], value) if name in PEAKS else sums[name] + value
    return Window(**sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The jobs of one type that have not ended."""

    ready: int = 0  # could start now, as far as their time goes
    oldest_ready_at: datetime | None = None  # since when the oldest of them could
    delayed: int = 0  # accepted for later
    retrying: int = 0  # failed, and wait for their next try
    held: int = 0  # failed, and wait for a person
    running: int = 0
    oldest_running_at: datetime | None = None
    parked: int = 0  # a provider works on them, and no worker
    oldest_parked_at: datetime | None = None  # when the oldest call in the background began
    expired: int = 0  # of those running, the lease has run out

    @property
    def waiting(self) -> int:
        """All that have neither begun nor are held."""
        return self.ready + self.delayed + self.retrying


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """A worker of the register. *types* None: it takes every type. *alive*: heard of within its lease."""

    name: str
    host: str
    state: str
    concurrency: int
    types: tuple[str, ...] | None
    started_at: datetime
    heartbeat_at: datetime
    alive: bool

    def serves(self, type_name: str) -> bool:
        """Whether it would start a job of that type now."""
        return self.alive and self.state == "running" and (self.types is None or type_name in self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSeen:
    """How a provider is, and how many more calls it may be sent (None: no bound of its own)."""

    name: str
    breaker: str
    in_flight: int
    allowed: int | None
    reason: str
    again_at: datetime | None = None
    since: datetime | None = None
    held: bool = False
    paused_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSeen:
    """A schedule: how many windows were left out so far, and since when one is overdue (None: none is)."""

    name: str
    skipped: int = 0
    overdue_since: datetime | None = None
    last_tick_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs; field order is that of the query."""

    id: str
    type: str
    user: str
    provider: str | None
    worker: str | None
    claimed_at: datetime
    locked_until: datetime
    parked_at: datetime | None


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job whose last attempt failed; field order is that of the query. *dead*: it is a dead letter."""

    at: datetime
    id: str
    type: str
    error_class: str | None
    error_code: str | None
    dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything at *now*. Loads hold every configured type, and others only while they have jobs."""

    now: datetime
    loads: Mapping[str, Load]
    dead_letters: Mapping[tuple[str, str], int] = field(default_factory=dict)  # open, by (type, error class)
    oldest_dead_letter_at: datetime | None = None
    minutes: tuple[Minute, ...] = ()
    providers: tuple[ProviderSeen, ...] = ()
    workers: tuple[WorkerSeen, ...] = ()
    switches: tuple[Switch, ...] = ()
    schedules: tuple[ScheduleSeen, ...] = ()
    unmatched: int = 0
    oldest_unmatched_at: datetime | None = None
    notifications_overdue: Mapping[str, int] = field(default_factory=dict)  # by target

    def lately(
        self, span: timedelta, *, before: timedelta = timedelta(0), type_name: str | None = None
    ) -> Window:
        """What happened in the *span* that ended *before* ago, to the minute (the running one counts)."""
        end = self.now - before
        found = (
            one
            for one in self.minutes
            if end - span < one.minute <= end and (type_name is None or one.type == type_name)
        )
        return window_of(found)

    @property
    def alive(self) -> tuple[WorkerSeen, ...]:
        """The workers heard of within their lease."""
        return tuple(worker for worker in self.workers if worker.alive)

    @property
    def total(self) -> Load:
        """The loads of all types together."""
        return together(self.loads.values())


def together(loads: Iterable[Load]) -> Load:
    """Several loads as one."""
    found = list(loads)
    sums: dict[str, Any] = {
        name: sum(getattr(load, name) for load in found)
        for name in ("ready", "delayed", "retrying", "held", "running", "parked", "expired")
    }
    for name in ("oldest_ready_at", "oldest_running_at", "oldest_parked_at"):
        sums[name] = min((at for load in found if (at := getattr(load, name))), default=None)
    return Load(**sums)


def age(now: datetime, since: datetime | None) -> timedelta | None:
    """How long ago *since* was, never less than nothing; None when there is none."""
    return None if since is None else max(timedelta(0), now - since)
