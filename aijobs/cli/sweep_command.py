"""`aijobs sweep`: find what fell through, and put it right."""

from dataclasses import asdict
from typing import Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import context_of
from aijobs.cli.options import Preview


@notes(
    "aijobs sweep --preview",
    "aijobs sweep --limit 100 --json",
    exits={0: "done, or nothing to do", 5: "the store cannot be reached"},
)
def sweep(
    ctx: typer.Context,
    preview: Preview = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, help="Repairs of each kind at most; the rest is for next time."
        ),
    ] = 1000,
) -> None:
    """Find what fell through and put it right; safe at any time, on any machine.

    An attempt whose worker vanished is recorded as lost, and retried or given up as any failure is. Running
    workers do this by themselves; a sweep is for when none runs, and for cron. With --json each kind of
    repair is {found, repaired, ids}.
    """
    from aijobs.services.sweeper import Sweeper

    context = context_of(ctx)
    done = Sweeper(context.coordinator).sweep(limit=limit, preview=preview)
    context.printer.emit(
        {kind: asdict(rescue) for kind, rescue in done.items()},
        lambda: context.printer.table(
            ("WHAT", "FOUND", "REPAIRED"),
            [(kind.replace("_", " "), rescue.found, rescue.repaired) for kind, rescue in done.items()],
        ),
    )
    for kind, rescue in done.items():
        for job_id in rescue.ids:
            context.printer.detail(f"{kind.replace('_', ' ')}: job {job_id}")
