"""Totals that only grow: counters and histograms, collected while a transaction does its work. Pure.

They are kept in the store, written in the transaction of the change they count: a count over rows falls when
rows are pruned, and a monitoring system reads a falling counter as a restart.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import fsum
from types import MappingProxyType

SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
"""Upper bounds of the buckets of every histogram here; model calls take from seconds to hours."""

FINAL_STATUS = "aijobs_task_final_status_total"
ATTEMPTS = "aijobs_attempts_total"
RETRIES = "aijobs_model_call_retry_count_total"
LEASES_LOST = "aijobs_leases_lost_total"
DEAD_LETTERS = "aijobs_dead_letters_total"
TOKENS = "aijobs_tokens_total"
COST = "aijobs_cost_total"
DELIVERIES = "aijobs_webhook_deliveries_total"
REFUSALS = "aijobs_webhook_refusals_total"
DURATION = "aijobs_task_execution_duration_seconds"
QUEUE_WAIT = "aijobs_queue_wait_seconds"
WEBHOOK_DELAY = "aijobs_webhook_delay_seconds"

HELP: Mapping[str, str] = MappingProxyType(
    {
        FINAL_STATUS: "Jobs that ended, by type and final status.",
        ATTEMPTS: "Attempts that ended, by type, provider, outcome and error class.",
        RETRIES: "Attempts that failed and are tried again, by provider and error class.",
        LEASES_LOST: "Attempts whose lease ran out, by type.",
        DEAD_LETTERS: "Jobs that became dead letters, by type and error class.",
        TOKENS: "Tokens used, by provider, model and direction.",
        COST: "Cost by the configured prices, by provider and model.",
        DELIVERIES: "Webhook deliveries, by provider and what became of them.",
        REFUSALS: "Webhook deliveries refused, by provider and reason, as `serve` counts them.",
        DURATION: "Seconds from the claim of an attempt to its end, by type and outcome.",
        QUEUE_WAIT: "Seconds from when a job could run to its claim, by type.",
        WEBHOOK_DELAY: "Seconds from the provider's end of the work to its webhook, by provider.",
    }
)
HISTOGRAMS = frozenset({DURATION, QUEUE_WAIT, WEBHOOK_DELAY})

Series = tuple[str, str]
"""A metric with its labels as canonical JSON."""


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as they are kept: one spelling for one set of labels."""
    return json.dumps(labels, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


LATELY = (
    "succeeded", "dead_letter", "cancelled", "attempts", "failed", "rate_limited", "lost", "started",
    "waited_seconds", "webhooks",
)  # fmt: skip
"""What is also kept by the minute, to be added up; PEAKS are kept as the highest of their minute."""
PEAKS = ("most_retries", "longest_webhook_seconds")


class Totals:
    """What one transaction adds. Series that turn up many times are written once."""

    def __init__(self) -> None:
        self._added: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._peaks: dict[tuple[str, str], float] = {}

    def count(self, metric: str, by: float = 1, /, **labels: str | None) -> None:
        """Add *by* to a counter; a label that is not known is `none`."""
        if by:
            key = tuple((name, value or "none") for name, value in labels.items())
            self._added[metric, key] += by  # type: ignore[assignment]  # a Counter holds floats as well

    def observe(self, metric: str, spans: Iterable[timedelta], /, **labels: str | None) -> None:
        """Put durations into a histogram; clocks that disagree never make one negative."""
        seconds = [max(0.0, span.total_seconds()) for span in spans]
        for index, count in Counter(bisect_left(SECONDS, each) for each in seconds).items():
            bound = f"{SECONDS[index]:g}" if index < len(SECONDS) else "+Inf"
            self.count(f"{metric}_bucket", count, **labels, le=bound)
        self.count(f"{metric}_sum", fsum(seconds), **labels)
        if metric == WEBHOOK_DELAY:
            self.peak("longest_webhook_seconds", max(seconds, default=0.0))

    def peak(self, name: str, value: float, *, type_name: str = "") -> None:
        """Note *value* for one of PEAKS; the highest of a minute is kept."""
        self._peaks[type_name, name] = max(value, self._peaks.get((type_name, name), 0))

    def lately(self) -> dict[str, dict[str, float]]:
        """The part of it that is kept by the minute: by job type, names of LATELY and PEAKS."""
        rows: dict[str, dict[str, float]] = {}
        for (metric, key), by in self._added.items():
            labels = dict(key)
            row = rows.setdefault(labels.get("type", ""), {})
            for name in _lately_names(metric, labels):
                row[name] = row.get(name, 0) + by
        for (type_name, name), value in self._peaks.items():
            rows.setdefault(type_name, {})[name] = value
        return {type_name: row for type_name, row in rows.items() if row}

    def rows(self) -> Iterable[tuple[Series, float]]:
        """(metric, labels) and what to add, in one order for everybody, so that writers cannot deadlock."""
        return sorted(((metric, labels_text(dict(key))), by) for (metric, key), by in self._added.items())


def _lately_names(metric: str, labels: Mapping[str, str]) -> Iterable[str]:
    """Under which of LATELY a series counts."""
    if metric == FINAL_STATUS:
        yield labels["status"]
    elif metric == ATTEMPTS:
        yield "attempts"
        if labels["outcome"] == "failed":
            yield "failed"
        if labels["error_class"] == "rate_limited":
            yield "rate_limited"
    elif metric in _LATELY_OF:
        yield _LATELY_OF[metric]


_LATELY_OF: Mapping[str, str] = MappingProxyType(
    {
        LEASES_LOST: "lost",
        f"{QUEUE_WAIT}_bucket": "started",
        f"{QUEUE_WAIT}_sum": "waited_seconds",
        f"{WEBHOOK_DELAY}_bucket": "webhooks",
    }
)
