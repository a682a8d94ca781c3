"""`aijobs prune`: remove what has been kept long enough."""

from collections.abc import Sequence

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Preview, Yes
from aijobs.core.durations import format_duration
from aijobs.services.pruner import Pruned, Pruner


@notes(
    "aijobs prune --preview",
    "aijobs prune --yes",
    exits={0: "removed, or nothing was too old", 1: "you said no", 5: "the store cannot be reached"},
)
def prune(ctx: typer.Context, preview: Preview = False, yes: Yes = False) -> int:
    """Remove jobs, bodies, deliveries, notifications and records that were kept as long as `retention` says.

    Goes in small batches and may be stopped at any point. Open dead letters, jobs whose key still lives and
    jobs somebody has yet to be told about stay; so do all totals.
    """
    context = context_of(ctx)
    pruner = Pruner(context.store, context.settings)
    due = pruner.preview()
    total = sum(one.count for one in due)
    if preview or total == 0:
        _print(context, due, removed=not preview)
        return 0
    if not context.printer.confirm(f"Remove {total} things that are past their time?", yes=yes):
        return 1
    with context.printer.progress("prune", total=total) as progress:
        done = pruner.run(lambda _, count: progress.advance(count))
    _print(context, done, removed=True)
    return 0


def _print(context: Context, found: Sequence[Pruned], *, removed: bool) -> None:
    word = "removed" if removed else "would_remove"
    rows = [
        (one.what, "for ever" if one.kept is None else format_duration(one.kept), one.count) for one in found
    ]
    context.printer.emit(
        {"prune": [{"what": one.what, "kept_for": one.kept, word: one.count} for one in found]},
        lambda: context.printer.table(("WHAT", "KEPT", word.upper().replace("_", " ")), rows),
    )
