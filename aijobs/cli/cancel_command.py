"""`aijobs cancel`: stop jobs."""

from typing import Annotated, Any

import typer

from aijobs.cli.cancel_filtered import (
    PREVIEW_COLUMNS,
    PREVIEWED,
    Said,
    cancel_all,
    cancelled_shape,
    chosen,
    named_rows,
    preview_all,
    preview_row,
)
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.filters import ErrorClassFilter, Held, Unfinished
from aijobs.cli.options import MOST, Actor, Preview, Reason, Since, TypeFilter, Until, UserFilter, Yes
from aijobs.core.errors import AijobsError, UsageError
from aijobs.core.model import Job, Status
from aijobs.services.waiting import find

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
    ctx: typer.Context,
    reason: Reason,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="JOB", help="The ids of the jobs; or say which by filters.")
    ] = None,
    status: Unfinished = None,
    type_name: TypeFilter = None,
    user: UserFilter = None,
    error_class: ErrorClassFilter = None,
    since: Since = None,
    until: Until = None,
    held: Held = False,
    limit: AtMost = None,
    preview: Preview = False,
    yes: Yes = False,
    actor: Actor = None,
) -> int:
    """Stop jobs, at once or as soon as their worker notices.

    A job that waits is cancelled at once. One that runs is asked to stop: its worker notices within seconds,
    and a result that arrives before that stands. One that is held (`aijobs inspect --held`) is closed by it:
    nothing is sent to the provider any more. Several jobs at a time are confirmed first.

    Without JOB the filters say which: all that were made from --since up to --until, are of that type, user
    and status, and have not ended. They go in steps; Ctrl-C ends it between two and says how far it came.
    A job that ends meanwhile is no failure, and what comes in meanwhile is left alone.
    """
    context = context_of(ctx)
    unique = list(dict.fromkeys(job_ids or ()))
    wanted = chosen(
        context, statuses=status, type_name=type_name, user=user, error_class=error_class, since=since,
        until=until, held=held,
    )  # fmt: skip
    if unique and (wanted is not None or limit is not None):
        raise UsageError("filters do not go with JOB")
    if wanted is not None:
        said = Said(actor=context.actor(actor), reason=reason, yes=yes)
        return preview_all(context, wanted, limit) if preview else cancel_all(context, wanted, limit, said)
    if not unique:
        raise UsageError("say which: jobs, or a filter", hint="--preview shows what it would be")
    if preview:
        return _preview(context, unique)
    who = context.actor(actor)
    if len(unique) == 1:
        _print(context, [context.coordinator.cancel(unique[0], actor=who, reason=reason)], [])
        return 0
    if not context.printer.confirm(f"Cancel {len(unique)} jobs?", yes=yes):
        return 1
    cancelled: list[Job] = []
    refused: list[tuple[str, AijobsError]] = []
    with context.printer.progress("cancel", total=len(unique)) as progress:
        for job_id in unique:
            _cancel(context, job_id, who, reason, cancelled, refused)
            progress.advance()
    _print(context, cancelled, refused)
    return 1 if refused else 0


def _cancel(
    context: Context, job_id: str, who: str, reason: str, cancelled: list[Job],
    refused: list[tuple[str, AijobsError]],
) -> None:  # fmt: skip
    """Cancel one of several: what cannot be cancelled does not keep the others."""
    try:
        cancelled.append(context.coordinator.cancel(job_id, actor=who, reason=reason))
    except AijobsError as error:
        if error.exit_code not in (3, 4):
            raise
        refused.append((job_id, error))


def _preview(context: Context, job_ids: list[str]) -> int:
    found = [find(context.store, job_id) for job_id in job_ids]
    rows = [preview_row(job) for job in found]
    context.printer.emit(
        {"preview": named_rows(PREVIEWED, rows)},
        lambda: context.printer.table(PREVIEW_COLUMNS, rows),
    )
    return 1 if any(job.status.final for job in found) else 0


def _print(context: Context, cancelled: list[Job], refused: list[tuple[str, AijobsError]]) -> None:
    document: dict[str, Any] = {
        "cancelled": [cancelled_shape(job) for job in cancelled],
        "refused": [{"job_id": job_id, "kind": e.kind, "message": e.message} for job_id, e in refused],
    }
    rows = [(job.id, _became(job)) for job in cancelled] + [(job_id, e.message) for job_id, e in refused]
    context.printer.emit(document, lambda: context.printer.table(("ID", "OUTCOME"), rows))


def _became(job: Job) -> str:
    return "cancelled" if job.status is Status.CANCELLED else "asked to stop; its worker will notice"
