"""Whether spans are wished for: OpenTelemetry's variables are read here, and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from aijobs.core.clock import Chance, Clock
from aijobs.core.log_events import Log, LogEvent

if TYPE_CHECKING:
    from aijobs.services.tracing import Tracing

_HTTP = "http/protobuf"


def tracing_of(environ: Mapping[str, str], *, clock: Clock, chance: Chance, log: Log) -> "Tracing | None":
    """Tracing as OpenTelemetry's variables ask for it; None, said in a line, where that cannot be had.

    On when an endpoint or OTEL_TRACES_EXPORTER is set; off when that is `none` or OTEL_SDK_DISABLED is true.
    """
    wish = wish_for("TRACES", environ)
    if wish.asked_by is None or wish.refused_by is not None:
        return None
    if wish.lacks is not None:
        log.emit(LogEvent.TRACING_OFF, asked_by=wish.asked_by, why=wish.lacks)
        return None
    try:
        from aijobs.services.otel import OtlpSink
    except ImportError as error:
        why = f"{error.name} is not installed: install aijobs[otel]"
        log.emit(LogEvent.TRACING_OFF, asked_by=wish.asked_by, why=why)
        return None
    from aijobs.services.tracing import Tracing

    return Tracing(OtlpSink(clock=clock, chance=chance, log=log), clock=clock, chance=chance)


@dataclass(frozen=True, slots=True)
class Wish:
    """What OpenTelemetry's variables say of one signal: which one asks for it, which one refuses it, and why
    what is asked for cannot be had.
    """

    asked_by: str | None
    refused_by: str | None
    lacks: str | None


def wish_for(signal: Literal["TRACES", "METRICS"], environ: Mapping[str, str]) -> Wish:
    """Whether *signal* is wished for."""

    def given(name: str) -> str:
        return environ.get(name, "").strip()

    exporter = f"OTEL_{signal}_EXPORTER"
    wanted = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", exporter)
    protocols = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    off = {"OTEL_SDK_DISABLED": "true", exporter: "none"}
    lacks = None
    if given(exporter).lower() not in ("", "otlp"):
        lacks = "the exporter there is, is otlp"
    elif any(given(name) not in ("", _HTTP) for name in protocols):
        lacks = f"the protocol there is, is {_HTTP}"
    return Wish(
        asked_by=next(filter(given, wanted), None),
        refused_by=next((name for name, value in off.items() if given(name).lower() == value), None),
        lacks=lacks,
    )
