"""`aijobs metrics`: the metrics as text, once."""

from collections.abc import Callable, Iterator
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
    from aijobs.store.engine import Store


@notes(
    "aijobs metrics",
    "aijobs metrics --output /var/lib/node_exporter/textfile/aijobs.prom",
    "aijobs metrics --json",
    exits={0: "written", 5: "the store cannot be reached"},
)
def metrics(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write there in one step, not to stdout.")
    ] = None,
) -> None:
    """Write the metrics in Prometheus' text format, read from the store now.

    With --output the file is replaced in one step, as the textfile collector of a node exporter needs it. A
    worker serves the same with --metrics-port, `aijobs serve` at /metrics.

    With --json: {metrics: [{name, type, help, samples: [{name, labels, value}]}]}.
    """
    from aijobs.services.metrics import Metrics

    context = context_of(ctx)
    if context.json and output is not None:
        raise UsageError("a FILE is written in Prometheus' format only", hint="aijobs metrics --json")
    found = Metrics(context.store, context.settings)
    if output is not None:
        found.write(output)
        context.printer.say(f"wrote {output}")
    elif context.json:
        context.printer.document({"metrics": [_shape(family) for family in found.families()]})
    else:
        context.printer.raw(found.text())


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
