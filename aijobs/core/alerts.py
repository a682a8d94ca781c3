"""The alert rules: one definition each, for the evaluation on the store and for Prometheus. Pure.

A definition says what is measured (from the overview), in which unit, and how the same is said in PromQL.
When it fires is the configuration's: bounds, windows, floors of samples, severities (`alerts.rules`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from aijobs.core import totals as names
from aijobs.core.durations import format_duration
from aijobs.core.overview import Load, Overview, Window, age
from aijobs.core.settings import AlertRule, AlertSettings, Settings

_NO_TIME = timedelta(0)
_LEAST_WAIT = 1.0  # seconds; below that a rise is noise


@dataclass(frozen=True, slots=True)
class Sight:
    """What a rule looks at: the whole, and through its own window what was lately."""

    overview: Overview
    rule: AlertRule
    settings: Settings

    @property
    def window(self) -> Window:
        """The rule's window, up to now."""
        return self.overview.lately(self.rule.window)

    @property
    def window_before(self) -> Window:
        """The window before that one."""
        return self.overview.lately(self.rule.window, before=self.rule.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a rule measured: None when there is nothing to measure. *worst* names what it is worst for."""

    value: float | None
    samples: int
    worst: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule, evaluated."""

    rule: str
    severity: str
    firing: bool
    value: float | None
    threshold: float
    samples: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Unit:
    """What a value is of: how it is put into words here, and how a template of Prometheus does it."""

    words: Callable[[float], str]
    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A rule. *samples* is PromQL for the floor, None where 1 is enough."""

    name: str
    summary: str
    measure: Callable[[Sight], Reading]
    expr: Callable[[AlertRule], str]
    unit: Unit
    samples: Callable[[AlertRule], tuple[str, ...]] | None = None


def evaluate(overview: Overview, settings: Settings) -> list[Alert]:
    """Every enabled rule, the loudest first."""
    found = [
        _evaluated(one, overview, rule, settings)
        for one, rule in _with_rules(settings.alerts)
        if rule.enabled
    ]
    return sorted(found, key=lambda alert: (alert.severity, alert.rule))


def threshold_of(rule: AlertRule) -> float:
    """What a value must be above: a count, a share, a factor, or seconds."""
    return rule.above if rule.longer_than is None else rule.longer_than.total_seconds()


def expression(definition: Definition, rule: AlertRule) -> str:
    """The rule in PromQL: above its bound, and with enough samples to mean something."""
    parts = [f"({definition.expr(rule)}) > {threshold_of(rule):g}"]
    if definition.samples and rule.min_samples > 1:
        parts += [f"{samples} >= {rule.min_samples}" for samples in definition.samples(rule)]
    return " and ".join(parts)


def prometheus_rules(settings: Settings) -> dict[str, object]:
    """The rules file of Prometheus as a value: those that are enabled, as one group."""
    rules = [
        {
            "alert": "Aijobs" + one.name.title().replace("_", ""),
            "expr": expression(one, rule),
            "labels": {"severity": rule.severity},
            "annotations": {
                "summary": one.summary,
                "description": f"{one.unit.template}, above {one.unit.words(threshold_of(rule))}",
            },
        }
        for one, rule in _with_rules(settings.alerts)
        if rule.enabled
    ]
    return {"groups": [{"name": "aijobs", "rules": rules}]}


def _with_rules(settings: AlertSettings) -> Iterator[tuple[Definition, AlertRule]]:
    for one in DEFINITIONS:
        yield one, getattr(settings.rules, one.name)


def _evaluated(one: Definition, overview: Overview, rule: AlertRule, settings: Settings) -> Alert:
    reading = one.measure(Sight(overview, rule, settings))
    threshold = threshold_of(rule)
    enough = reading.samples >= rule.min_samples
    firing = enough and reading.value is not None and reading.value > threshold
    if reading.value is None:
        evidence = "nothing to measure"
    else:
        evidence = one.unit.words(reading.value) + (f" ({reading.worst})" if reading.worst else "")
    if reading.value is not None and not enough:
        evidence += f"; {reading.samples} samples of {rule.min_samples}"
    return Alert(
        rule=one.name, severity=rule.severity, firing=firing, value=reading.value, threshold=threshold,
        samples=reading.samples, evidence=evidence,
    )  # fmt: skip


# --- What is measured ------------------------------------------------------------------------------


def _worst(values: Mapping[str, float], samples: int) -> Reading:
    """The highest of the values of the types."""
    name = max(values, key=lambda name: values[name], default=None)
    if name is None:
        return Reading(value=None, samples=samples)
    return Reading(value=values[name], samples=samples, worst=name if values[name] else None)


def stuck_for(seen: Overview, name: str, load: Load, settings: Settings) -> timedelta:
    """How long the oldest job of a type has been processing; what a provider does alone, beyond its bound."""
    kind = settings.types.get(name)
    bound = kind.background_options.max_run if kind else _NO_TIME
    parked = (age(seen.now, load.oldest_parked_at) or _NO_TIME) - bound
    return max(age(seen.now, load.oldest_running_at) or _NO_TIME, parked, _NO_TIME)


def _stuck(sight: Sight) -> Reading:
    seen = sight.overview
    values = {
        name: stuck_for(seen, name, load, sight.settings).total_seconds() for name, load in seen.loads.items()
    }
    return _worst(values, seen.total.running + seen.total.parked)


def _retries(sight: Sight) -> Reading:
    values: dict[str, float] = {
        name: sight.overview.lately(sight.rule.window, type_name=name).most_retries
        for name in sight.overview.loads
    }
    return _worst(values, sight.window.failed)


def _failure_rate(sight: Sight) -> Reading:
    window = sight.window
    rate = window.dead_letter / window.ended if window.ended else None
    return Reading(value=rate, samples=window.ended)


def _queue_wait(sight: Sight) -> Reading:
    seen = sight.overview
    values = {
        name: (age(seen.now, load.oldest_ready_at) or _NO_TIME).total_seconds()
        for name, load in seen.loads.items()
    }
    return _worst(values, seen.total.ready)


def _queue_wait_rising(sight: Sight) -> Reading:
    now, before = sight.window, sight.window_before
    if now.mean_wait is None or before.mean_wait is None:
        return Reading(value=None, samples=min(now.started, before.started))
    factor = now.mean_wait / max(before.mean_wait, _LEAST_WAIT)
    return Reading(value=factor, samples=min(now.started, before.started))


def _success_falling(sight: Sight) -> Reading:
    now, before = sight.window, sight.window_before
    if now.success_rate is None or before.success_rate is None:
        return Reading(value=None, samples=min(now.ended, before.ended))
    drop = max(0.0, before.success_rate - now.success_rate)
    return Reading(value=drop, samples=min(now.ended, before.ended))


def _rate_limited_rising(sight: Sight) -> Reading:
    now, before = sight.window.rate_limited, sight.window_before.rate_limited
    return Reading(value=now / max(before, 1), samples=now)


def _leases_expired(sight: Sight) -> Reading:
    lost = sight.window.lost
    return Reading(value=lost, samples=lost)


def _webhook_delay(sight: Sight) -> Reading:
    window = sight.window
    return Reading(value=window.longest_webhook_seconds, samples=window.webhooks)


def _dead_letters(sight: Sight) -> Reading:
    dead = sight.window.dead_letter
    return Reading(value=dead, samples=dead)


# --- The same in PromQL ----------------------------------------------------------------------------


def _span(rule: AlertRule) -> str:
    return f"[{rule.window.total_seconds():.0f}s]"


def _before(rule: AlertRule) -> str:
    return f"{_span(rule)} offset {rule.window.total_seconds():.0f}s"


_DEAD = f'{names.FINAL_STATUS}{{status="dead_letter"}}'
_ENDED = f'{names.FINAL_STATUS}{{status=~"succeeded|dead_letter"}}'
_LIMITED = f'{names.ATTEMPTS}{{error_class="rate_limited"}}'


def _sum(series: str, span: str) -> str:
    return f"sum(increase({series}{span}))"


def _number(series: str, span: str) -> str:
    """How many there were; `increase` guesses beyond the first and the last sample, by a fraction of one."""
    return f"round({_sum(series, span)})"


def _failures(span: str) -> str:
    return f"{_sum(_DEAD, span)} / {_sum(_ENDED, span)}"


def _mean_wait(span: str) -> str:
    return f"{_sum(names.QUEUE_WAIT + '_sum', span)} / {_sum(names.QUEUE_WAIT + '_count', span)}"


def _both(series: str) -> Callable[[AlertRule], tuple[str, ...]]:
    return lambda rule: (_number(series, _span(rule)), _number(series, _before(rule)))


def _now(series: str) -> Callable[[AlertRule], tuple[str, ...]]:
    return lambda rule: (_number(series, _span(rule)),)


# --- In words --------------------------------------------------------------------------------------

_FACTOR = "times the window before"
_SECONDS = Unit(
    lambda value: format_duration(timedelta(seconds=round(value))), "{{ $value | humanizeDuration }}"
)
_SHARE = Unit(lambda value: f"{value * 100:.1f} %", "{{ $value | humanizePercentage }}")
_TIMES = Unit(lambda value: f"{value:.1f} {_FACTOR}", '{{ $value | printf "%.1f" }} ' + _FACTOR)
_COUNT = Unit(lambda value: f"{value:g}", "{{ $value }}")
_RETRIES = Unit(lambda value: f"{value:g} retries of one job", "{{ $value }} retries")


DEFINITIONS = (
    Definition(
        name="stuck",
        summary="A job has been processing for too long.",
        measure=_stuck,
        expr=lambda _: "max(aijobs_task_stuck_duration_seconds)",
        unit=_SECONDS,
    ),
    Definition(
        name="retries",
        summary="A job was retried too often.",
        measure=_retries,
        expr=lambda _: "max(aijobs_task_retries_max)",
        unit=_RETRIES,
    ),
    Definition(
        name="failure_rate",
        summary="Too large a share of the jobs that ended failed.",
        measure=_failure_rate,
        expr=lambda rule: _failures(_span(rule)),
        unit=_SHARE,
        samples=_now(_ENDED),
    ),
    Definition(
        name="queue_wait",
        summary="A job that could run has waited for too long.",
        measure=_queue_wait,
        expr=lambda _: "max(aijobs_oldest_ready_age_seconds)",
        unit=_SECONDS,
    ),
    Definition(
        name="queue_wait_rising",
        summary="Jobs wait much longer than before.",
        measure=_queue_wait_rising,
        expr=lambda rule: (
            f"({_mean_wait(_span(rule))}) / clamp_min({_mean_wait(_before(rule))}, {_LEAST_WAIT:g})"
        ),
        unit=_TIMES,
        samples=_both(names.QUEUE_WAIT + "_count"),
    ),
    Definition(
        name="success_falling",
        summary="A smaller share of the jobs succeeds than before.",
        measure=_success_falling,
        expr=lambda rule: f"{_failures(_span(rule))} - {_failures(_before(rule))}",
        unit=_SHARE,
        samples=_both(_ENDED),
    ),
    Definition(
        name="rate_limited_rising",
        summary="Providers refuse more calls for their rate than before.",
        measure=_rate_limited_rising,
        expr=lambda rule: f"{_sum(_LIMITED, _span(rule))} / clamp_min({_sum(_LIMITED, _before(rule))}, 1)",
        unit=_TIMES,
        samples=_now(_LIMITED),
    ),
    Definition(
        name="leases_expired",
        summary="Workers lose their leases: they crash, hang or lose the store.",
        measure=_leases_expired,
        expr=lambda rule: _number(names.LEASES_LOST, _span(rule)),
        unit=_COUNT,
    ),
    Definition(
        name="webhook_delay",
        summary="Webhooks come late.",
        measure=_webhook_delay,
        expr=lambda _: "max(aijobs_webhook_delay_longest_seconds)",
        unit=_SECONDS,
    ),
    Definition(
        name="dead_letters",
        summary="There are new dead letters.",
        measure=_dead_letters,
        expr=lambda rule: _number(names.DEAD_LETTERS, _span(rule)),
        unit=_COUNT,
    ),
)
"""One for each rule that the configuration knows."""
