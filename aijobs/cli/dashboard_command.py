"""`aijobs dashboard`: the Grafana dashboard."""

import json

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import context_of


@notes(
    "aijobs dashboard > aijobs-dashboard.json",
    exits={0: "printed"},
)
def dashboard(ctx: typer.Context) -> None:
    """Print a Grafana dashboard over the metrics, as JSON to be imported; it asks for the data source."""
    from aijobs.core.dashboard import dashboard as made

    context_of(ctx).printer.raw(json.dumps(made(), indent=2) + "\n")
