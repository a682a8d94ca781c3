"""The metrics, computed from the store when they are asked for: what is idle reports nought, and no process
keeps a value that another one could contradict.

Labels come from the configuration alone: whatever it does not name is `other`, so that neither users nor
providers nor senders of webhooks can make a series.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from aijobs import __version__
from aijobs.core import exposition
from aijobs.core import totals as names
from aijobs.core.alerts import stuck_for
from aijobs.core.breaker import Breaker
from aijobs.core.exposition import Family, counter, gauge, histogram
from aijobs.core.model import FINAL, ErrorClass
from aijobs.core.overview import OTHER, Load, Overview, age, together
from aijobs.core.settings import Settings
from aijobs.core.signature import Refusal
from aijobs.core.switches import Pauses
from aijobs.core.totals import Series
from aijobs.services.statistics import Statistics
from aijobs.services.text_files import write_atomically
from aijobs.store import rollups
from aijobs.store.engine import Store

CONTENT_TYPE = exposition.CONTENT_TYPE

_HOUR = timedelta(hours=1)
_STATUSES = ("ready", "delayed", "retrying", "held", "running", "parked")

LabelKey = tuple[tuple[str, str], ...]


class Metrics:
    """The metrics of one store under one configuration."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._statistics = Statistics(store, settings)
        self._types = frozenset(settings.types)
        self._providers = frozenset(settings.providers)
        self._models = _models(settings)

    def text(self) -> str:
        """All of it in Prometheus' text format. Raises StoreError."""
        return exposition.render(self.families())

    def families(self) -> list[Family]:
        """All of it as values. Raises StoreError."""
        now = self.store.clock.now()
        with self.store.read() as tx:
            overview = self._statistics.look(tx, now)
            sums = rollups.sums(tx)
        return [*self._totals(sums), *self._gauges(overview)]

    def write(self, path: Path) -> None:
        """Write it to *path* so that whoever reads finds the old or the new text, never a part of one."""
        write_atomically(path, self.text())

    # --- Totals -------------------------------------------------------------------------------------

    def _totals(self, sums: Mapping[Series, float]) -> Iterator[Family]:
        found: dict[str, dict[LabelKey, float]] = defaultdict(lambda: defaultdict(float))
        for (metric, text), value in sums.items():
            found[metric][self._bounded(json.loads(text))] += value
        for metric, text in names.HELP.items():
            if metric in names.HISTOGRAMS:
                yield histogram(metric, text, _series(found, metric), names.SECONDS)
            else:
                series = {**self._noughts(metric), **found[metric]}
                yield counter(metric, text, [(dict(key), value) for key, value in sorted(series.items())])

    def _bounded(self, labels: Mapping[str, str]) -> LabelKey:
        known = {"type": self._types, "provider": self._providers, "error_class": _CLASSES}
        bounded = {}
        for name, value in labels.items():
            if name == "model":
                bounded[name] = self._model(value)
            else:
                bounded[name] = value if name not in known or value in known[name] | {_NONE} else OTHER
        return tuple(sorted(bounded.items()))

    def _model(self, value: str) -> str:
        """The configured model that *value* is, or is a dated edition of."""
        if value in self._models or value == _NONE:
            return value
        editions = [model for model in self._models if value.startswith(f"{model}-")]
        return max(editions, key=len, default=OTHER)

    def _noughts(self, metric: str) -> dict[LabelKey, float]:
        """Series that must be there before the first event: a counter that appears with 1 shows no rise."""
        types = sorted(self._types)
        if metric == names.FINAL_STATUS:
            return {_key(type=name, status=status.value): 0 for name in types for status in FINAL}
        if metric == names.LEASES_LOST:
            return {_key(type=name): 0 for name in types}
        if metric == names.DEAD_LETTERS:
            return {_key(type=name, error_class=one): 0 for name in types for one in _CLASSES}
        if metric == names.REFUSALS:
            taking = sorted(name for name, one in self.settings.providers.items() if one.webhook_secret)
            return {_key(provider=name, reason=one.value): 0 for name in taking for one in Refusal}
        if metric == names.ATTEMPTS:
            limited = ErrorClass.RATE_LIMITED.value
            return {
                _key(type=name, provider=kind.provider, outcome="failed", error_class=limited): 0
                for name, kind in self.settings.types.items()
            }
        return {}

    # --- How things stand ---------------------------------------------------------------------------

    def _gauges(self, seen: Overview) -> Iterator[Family]:
        yield gauge("aijobs_info", "The version that answers.", [({"version": __version__}, 1)])
        loads = self._loads(seen)
        yield from _of_types(seen, loads, self.settings)
        yield from self._of_dead_letters(seen, loads)
        yield from self._of_late(seen)
        yield from _of_providers(seen)
        yield from _of_workers(seen)
        yield from _of_messages(seen)
        yield from _of_schedules(seen)

    def _loads(self, seen: Overview) -> dict[str, list[Load]]:
        """The loads by label; those of types that are not configured together."""
        loads: dict[str, list[Load]] = {name: [] for name in sorted(self._types)}
        for name, load in seen.loads.items():
            loads.setdefault(name if name in self._types else OTHER, []).append(load)
        return loads

    def _of_dead_letters(self, seen: Overview, loads: Iterable[str]) -> Iterator[Family]:
        dead: dict[str, int] = dict.fromkeys(loads, 0)
        for (name, _), count in seen.dead_letters.items():
            label = name if name in self._types else OTHER
            dead[label] = dead.get(label, 0) + count
        yield gauge(
            "aijobs_dead_letters_open",
            "Dead letters that wait for a person, by type.",
            [({"type": name}, count) for name, count in sorted(dead.items())],
        )
        yield gauge(
            "aijobs_oldest_dead_letter_age_seconds",
            "Age of the oldest open dead letter; 0 when there is none.",
            [({}, _seconds(age(seen.now, seen.oldest_dead_letter_at)))],
        )

    def _of_late(self, seen: Overview) -> Iterator[Family]:
        rules = self.settings.alerts.rules
        yield gauge(
            "aijobs_success_rate",
            "Share of the jobs that ended in the last hour that succeeded, by type; none ended: absent.",
            [
                ({"type": name}, seen.lately(_HOUR, type_name=name).success_rate)
                for name in sorted(self._types)
            ],
        )
        yield gauge(
            "aijobs_task_retries_max",
            "Most retries of a job that was put back lately, by type.",
            [
                ({"type": name}, seen.lately(rules.retries.window, type_name=name).most_retries)
                for name in sorted(self._types)
            ],
        )
        yield gauge(
            "aijobs_webhook_delay_longest_seconds",
            "Longest time from a provider's event to its webhook, lately.",
            [({}, seen.lately(rules.webhook_delay.window).longest_webhook_seconds)],
        )


_NONE = "none"
_CLASSES = frozenset(one.value for one in ErrorClass)


def _of_types(seen: Overview, loads: Mapping[str, list[Load]], settings: Settings) -> Iterator[Family]:
    merged = {name: _merge(found) for name, found in loads.items()}
    yield gauge(
        "aijobs_jobs",
        "Jobs that have not ended, by type and status.",
        [
            ({"type": name, "status": status}, getattr(load, status))
            for name, load in merged.items()
            for status in _STATUSES
        ],
    )
    yield gauge(
        "aijobs_oldest_ready_age_seconds",
        "How long the oldest job that could run has waited, by type; 0 when none waits.",
        [({"type": name}, _seconds(age(seen.now, load.oldest_ready_at))) for name, load in merged.items()],
    )
    yield gauge(
        "aijobs_task_stuck_duration_seconds",
        "How long the oldest job has been processing, by type; one in the background: beyond its max_run.",
        [({"type": name}, _seconds(stuck_for(seen, name, load, settings))) for name, load in merged.items()],
    )
    yield gauge(
        "aijobs_leases_expired",
        "Leases that have run out and are not taken over yet, by type.",
        [({"type": name}, load.expired) for name, load in merged.items()],
    )
    pauses = Pauses.of(seen.switches, seen.now)
    yield gauge(
        "aijobs_type_paused",
        "1 while a type is paused.",
        [({"type": name}, bool(pauses.everything or name in pauses.types)) for name in merged],
    )


def _of_providers(seen: Overview) -> Iterator[Family]:
    yield gauge(
        "aijobs_provider_paused",
        "1 while a provider is sent nothing: paused, held, or its breaker is open.",
        [({"provider": one.name}, _is_paused(one.allowed, one.reason)) for one in seen.providers],
    )
    yield gauge(
        "aijobs_provider_breaker_state",
        "1 for the state that a provider's breaker is in.",
        [
            ({"provider": one.name, "state": state}, one.breaker == state)
            for one in seen.providers
            for state in Breaker
        ],
    )
    yield gauge(
        "aijobs_provider_calls_in_flight",
        "Calls to a provider that are under way.",
        [({"provider": one.name}, one.in_flight) for one in seen.providers],
    )


def _is_paused(allowed: int | None, reason: str) -> bool:
    return allowed == 0 and not reason.startswith("rate ")


def _of_workers(seen: Overview) -> Iterator[Family]:
    states = [worker.state for worker in seen.alive]
    yield gauge(
        "aijobs_workers",
        "Workers heard of within their lease, by state.",
        [({"state": state}, states.count(state)) for state in ("running", "stopping")],
    )
    yield gauge(
        "aijobs_worker_slots",
        "Calls that the live workers can make at once.",
        [({}, sum(worker.concurrency for worker in seen.alive))],
    )


def _of_messages(seen: Overview) -> Iterator[Family]:
    yield gauge(
        "aijobs_webhooks_unmatched",
        "Webhook deliveries whose job is not known.",
        [({}, seen.unmatched)],
    )
    yield gauge(
        "aijobs_oldest_unmatched_webhook_age_seconds",
        "Age of the oldest of them; 0 when there is none.",
        [({}, _seconds(age(seen.now, seen.oldest_unmatched_at)))],
    )
    yield gauge(
        "aijobs_notifications_overdue",
        "Notifications that should have been delivered minutes ago.",
        [({}, sum(seen.notifications_overdue.values()))],
    )


def _of_schedules(seen: Overview) -> Iterator[Family]:
    yield gauge(
        "aijobs_schedule_overdue_seconds",
        "How long a schedule has been due without a tick; 0 when it is not.",
        [({"schedule": one.name}, _seconds(age(seen.now, one.overdue_since))) for one in seen.schedules],
    )
    yield counter(
        "aijobs_schedule_windows_skipped_total",
        "Fire times of a schedule that got no job, by its own rules.",
        [({"schedule": one.name}, one.skipped) for one in seen.schedules],
    )


def _merge(loads: Iterable[Load]) -> Load:
    found = list(loads)
    return found[0] if len(found) == 1 else together(found)


def _series(
    found: Mapping[str, Mapping[LabelKey, float]], metric: str
) -> list[tuple[dict[str, str], dict[str, float], float]]:
    counts: dict[LabelKey, dict[str, float]] = defaultdict(dict)
    for key, value in found.get(f"{metric}_bucket", {}).items():
        labels = dict(key)
        bound = labels.pop("le")
        counts[tuple(sorted(labels.items()))][bound] = value
    totals = found.get(f"{metric}_sum", {})
    return [(dict(key), counts[key], totals.get(key, 0.0)) for key in sorted(counts)]


def _models(settings: Settings) -> frozenset[str]:
    found = set(settings.prices)
    for kind in settings.types.values():
        sides = (kind, kind.fallback, kind.shadow)
        found |= {side.model for side in sides if side is not None and side.model}
    return frozenset(found)


def _key(**labels: str) -> LabelKey:
    return tuple(sorted(labels.items()))


def _seconds(span: timedelta | None) -> float:
    return 0.0 if span is None else span.total_seconds()
