"""The alert rules: what counts as wrong, over which span, and how loud."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from aijobs.core.settings.fields import Count, Duration, Flag, Interval, Name, Section, Table

Severity = Literal["P1", "P2", "P3"]


class AlertRule(Section):
    """One rule. *above* counts or is a share, *longer_than* is a time; each rule uses one of them."""

    enabled: Annotated[Flag, Field(description="false turns it off")] = True
    severity: Annotated[Severity, Field(description="P1 wakes somebody, P3 is for the morning")] = "P2"
    window: Annotated[Interval, Field(description="the span looked at")] = timedelta(minutes=5)
    above: Annotated[float, Field(description="fires above this count, share or factor", ge=0, le=1e9)] = 0.0
    longer_than: Annotated[Duration | None, Field(description="fires when it takes longer than this")] = None
    min_samples: Annotated[Count, Field(description="with fewer samples it keeps quiet")] = 1


def _rule(text: str, **values: Any) -> Any:
    return Field(description=text, default=AlertRule(**values))


def _minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


class AlertRules(Table):
    """All rules there are."""

    stuck: AlertRule = _rule(
        "a job is processing for longer (parked jobs: past their own bound)",
        severity="P2", longer_than=_minutes(10),
    )  # fmt: skip
    retries: AlertRule = _rule("a job was retried more often than this", severity="P3", above=2)
    failure_rate: AlertRule = _rule(
        "share of finished jobs that failed", severity="P1", above=0.05, min_samples=20
    )
    queue_wait: AlertRule = _rule(
        "the oldest job that could run waits for longer", severity="P2", longer_than=_minutes(10)
    )
    queue_wait_rising: AlertRule = _rule(
        "waiting time against the window before, as a factor", severity="P3", above=2,
        window=_minutes(15), min_samples=20,
    )  # fmt: skip
    success_falling: AlertRule = _rule(
        "drop of the success share against the window before", severity="P2", above=0.1,
        window=_minutes(15), min_samples=20,
    )  # fmt: skip
    rate_limited_rising: AlertRule = _rule(
        "429s against the window before, as a factor",
        severity="P3",
        above=2,
        window=_minutes(15),
        min_samples=10,
    )
    leases_expired: AlertRule = _rule(
        "leases that ran out in the window", severity="P2", above=3, window=_minutes(15)
    )
    webhook_delay: AlertRule = _rule(
        "from the provider's end to our knowing it",
        severity="P3",
        longer_than=_minutes(5),
        window=_minutes(15),
    )
    dead_letters: AlertRule = _rule("new dead letters in the window", severity="P2", window=_minutes(15))


class AlertSettings(Section):
    """When an operator is told, and how often about the same thing."""

    silence: Annotated[Duration, Field(description="the same alert is not repeated within this")] = timedelta(
        minutes=30
    )
    notify: Annotated[tuple[Name, ...], Field(description="targets that are told; of notify")] = ()
    rules: Annotated[AlertRules, Field(description="the rules; what is left out keeps its default")] = (
        AlertRules()
    )
