"""`aijobs cancel`: stop jobs, by name or by filters."""

from typing import Annotated

import typer

from aijobs.cli.cancel_filtered import cancel_filtered, chosen, preview_filtered
from aijobs.cli.cancel_named import cancel_named, preview_named
from aijobs.cli.cancel_shapes import Order
from aijobs.cli.command import notes
from aijobs.cli.context import context_of
from aijobs.cli.filters import ErrorClassFilter, Held, Unfinished
from aijobs.cli.options import MOST, Actor, Preview, Reason, Since, TypeFilter, Until, UserFilter, Yes
from aijobs.core.errors import UsageError

Jobs = Annotated[
    list[str] | None, typer.Argument(metavar="JOB", help="The ids of the jobs; or say which by filters.")
]
AtMost = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, max=MOST, help="At most so many, those that came last."),
]


@notes(
    "aijobs cancel 019b7d6e-… --reason 'the customer withdrew the order'",
    "aijobs cancel 019b7d6e-… 019b7d6f-… --reason 'wrong input' --preview",
    "aijobs cancel --user ana --status pending --reason 'INC-1234: a loop in her script' --preview",
    exits={
        0: "every job is cancelled, or its worker is asked to stop it",
        1: "some of the jobs that were named could not be cancelled, or you said no",
        3: "no such job",
        4: "the job has ended already",
        5: "the store cannot be reached",
    },
)
def cancel(
    ctx: typer.Context, reason: Reason, job_ids: Jobs = None, status: Unfinished = None,
    type_name: TypeFilter = None, user: UserFilter = None, error_class: ErrorClassFilter = None,
    since: Since = None, until: Until = None, held: Held = False, limit: AtMost = None,
    preview: Preview = False, yes: Yes = False, actor: Actor = None,
) -> int:  # fmt: skip
    """Stop jobs, at once or as soon as their worker notices.

    A job that waits is cancelled at once. One that runs is asked to stop: its worker notices within seconds,
    and a result that arrives before that stands. One that is held (`aijobs inspect --held`) is closed by it:
    nothing is sent to the provider any more. Several jobs at a time are confirmed first.

    Without JOB the filters say which: all that were made from --since up to --until, are of that type, user
    and status, and have not ended. They go in steps; Ctrl-C ends it between two and says how far it came.
    A job that ends meanwhile is no failure, and what comes in meanwhile is left alone.
    """
    context = context_of(ctx)
    wanted = chosen(
        context, statuses=status, type_name=type_name, user=user, error_class=error_class, since=since,
        until=until, held=held,
    )  # fmt: skip
    if job_ids and (wanted is not None or limit is not None):
        raise UsageError("filters do not go with JOB")
    order = Order(actor=context.actor(actor), reason=reason, yes=yes)
    if wanted is not None:
        if preview:
            return preview_filtered(context, wanted, limit)
        return cancel_filtered(context, wanted, limit, order)
    if not job_ids:
        raise UsageError("say which: jobs, or a filter", hint="--preview shows what it would be")
    unique = list(dict.fromkeys(job_ids))
    return preview_named(context, unique) if preview else cancel_named(context, unique, order)
