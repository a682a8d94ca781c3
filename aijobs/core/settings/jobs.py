"""The job types: which provider and model, how long, how often, and what to do when it goes wrong."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aijobs.core.settings.fields import (
    Count,
    Duration,
    Flag,
    Interval,
    JsonObject,
    Length,
    Name,
    Priority,
    Ratio,
    Section,
    Slots,
    Text,
    Timeout,
    part,
)

Tier = Literal["simple", "medium", "complex"]


class BackgroundSettings(Section):
    """How a call that the provider runs in the background is followed."""

    poll_first: Annotated[Interval, Field(description="first look after the call")] = timedelta(seconds=2)
    poll_factor: Annotated[
        float, Field(description="each wait is this many times the one before", ge=1, le=10)
    ] = 1.5
    poll_cap: Annotated[Interval, Field(description="longest wait between looks")] = timedelta(seconds=30)
    max_queue_wait: Annotated[
        Duration,
        Field(description="longest time the work may be queued at the provider; then it is cancelled there"),
    ] = timedelta(hours=1)
    max_run: Annotated[
        Duration, Field(description="longest time from the call to its end; then it is cancelled there")
    ] = timedelta(hours=3)
    completion_window: Annotated[
        Literal["soonest", "2h", "8h"],
        Field(description="when the work has to be done; asked of OpenAI, where later is cheaper"),
    ] = "soonest"

    @model_validator(mode="after")
    def _spans_fit(self) -> Self:
        if self.poll_first > self.poll_cap:
            raise ValueError("poll_first must not be longer than poll_cap")
        if self.max_queue_wait > self.max_run:
            raise ValueError("max_queue_wait must not be longer than max_run")
        windows = {"soonest": timedelta(0), "2h": timedelta(hours=2), "8h": timedelta(hours=8)}
        if self.max_run <= windows[self.completion_window]:
            raise ValueError(f"max_run must be longer than the completion window ({self.completion_window})")
        return self


class StaleResults(Section):
    """Whether the last successful result may stand in for a new one."""

    allowed: Annotated[
        Flag, Field(description="whether it may, once switched on with `aijobs switch set stale-results`")
    ] = False
    max_age: Annotated[Duration, Field(description="how old it may be; an older one is not given")] = (
        timedelta(days=1)
    )


class Approvals(Section):
    """Who uses another provider has had these four looked at; all must be true."""

    quality: Annotated[Flag, Field(description="its answers are good enough")] = False
    privacy: Annotated[Flag, Field(description="it may see the data")] = False
    region: Annotated[Flag, Field(description="it may be used where the data is")] = False
    cost: Annotated[Flag, Field(description="its price is accepted")] = False


class FallbackSettings(Section):
    """Another provider for the same work; used only where approved, and only while switched on."""

    provider: Annotated[Name, Field(description="one of providers")]
    model: Annotated[Text | None, Field(description="the model there")] = None
    request: Annotated[
        JsonObject, Field(description="replaces the type's request there", default_factory=dict)
    ]
    approved: Approvals = part("what was approved")

    @property
    def missing_approvals(self) -> tuple[str, ...]:
        """What nobody has approved yet; empty when it may be switched on."""
        return tuple(name for name, given in self.approved if not given)


class ShadowSettings(Section):
    """A share of the jobs also goes to a candidate; its answers are compared, never delivered."""

    provider: Annotated[Name, Field(description="one of providers")]
    model: Annotated[Text | None, Field(description="the candidate model")] = None
    request: Annotated[
        JsonObject, Field(description="replaces the type's request there", default_factory=dict)
    ]
    share: Annotated[Ratio, Field(description="the share of jobs, 0 to 1")] = 0.05
    fields: Annotated[
        tuple[Text, ...], Field(description="fields of a JSON result to compare; none: all")
    ] = ()


class GrowOutput(Section):
    """After a truncated answer, ask once more: the limit that the type's request names grows."""

    factor: Annotated[float, Field(description="the limit grows by this factor", gt=1, le=10)] = 2.0
    max: Annotated[Count, Field(description="never more output tokens than this")] = 32_000


class TypeSettings(Section):
    """One job type."""

    provider: Annotated[Name, Field(description="which of providers is called")]
    model: Annotated[Text | None, Field(description="the model; not every provider needs one")] = None
    version: Annotated[
        Text | None, Field(description="your code's version, kept with each job; default: that of aijobs")
    ] = None
    background: Annotated[
        Flag, Field(description="let the provider run it by itself; the worker's slot is free meanwhile")
    ] = False
    background_options: BackgroundSettings = part("how it is followed")
    tier: Annotated[
        Tier, Field(description="how hard the work is, which is how long a call may take: see timeouts.tiers")
    ] = "medium"
    timeout: Annotated[
        Timeout | None,
        Field(description="for one call; auto is learned from past runs; default: that of the tier"),
    ] = None
    max_attempts: Annotated[
        int,
        Field(
            description="attempts that count, in one round; then the job becomes a dead letter",
            strict=True,
            ge=1,
            le=1000,
        ),
    ] = 5
    max_replays: Annotated[
        int, Field(description="how often one job may be replayed", strict=True, ge=0, le=1000)
    ] = 5
    deadline: Annotated[
        Duration | None, Field(description="how long after enqueue the job is given up; default: never")
    ] = None
    concurrency: Annotated[
        Slots | None, Field(description="jobs at once over all workers; 0 pauses; none: no limit")
    ] = None
    per_user: Annotated[
        Slots | None, Field(description="jobs at once of one user; 0 pauses; none: no limit")
    ] = None
    backlog: Annotated[
        Length | None, Field(description="due jobs that may wait; with so many, enqueue is refused")
    ] = None
    backlog_per_user: Annotated[Length | None, Field(description="the same for the jobs of one user")] = None
    priority: Annotated[Priority, Field(description="of jobs that name none; higher goes first")] = 0
    prompt: Annotated[
        str | None,
        Field(
            description="sandboxed Jinja template over the input; none: see providers.md", max_length=100_000
        ),
    ] = None
    request: Annotated[
        JsonObject, Field(description="merged into the provider's request", default_factory=dict)
    ]
    input_schema: Annotated[
        JsonObject | None, Field(description="JSON Schema that every input must meet")
    ] = None
    expect: Annotated[
        Literal["text", "json"], Field(description="json: an answer that is no JSON is a failure")
    ] = "text"
    response_format: Annotated[
        JsonObject | None, Field(description="JSON Schema asked of the provider; implies expect: json")
    ] = None
    grow_output: Annotated[
        GrowOutput | None,
        Field(description="ask once more, with more room, after a truncated answer; none: never"),
    ] = None
    key_ttl: Annotated[
        Duration | None, Field(description="how long a key is remembered; default keys.ttl")
    ] = None
    on_unknown_outcome: Annotated[
        Literal["retry", "hold"],
        Field(description="when nobody knows whether a call was made: try again, or hold for a person"),
    ] = "retry"
    stale_results: StaleResults = part("the last result in place of a new one")
    fallback: Annotated[FallbackSettings | None, Field(description="another provider, once approved")] = None
    shadow: Annotated[ShadowSettings | None, Field(description="a candidate to compare with")] = None
    notify: Annotated[tuple[Name, ...], Field(description="which of notify are told of the end")] = ()

    def route(self, *, fallback: bool) -> tuple[str, str | None]:
        """Provider and model of a call: the type's own, or with *fallback* (it is switched on) those of the
        fallback, if everything about it is approved.
        """
        if fallback and self.fallback is not None and not self.fallback.missing_approvals:
            return self.fallback.provider, self.fallback.model
        return self.provider, self.model

    def is_fallback(self, provider: str | None, model: str | None) -> bool:
        """Whether a call to that provider and model is one to the fallback."""
        if self.fallback is None or (provider, model) == (self.provider, self.model):
            return False
        return (provider, model) == (self.fallback.provider, self.fallback.model)

    @property
    def expects_json(self) -> bool:
        """Whether an answer that is not JSON is a failure."""
        return self.expect == "json" or self.response_format is not None
