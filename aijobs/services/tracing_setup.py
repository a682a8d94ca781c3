"""Whether spans or metrics are wished for: OpenTelemetry's variables are read here, and nowhere else."""

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
        log.emit(LogEvent.TRACING_OFF, asked_by=wish.asked_by, why=wish.lacks.why)
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
class Lack:
    """A variable that asks for what is not there."""

    variable: str
    value: str
    there_is: str

    @property
    def why(self) -> str:
        """In words; a key that was put into the wrong variable is not in them."""
        from aijobs.core.redaction import redact

        return f"{self.variable} is {redact(self.value)!r}, and aijobs has only {self.there_is}"

    @property
    def hint(self) -> str:
        """What to do."""
        return f"set {self.variable}={self.there_is}, or unset it"


@dataclass(frozen=True, slots=True)
class Wish:
    """What OpenTelemetry's variables say of one signal: which one asks for it, which one refuses it, and
    which one asks for what cannot be had.
    """

    asked_by: str | None
    refused_by: str | None
    lacks: Lack | None


def wish_for(signal: Literal["TRACES", "METRICS"], environ: Mapping[str, str]) -> Wish:
    """Whether *signal* is wished for."""

    def given(name: str) -> str:
        return environ.get(name, "").strip()

    exporter = f"OTEL_{signal}_EXPORTER"
    wanted = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", exporter)
    protocols = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(given, protocols), protocols[-1])  # that of the signal counts
    off = {"OTEL_SDK_DISABLED": "true", exporter: "none"}
    there = {exporter: "otlp", protocol: _HTTP}
    return Wish(
        asked_by=next(filter(given, wanted), None),
        refused_by=next((name for name, value in off.items() if given(name).lower() == value), None),
        lacks=next(
            (
                Lack(name, given(name), value)
                for name, value in there.items()
                if given(name).lower() not in ("", value)
            ),
            None,
        ),
    )
