"""Spans of a test: real ones, from the SDK, kept in memory."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aijobs.core.clock import Clock, seeded_chance
from aijobs.services.otel import SpanSink
from aijobs.services.tracing import Tracing


class Spans:
    """Where a test's spans end up; *tracing* is what a coordinator is given."""

    def __init__(self, clock: Clock) -> None:
        self._kept = InMemorySpanExporter()
        sink = SpanSink(SimpleSpanProcessor(self._kept), chance=seeded_chance(3))
        self.tracing = Tracing(sink, clock=clock, chance=seeded_chance(4))

    @property
    def all(self) -> Sequence[ReadableSpan]:
        """In the order in which they ended."""
        return self._kept.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of that name."""
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of that name."""
        (span,) = self.named(name)
        return span


def span_id(span: ReadableSpan) -> int:
    """Its own id."""
    assert span.context is not None
    return span.context.span_id


def trace_id(span: ReadableSpan) -> int:
    """Its trace's id."""
    assert span.context is not None
    return span.context.trace_id


def parent_id(span: ReadableSpan) -> int | None:
    """Its parent's id."""
    return span.parent.span_id if span.parent else None


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """What is said of it."""
    return dict(span.attributes or {})
