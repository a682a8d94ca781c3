"""How the machinery runs: workers, limits, time budgets, how long things are kept."""

from datetime import date, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from aijobs.core.settings.fields import (
    Count,
    Duration,
    Priority,
    Ratio,
    Retention,
    Section,
    Size,
    Slots,
    Wait,
    part,
)


class Reserved(Section):
    """Places of the global limit that are kept for urgent jobs."""

    slots: Annotated[
        Slots, Field(description="so many places of concurrency.global; it has to be larger")
    ] = 0
    priority: Annotated[Priority, Field(description="they are for jobs of at least this priority")] = 1


class Concurrency(Section):
    """How many jobs run at once over all workers."""

    global_: Annotated[
        Slots | None,
        Field(alias="global", description="jobs at once in all; 0 pauses everything; none: no limit"),
    ] = None
    per_user: Annotated[
        Slots | None, Field(description="jobs at once of one user, over all types; 0 pauses; none: no limit")
    ] = None
    parked: Annotated[
        Literal["counted", "free"],
        Field(description="whether what runs in the background at a provider counts in all limits"),
    ] = "counted"
    reserved: Reserved = part("places of global kept for urgent jobs")

    @model_validator(mode="after")
    def _reserves_less_than_there_is(self) -> Self:
        if self.reserved.slots and (self.global_ is None or self.reserved.slots >= self.global_):
            raise ValueError("reserved.slots needs a larger global: it is a part of it")
        return self


SHORTEST_LEASE = timedelta(seconds=1)


class WorkerSettings(Section):
    """One worker process."""

    concurrency: Annotated[
        int, Field(description="jobs at once in this process", strict=True, ge=1, le=10_000)
    ] = 10
    lease: Annotated[
        Duration,
        Field(
            description="after this silence of a worker the others take its jobs over",
            ge=SHORTEST_LEASE,
        ),
    ] = timedelta(seconds=60)
    heartbeat: Annotated[
        Duration | None,
        Field(description="how often leases are renewed, at most half of lease; default: a third of it"),
    ] = None
    grace: Annotated[
        Wait, Field(description="at shutdown, how long running jobs may go on before they are handed back")
    ] = timedelta(seconds=30)
    poll: Annotated[
        Duration,
        Field(
            description="how often an idle worker looks by itself, should no wake-up come",
            ge=timedelta(milliseconds=10),
        ),
    ] = timedelta(seconds=1)

    @property
    def renew_every(self) -> timedelta:
        """How often the leases are renewed."""
        return self.heartbeat or self.lease / 3

    @model_validator(mode="after")
    def _beats_within_the_lease(self) -> Self:
        if self.heartbeat and self.heartbeat > self.lease / 2:
            raise ValueError("heartbeat must be at most half of lease, so that one missed beat loses nothing")
        return self


class KeySettings(Section):
    """Idempotency keys."""

    ttl: Annotated[
        Duration, Field(description="how long a key is remembered, whatever becomes of the job")
    ] = timedelta(days=30)


class SizeLimits(Section):
    """How large things may be."""

    input_bytes: Annotated[
        Size, Field(description="a job's input, in bytes of JSON; a larger one is refused")
    ] = 10 << 20
    input_depth: Annotated[
        int, Field(description="how deep a job's input may nest", strict=True, ge=1, le=1000)
    ] = 100
    prompt_bytes: Annotated[
        Size, Field(description="a rendered prompt, in bytes; a job with a larger one fails")
    ] = 10 << 20
    result_bytes: Annotated[
        int,
        Field(
            description="a job's result, in bytes of JSON; a larger one is cut and says so",
            strict=True, ge=1024, le=1 << 30,
        ),
    ] = 10 << 20  # fmt: skip


class Tiers(Section):
    """How long one call may take, by how hard the work is."""

    simple: Annotated[Duration, Field(description="one call of a type of tier simple")] = timedelta(
        seconds=10
    )
    medium: Annotated[Duration, Field(description="the same for medium")] = timedelta(seconds=60)
    complex: Annotated[Duration, Field(description="the same for complex")] = timedelta(seconds=180)

    def of(self, tier: str) -> timedelta:
        """What *tier* (simple, medium, complex) allows."""
        return {"simple": self.simple, "medium": self.medium, "complex": self.complex}[tier]

    @model_validator(mode="after")
    def _rise(self) -> Self:
        if not self.simple <= self.medium <= self.complex:
            raise ValueError("tiers must not shrink from simple to medium to complex")
        return self


class AutoTimeout(Section):
    """How `timeout: auto` learns from a type's own runs; always within half and three times its tier."""

    quantile: Annotated[
        Ratio,
        Field(description="this quantile of the run times of the type's own successful calls ...", ge=0.5),
    ] = 0.95
    margin: Annotated[float, Field(description="... times this", ge=1, le=10)] = 1.5
    min_samples: Annotated[Count, Field(description="with fewer successful runs the tier holds")] = 20
    max_samples: Annotated[Count, Field(description="the latest runs that are looked at")] = 200


class TimeoutSettings(Section):
    """The budgets around a job. Those of other layers are only compared; leave out what you do not have."""

    client: Annotated[
        Duration | None, Field(description="how long whoever enqueues waits for the answer")
    ] = None
    gateway: Annotated[
        Duration | None, Field(description="how long the proxy between caller and server waits")
    ] = None
    function: Annotated[
        Duration | None, Field(description="the platform's limit on the process of the worker")
    ] = None
    save: Annotated[Duration, Field(description="how long writing a result may take")] = timedelta(seconds=2)
    tiers: Tiers = part("one call, by tier")
    auto: AutoTimeout = part("how timeout: auto learns")


class RetentionSettings(Section):
    """After how long `aijobs prune` removes what ended; `forever` keeps it. Open dead letters stay."""

    succeeded: Annotated[Retention, Field(description="succeeded jobs")] = timedelta(days=30)
    cancelled: Annotated[Retention, Field(description="cancelled jobs")] = timedelta(days=30)
    closed: Annotated[Retention, Field(description="dead letters that a person closed")] = timedelta(days=90)
    inputs: Annotated[Retention, Field(description="inputs of jobs that succeeded or were cancelled")] = (
        timedelta(days=7)
    )
    results: Annotated[Retention, Field(description="results, should they go before their job")] = "forever"
    deliveries: Annotated[Retention, Field(description="webhook deliveries and sent notifications")] = (
        timedelta(days=30)
    )
    records: Annotated[
        Retention, Field(description="usage by day, ended replays, events that belong to no job")
    ] = timedelta(days=400)


class Price(Section):
    """What a model's tokens cost, each per million, in whatever currency you count."""

    input: Annotated[float, Field(description="a million tokens of input that no cache had", ge=0)]
    output: Annotated[float, Field(description="a million tokens of output, reasoning included", ge=0)]
    cache_read: Annotated[
        float | None, Field(description="input read from a cache; default: as input", ge=0)
    ] = None
    cache_write: Annotated[
        float | None, Field(description="input written to a cache; default: as input", ge=0)
    ] = None
    since: Annotated[
        date | None, Field(alias="from", description="first day (UTC) of this price; default: always")
    ] = None

    @field_validator("since", mode="before")
    @classmethod
    def _a_day(cls, value: object) -> object:
        if isinstance(value, str):
            try:
                return date.fromisoformat(value) if len(value) == len("2026-01-31") else value
            except ValueError as error:
                raise ValueError(f"not a day like 2026-01-31: {error}") from None
        return value
