"""The metrics on their way to OpenTelemetry: what `aijobs metrics` writes, as one OTLP request."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from aijobs import __version__
from aijobs.core.errors import AijobsError
from aijobs.core.exposition import Family, Sample
from aijobs.services.otel import LOGGER, nanoseconds, resource, words_of

_CUMULATIVE = AggregationTemporality.CUMULATIVE
_SINCE_UNKNOWN = 0
"""Totals are as old as the store, which no process saw begin: OTLP then has 0 for the start of a series."""


def push(families: Iterable[Family], now: datetime) -> None:
    """Send *families*, as they were at *now*, to the endpoint of OpenTelemetry's variables, by HTTP.

    The SDK tries again by itself while that may help, for OTEL_EXPORTER_OTLP_TIMEOUT seconds (10) in all.
    Raises AijobsError when the endpoint did not take them.
    """
    said = _Said()
    try:
        exporter = OTLPMetricExporter()
        result = exporter.export(as_otlp(families, now))
        exporter.shutdown()
    finally:
        logging.getLogger(LOGGER).removeHandler(said)
    if result is not MetricExportResult.SUCCESS:
        why = ", ".join(dict.fromkeys(said.causes)) or said.last or "no reason was given"
        raise AijobsError(
            f"the OTLP endpoint did not take the metrics: {why}",
            hint="check OTEL_EXPORTER_OTLP_ENDPOINT (not set: http://localhost:4318) and _HEADERS; "
            "the next call sends the totals again",
        )


def as_otlp(families: Iterable[Family], now: datetime) -> MetricsData:
    """*families* under the names that Prometheus knows them by, so that one dashboard serves both."""
    at = nanoseconds(now)
    metrics = [Metric(one.name, one.help, _unit(one.name), _data(one, at)) for one in families if one.samples]
    scope = ScopeMetrics(InstrumentationScope("aijobs", __version__), metrics, "")
    return MetricsData([ResourceMetrics(resource(), [scope], "")])


class _Said(logging.Handler):
    """The last complaint of the SDK, which it otherwise writes to stderr, without the values in it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.causes: list[str] = []
        logger = logging.getLogger(LOGGER)
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Remember what it is about: the status or the reason of an answer, the kind of an exception."""
        args = record.args if isinstance(record.args, tuple) else ()
        said = str(record.msg)
        self.causes += [type(one).__name__ for one in args if isinstance(one, Exception)]
        if said.startswith("Transient"):
            self.causes += [one for one in args[:1] if isinstance(one, str)]
        elif said.startswith("Failed to export"):  # the number in another complaint is no status
            self.causes += [f"status {one}" for one in args if isinstance(one, int)]
            if "due to timeout" in said and not self.causes:
                self.causes.append("not within OTEL_EXPORTER_OTLP_TIMEOUT")
        self.last = words_of(record)


def _data(family: Family, at: int) -> Sum | Gauge | Histogram:
    if family.kind == "histogram":
        return Histogram(_histogram_points(family.samples, at), _CUMULATIVE)
    points = [
        NumberDataPoint(
            attributes=dict(one.labels), start_time_unix_nano=_SINCE_UNKNOWN, time_unix_nano=at,
            value=float(one.value),
        )
        for one in family.samples
    ]  # fmt: skip
    return Sum(points, _CUMULATIVE, is_monotonic=True) if family.kind == "counter" else Gauge(points)


def _histogram_points(samples: Sequence[Sample], at: int) -> list[HistogramDataPoint]:
    """One point a series; a bucket counts what lies between two bounds, and not all that lies below one."""
    below: dict[tuple[tuple[str, str], ...], dict[str, float]] = defaultdict(dict)
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for one in samples:
        own = tuple(label for label in one.labels if label[0] != "le")
        if one.suffix == "_bucket":
            below[own][dict(one.labels)["le"]] = one.value
        elif one.suffix == "_sum":
            sums[own] = one.value
    return [_point(dict(own), counts, sums[own], at) for own, counts in below.items()]


def _point(labels: dict[str, str], below: dict[str, float], total: float, at: int) -> HistogramDataPoint:
    counts = [int(value) for value in below.values()]
    between = [high - low for low, high in zip([0, *counts], counts, strict=False)]
    bounds = [float(bound) for bound in below if bound != "+Inf"]
    return HistogramDataPoint(
        attributes=labels, start_time_unix_nano=_SINCE_UNKNOWN, time_unix_nano=at, count=counts[-1],
        sum=total, bucket_counts=between, explicit_bounds=bounds,
        min=None, max=None,  # type: ignore[arg-type]  # unknown, which OTLP knows and the SDK's type does not
    )  # fmt: skip


def _unit(name: str) -> str:
    """In UCUM's letters, as OTLP wants it."""
    return "s" if name.removesuffix("_total").endswith("_seconds") else "1"
