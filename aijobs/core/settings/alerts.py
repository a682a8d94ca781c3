"""The alert rules: what counts as wrong, over which span, and how loud."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from aijobs.core.settings.fields import Count, Duration, Flag, Interval, Name, Section, Table, part

Severity = Literal["P1", "P2", "P3"]


class AlertRule(Section):
    """One rule. *above* counts or is a share, *longer_than* is a time; each rule uses one of them."""

    enabled: Annotated[Flag, Field(description="false turns it off")] = True
    severity: Annotated[Severity, Field(description="P1 wakes somebody, P3 is for the morning")] = "P2"
    window: Annotated[Interval, Field(description="the span that is looked at")] = timedelta(minutes=5)
    above: Annotated[
        float, Field(description="fires above this count, share or factor; for the other rules", ge=0, le=1e9)
    ] = 0.0
    longer_than: Annotated[
        Duration | None, Field(description="fires when it takes longer than this; for rules about time")
    ] = None
    min_samples: Annotated[Count, Field(description="with fewer samples it keeps quiet")] = 1


class AlertRules(Table):
    """All rules there are."""

    stuck: AlertRule = part(
        "a job is processing for longer (parked jobs: past their own bound)",
        severity="P2", longer_than="10m",
    )  # fmt: skip
    retries: AlertRule = part("a job was retried more often than this", severity="P3", above=2)
    failure_rate: AlertRule = part(
        "share of finished jobs that failed", severity="P1", above=0.05, min_samples=20
    )
    queue_wait: AlertRule = part(
        "the oldest job that could run waits for longer", severity="P2", longer_than="10m"
    )
    queue_wait_rising: AlertRule = part(
        "waiting time against the window before, as a factor", severity="P3", above=2,
        window="15m", min_samples=20,
    )  # fmt: skip
    success_falling: AlertRule = part(
        "drop of the success share against the window before", severity="P2", above=0.1,
        window="15m", min_samples=20,
    )  # fmt: skip
    rate_limited_rising: AlertRule = part(
        "429s against the window before, as a factor",
        severity="P3",
        above=2,
        window="15m",
        min_samples=10,
    )
    leases_expired: AlertRule = part(
        "leases that ran out in the window", severity="P2", above=3, window="15m"
    )
    webhook_delay: AlertRule = part(
        "from the provider's end to our knowing it",
        severity="P3",
        longer_than="5m",
        window="15m",
    )
    dead_letters: AlertRule = part("new dead letters in the window", severity="P2", window="15m")


class AlertSettings(Section):
    """When an operator is told, and how often about the same thing."""

    silence: Annotated[Duration, Field(description="the same alert is not repeated within this")] = timedelta(
        minutes=30
    )
    notify: Annotated[tuple[Name, ...], Field(description="which of notify are told")] = ()
    rules: AlertRules = part("the rules; what is left out keeps its default")
