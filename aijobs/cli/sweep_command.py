"""`aijobs sweep`: find what fell through, and put it right."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.logs import line_log
from aijobs.cli.options import MOST, Preview

if TYPE_CHECKING:
    from aijobs.services.coordinator import Rescue


RepairLimit = Annotated[
    int,
    typer.Option(
        "--limit",
        metavar="N",
        min=1,
        max=MOST,
        help="Repairs of each kind at most; the rest is for next time.",
    ),
]


@notes(
    "aijobs sweep --preview",
    "aijobs sweep --limit 100 --json",
    exits={0: "done, or nothing to do", 5: "the store cannot be reached"},
)
def sweep(
    ctx: typer.Context,
    preview: Preview = False,
    limit: RepairLimit = 1000,
) -> None:
    """Find what fell through and put it right; safe at any time, on any machine.

    An attempt whose worker vanished is recorded as lost, and retried or given up as any failure is. Running
    workers do this by themselves; a sweep is for when none runs, and for cron. A webhook delivery whose job
    is not known is asked after at its provider: a job that waits takes the work over instead of paying for
    it again. Of jobs that could have started long ago it says what keeps them. With --json each kind of
    repair is {found, repaired, ids}, and {why} where something is kept.
    """
    from aijobs.services.notifier import Notifier
    from aijobs.services.sweeper import Sweeper

    context = context_of(ctx)
    notifier = Notifier(context.store, context.settings, chance=context.chance)
    sweeper = Sweeper(context.coordinator, orphans=partial(_orphans, context), notifications=notifier.repair)
    done = sweeper.sweep(limit=limit, preview=preview)
    context.printer.emit(
        {kind: _shape(rescue) for kind, rescue in done.items()},
        lambda: context.printer.table(
            ("WHAT", "FOUND", "REPAIRED"),
            [(kind.replace("_", " "), rescue.found, rescue.repaired) for kind, rescue in done.items()],
        ),
    )
    for kind, rescue in done.items():
        for found in rescue.ids:
            context.printer.detail(f"{kind.replace('_', ' ')}: {found}")
        for job_id, why in rescue.why:
            context.printer.say(f"{job_id} could have started long ago: {why}")


def _orphans(context: Context, *, limit: int, preview: bool) -> "Rescue":
    """Ask the providers; nobody is asked, and nothing for asking is loaded, when nothing is due."""
    from aijobs.services.coordinator import Rescue
    from aijobs.services.orphans import Orphans

    log = line_log(context.printer, clock=context.clock, as_json=False)
    found = len(Orphans(context.coordinator, log=log).due(limit))
    if preview or not found:
        return Rescue(found=found)
    from aijobs.providers.registry import Providers
    from aijobs.services.worker.finder import look_once

    providers = Providers(context.settings, clock=context.clock)
    return look_once(context.coordinator, providers, limit=limit, log=log)


def _shape(rescue: "Rescue") -> dict[str, object]:
    shape: dict[str, object] = {"found": rescue.found, "repaired": rescue.repaired, "ids": rescue.ids}
    return shape | ({"why": dict(rescue.why)} if rescue.why else {})
