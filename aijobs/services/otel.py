"""Spans on their way to OpenTelemetry. Loaded only when spans are wanted, as its SDK is.

What goes wrong on the way harms no job: spans go into a queue of bounded length that a thread of the SDK
empties, and the log hears of trouble once a minute at most.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from aijobs import __version__
from aijobs.core.clock import Chance, Clock, SystemClock, system_chance
from aijobs.core.log_events import Log, LogEvent, Unheard
from aijobs.core.spans import Span
from aijobs.core.trace_context import TraceContext
from aijobs.services.tracing import Tracing

COMPLAIN_EVERY_SECONDS = 60.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOGGER = "opentelemetry"


class SpanSink:
    """Hands spans to *processor*, with the sampler that OpenTelemetry's variables choose."""

    def __init__(self, processor: SpanProcessor, *, chance: Chance) -> None:
        self._ids = _Ids(chance)
        self._provider = TracerProvider(resource=resource(), id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("aijobs", __version__)

    def current(self) -> TraceContext | None:
        """The span of the caller's own program."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return None
        return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", found.trace_flags.sampled)

    def samples(self, trace_id: str) -> bool:
        """What the sampler says of a trace without a parent."""
        answer = self._provider.sampler.should_sample(Context(), int(trace_id, 16), "")
        return answer.decision is Decision.RECORD_AND_SAMPLE

    def take(self, span: Span) -> None:
        """Record *span*, if its trace is recorded."""
        if not span.place.sampled:
            return
        with self._ids.being(span.place):
            made = self._tracer.start_span(
                span.name, context=_below(span.parent), kind=SpanKind[span.kind.name],
                attributes=span.attributes, links=[Link(_context_of(one)) for one in span.links],
                start_time=nanoseconds(span.began),
            )  # fmt: skip
        if span.error is not None:
            made.set_attribute("error.type", span.error)
            made.set_status(Status(StatusCode.ERROR))
        made.end(nanoseconds(span.ended))

    def close(self, seconds: float) -> None:
        """Send what there is; an endpoint that does not answer is left after so many seconds."""
        last = threading.Thread(target=self._provider.shutdown, name="aijobs-spans", daemon=True)
        last.start()
        last.join(seconds)


class OtlpSink(SpanSink):
    """Sends spans to the OTLP endpoint of OTEL_EXPORTER_OTLP_ENDPOINT, by HTTP."""

    def __init__(self, *, clock: Clock, chance: Chance, log: Log | None = None) -> None:
        self._complaints = _Complaints(log or Unheard(), clock)
        _take_over(self._complaints)
        super().__init__(BatchSpanProcessor(OTLPSpanExporter()), chance=chance)

    def close(self, seconds: float) -> None:
        """As `SpanSink.close`; after that nobody listens to the SDK's complaints."""
        super().close(seconds)
        self._complaints.over = True


def tracing_to(processor: SpanProcessor) -> Tracing:
    """Tracing for a program of one's own, over a span processor it has set up and closes itself."""
    clock, chance = SystemClock(), system_chance()
    return Tracing(SpanSink(processor, chance=chance), clock=clock, chance=chance)


class _Ids(IdGenerator):
    """The ids of the span that is being made; those of a stranger are drawn."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._given = threading.local()

    @contextlib.contextmanager
    def being(self, place: TraceContext) -> Iterator[None]:
        self._given.place = place
        try:
            yield
        finally:
            self._given.place = None

    def generate_span_id(self) -> int:
        place: TraceContext | None = getattr(self._given, "place", None)
        return int(place.span_id, 16) if place else self._chance.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        place: TraceContext | None = getattr(self._given, "place", None)
        return int(place.trace_id, 16) if place else self._chance.getrandbits(128) or 1


class _Complaints(logging.Handler):
    """What the SDK complains of, in our log, without the values it puts into its messages."""

    def __init__(self, log: Log, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self.over = False
        self._log = log
        self._clock = clock
        self._said_at: float | None = None
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count it, and say so if nothing was said for a while."""
        self._count += 1
        now = self._clock.monotonic()
        if self.over or (self._said_at is not None and now - self._said_at < COMPLAIN_EVERY_SECONDS):
            return
        self._said_at = now
        self._log.emit(LogEvent.TRACING_FAILED, error=words_of(record), count=self._count)
        self._count = 0


def words_of(record: logging.LogRecord) -> str:
    """What the SDK complains of, without the values that it puts in."""
    return str(record.msg).partition("%")[0].strip(" :,.")


def _take_over(complaints: logging.Handler) -> None:
    logger = logging.getLogger(LOGGER)
    for old in logger.handlers[:]:
        if isinstance(old, _Complaints):
            logger.removeHandler(old)
    logger.addHandler(complaints)
    logger.propagate = False


def resource() -> Resource:
    """The resource of OpenTelemetry's variables; our name where they give none."""
    found = Resource.create({SERVICE_VERSION: __version__})
    named = not str(found.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service")
    return found if named else found.merge(Resource({SERVICE_NAME: "aijobs"}))


def _below(parent: TraceContext | None) -> Context:
    """A context that has *parent* as its span and nothing else, whatever the thread is in."""
    if parent is None:
        return Context()
    return trace.set_span_in_context(NonRecordingSpan(_context_of(parent)), Context())


def _context_of(place: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if place.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(place.trace_id, 16), int(place.span_id, 16), is_remote=True, trace_flags=flags)


def nanoseconds(at: datetime) -> int:
    """*at* as OpenTelemetry has it: since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
