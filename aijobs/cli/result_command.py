"""`aijobs result`: the last result of a user and type, and how old it is."""

from typing import Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import context_of
from aijobs.services.shapes import last_result_shape


@notes(
    "aijobs result --type digest --user ana",
    "aijobs result --type digest --user ana --stale-ok --json",
    exits={
        0: "printed",
        3: "no such type, no result, none that is current, or the last one is too old",
        4: "--stale-ok, and the type does not allow it",
        5: "the store cannot be reached",
    },
)
def result(
    ctx: typer.Context,
    type_name: Annotated[str, typer.Option("--type", metavar="TYPE", help="Of this job type.")],
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="Of this user.")] = None,
    stale_ok: Annotated[
        bool, typer.Option("--stale-ok", help="Also one that newer jobs were accepted after.")
    ] = False,
) -> None:
    """Print the last successful result of a type for a user, and its age.

    A result is stale once a newer job of the same user and type has been accepted. A stale one is printed
    only with --stale-ok, only where the type's `stale_results.allowed` says so, and only up to its `max_age`.
    Its age is always told: on stderr, and as `age_seconds` and `stale` with --json.
    """
    from aijobs.services.last_results import LastResults
    from aijobs.services.submission import clean_name

    context = context_of(ctx)
    name = "" if user is None else clean_name(user, "user")
    found = LastResults(context.store, context.settings).find(type_name, name, stale_ok=stale_ok)
    document = {"type": type_name, "user": name or None, **last_result_shape(found)}
    context.printer.emit(document, lambda: context.printer.body(found.result))
    seconds = round(found.age.total_seconds())
    if found.stale:
        context.printer.warn(
            f"stale: from job {found.job_id}, {seconds} s old; newer jobs have not succeeded"
        )
    else:
        context.printer.say(f"from job {found.job_id}, {seconds} s old")
