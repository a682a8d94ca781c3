"""`aijobs metrics`: the metrics as text, once."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.core.errors import UsageError

if TYPE_CHECKING:
    from aijobs.core.exposition import Family, Sample
    from aijobs.core.settings import Settings
    from aijobs.services.metrics import Metrics
    from aijobs.store.engine import Store


@notes(
    "aijobs metrics",
    "aijobs metrics --output /var/lib/node_exporter/textfile/aijobs.prom",
    "aijobs metrics --json",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 aijobs metrics --push",
    exits={0: "written, or sent", 1: "the OTLP endpoint did not take them", 5: "the store cannot be reached"},
)
def metrics(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write there in one step, not to stdout.")
    ] = None,
    push: Annotated[bool, typer.Option("--push", help="Send them to the OTLP endpoint instead.")] = False,
) -> None:
    """Write the metrics in Prometheus' text format, read from the store now.

    With --output the file is replaced in one step, as the textfile collector of a node exporter needs it. A
    worker serves the same with --metrics-port, `aijobs serve` at /metrics.

    With --push they go once to OpenTelemetry, to OTEL_EXPORTER_OTLP_METRICS_ENDPOINT or
    OTEL_EXPORTER_OTLP_ENDPOINT, under the same names; for cron. It needs the extra `otel`.

    With --json: {metrics: [{name, type, help, samples: [{name, labels, value}]}]}; with --push: {pushed}, how
    many.
    """
    from aijobs.services.metrics import Metrics

    context = context_of(ctx)
    if output is not None and (context.json or push):
        raise UsageError("a FILE is written in Prometheus' format only", hint="aijobs metrics --json")
    found = Metrics(context.store, context.settings)
    if push:
        _push(context, found)
    elif output is not None:
        found.write(output)
        context.printer.say(f"wrote {output}")
    elif context.json:
        context.printer.document({"metrics": [_shape(family) for family in found.families()]})
    else:
        context.printer.raw(found.text())


def _push(context: Context, found: "Metrics") -> None:
    _require_wish(context.environ)
    try:
        from aijobs.services.otel_metrics import push
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed", hint="pip install 'aijobs[otel]'") from error
    families = found.families()
    push(families, context.store.clock.now())
    context.printer.emit(
        {"pushed": len(families)}, lambda: context.printer.say(f"sent {len(families)} metrics")
    )


def _require_wish(environ: Mapping[str, str]) -> None:
    """Refuse what OpenTelemetry's variables do not ask for, or say is not wanted, or what cannot be had."""
    from aijobs.services.tracing_setup import wish_for

    wish = wish_for("METRICS", environ)
    if wish.asked_by is None:
        hint = "set OTEL_EXPORTER_OTLP_ENDPOINT in the environment"
        raise UsageError("nothing says where the metrics are to be sent", hint=hint)
    if wish.refused_by is not None:
        hint = f"unset {wish.refused_by}"
        raise UsageError(f"{wish.refused_by} says that nothing is to be sent", hint=hint)
    if wish.lacks is not None:
        raise UsageError(f"the metrics cannot be sent: {wish.lacks.why}", hint=wish.lacks.hint)


def _shape(family: "Family") -> dict[str, Any]:
    return {
        "name": family.name,
        "type": family.kind,
        "help": family.help,
        "samples": [_sample_shape(family.name + one.suffix, one) for one in family.samples],
    }


def _sample_shape(name: str, sample: "Sample") -> dict[str, Any]:
    value = int(sample.value) if isinstance(sample.value, bool) else sample.value
    return {"name": name, "labels": dict(sample.labels), "value": value}


@contextmanager
def metrics_served(
    context: Context, store: "Store", settings: "Callable[[], Settings]", *, at: tuple[str, int] | None
) -> Iterator[None]:
    """Serve the metrics *at* (host, port) while the block lasts, by what *settings* are in force then.

    A port that cannot be had costs a warning and nothing else.
    """
    if at is None:
        yield
        return
    from aijobs.services.metrics import Metrics
    from aijobs.services.metrics_server import serve_metrics

    host, port = at
    try:
        server = serve_metrics(lambda: Metrics(store, settings()).text(), host=host, port=port)
    except OSError as error:
        context.printer.warn(f"no metrics on {host}:{port}: {error.strerror}; the worker goes on without")
        yield
        return
    context.printer.say(f"metrics on http://{host}:{server.port}/metrics")
    try:
        yield
    finally:
        server.close()
