"""`aijobs cancel`: stop jobs."""

from typing import Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Actor, Preview, Reason, Yes
from aijobs.core.errors import AijobsError
from aijobs.core.model import Job, Status
from aijobs.services.shapes import job_shape
from aijobs.services.waiting import find


@notes(
    "aijobs cancel 019b7d6e-… --reason 'the customer withdrew the order'",
    "aijobs cancel 019b7d6e-… 019b7d6f-… --reason 'wrong input' --preview",
    exits={
        0: "every job is cancelled, or its worker is asked to stop it",
        1: "some of several jobs could not be cancelled, or you said no",
        3: "no such job",
        4: "the job has ended already",
        5: "the store cannot be reached",
    },
)
def cancel(
    ctx: typer.Context,
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB", help="The ids of the jobs.")],
    reason: Reason,
    preview: Preview = False,
    yes: Yes = False,
    actor: Actor = None,
) -> int:
    """Stop jobs, at once or as soon as their worker notices.

    A job that waits is cancelled at once. One that runs is asked to stop: its worker notices within seconds,
    and a result that arrives before that stands. One that is held (`aijobs inspect --held`) is closed by it:
    nothing is sent to the provider any more. Several jobs at a time are confirmed first.
    """
    context = context_of(ctx)
    unique = list(dict.fromkeys(job_ids))
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
    rows = [(job.id, job.type, job.user, job.status, _would(job)) for job in found]
    names = ("job_id", "type", "user", "status", "would")
    context.printer.emit(
        {"preview": [dict(zip(names, row, strict=True)) for row in rows]},
        lambda: context.printer.table(("ID", "TYPE", "USER", "STATUS", "WOULD"), rows),
    )
    return 1 if any(job.status.final for job in found) else 0


def _would(job: Job) -> str:
    if job.status.final:
        return "be refused: it has ended"
    return "be asked to stop" if job.status is Status.PROCESSING else "be cancelled"


def _print(context: Context, cancelled: list[Job], refused: list[tuple[str, AijobsError]]) -> None:
    document: dict[str, Any] = {
        "cancelled": [job_shape(job) | {"cancel_requested_at": job.cancel_requested_at} for job in cancelled],
        "refused": [{"job_id": job_id, "kind": e.kind, "message": e.message} for job_id, e in refused],
    }
    rows = [(job.id, _became(job)) for job in cancelled] + [(job_id, e.message) for job_id, e in refused]
    context.printer.emit(document, lambda: context.printer.table(("ID", "OUTCOME"), rows))


def _became(job: Job) -> str:
    return "cancelled" if job.status is Status.CANCELLED else "asked to stop; its worker will notice"
