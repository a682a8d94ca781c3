"""Whether spans are wished for: OpenTelemetry's variables are read here, and nowhere else."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aijobs.core.clock import Chance, Clock
from aijobs.core.log_events import Log, LogEvent

if TYPE_CHECKING:
    from aijobs.services.tracing import Tracing

_WANTED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"


def tracing_of(environ: Mapping[str, str], *, clock: Clock, chance: Chance, log: Log) -> "Tracing | None":
    """Tracing as OpenTelemetry's variables ask for it; None, said in a line, where that cannot be had.

    On when an endpoint or OTEL_TRACES_EXPORTER is set; off when that is `none` or OTEL_SDK_DISABLED is true.
    """
    given = {name: environ.get(name, "").strip() for name in (*_WANTED, *_PROTOCOLS, "OTEL_SDK_DISABLED")}
    exporter = given["OTEL_TRACES_EXPORTER"].lower()
    if given["OTEL_SDK_DISABLED"].lower() == "true" or exporter == "none":
        return None
    asked_by = next((name for name in _WANTED if given[name]), None)
    if asked_by is None:
        return None
    if exporter not in ("", "otlp"):
        log.emit(LogEvent.TRACING_OFF, asked_by=asked_by, why="the exporter there is, is otlp")
        return None
    if any(given[name] not in ("", _HTTP) for name in _PROTOCOLS):
        log.emit(LogEvent.TRACING_OFF, asked_by=asked_by, why=f"the protocol there is, is {_HTTP}")
        return None
    try:
        from aijobs.services.otel import OtlpSink
    except ImportError as error:
        why = f"{error.name} is not installed: install aijobs[otel]"
        log.emit(LogEvent.TRACING_OFF, asked_by=asked_by, why=why)
        return None
    from aijobs.services.tracing import Tracing

    return Tracing(OtlpSink(clock=clock, chance=chance, log=log), clock=clock, chance=chance)
