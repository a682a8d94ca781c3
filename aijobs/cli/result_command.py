"""`aijobs result`: the result of a job, or the last one of a user and type, and how old it is."""

from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.core.errors import UsageError
from aijobs.services.shapes import last_result_shape

if TYPE_CHECKING:
    from aijobs.services.last_results import LastResult


@notes(
    "aijobs result 019b76d9-e8aa-7000-8000-000000000001",
    "aijobs result --type digest --user ana",
    "aijobs result --type digest --user ana --stale-ok --json",
    exits={
        0: "printed",
        3: "no such job or type, no result, none that is current, or the last one is too old",
        4: "--stale-ok, and the type does not allow it",
        5: "the store cannot be reached",
    },
)
def result(
    ctx: typer.Context,
    job_id: Annotated[str | None, typer.Argument(metavar="JOB", help="The job's id.")] = None,
    type_name: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Without JOB: the last of this job type.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="Of this user.")] = None,
    stale_ok: Annotated[
        bool, typer.Option("--stale-ok", help="Also one that newer jobs were accepted after.")
    ] = False,
) -> None:
    """Print the result of a job; or the last successful one of a type for a user.

    A result is stale once a newer job of the same user and type has been accepted. Without JOB, a stale one
    is printed only with --stale-ok, only where the type's `stale_results.allowed` says so, and only up to its
    `max_age`. Its age is always told: on stderr, and as `age_seconds` and `stale` with --json.
    """
    context = context_of(ctx)
    if job_id is not None:
        _alone(type_name=type_name, user=user, stale_ok=stale_ok)
        _print_of_job(context, job_id)
    elif type_name is not None:
        _print_last(context, type_name, user, stale_ok=stale_ok)
    else:
        raise UsageError(
            "neither a job nor a type is given",
            hint="aijobs result JOB, or aijobs result --type TYPE --user USER",
        )


def _alone(*, type_name: str | None, user: str | None, stale_ok: bool) -> None:
    """Refuse what chooses among jobs where one is named."""
    given = {"--type": type_name is not None, "--user": user is not None, "--stale-ok": stale_ok}
    for option, there in given.items():
        if there:
            raise UsageError(f"{option} does not go with a job's id", hint="leave one of them out")


def _print_of_job(context: Context, job_id: str) -> None:
    from aijobs.services.last_results import LastResults

    job, found = LastResults(context.store, context.settings).of_job(job_id)
    _emit(context, job.type, job.user, found)
    context.printer.say(_origin(found))


def _print_last(context: Context, type_name: str, user: str | None, *, stale_ok: bool) -> None:
    from aijobs.services.last_results import LastResults
    from aijobs.services.submission import clean_name

    name = "" if user is None else clean_name(user, "user")
    found = LastResults(context.store, context.settings).find(type_name, name, stale_ok=stale_ok)
    _emit(context, type_name, name, found)
    if found.stale:
        context.printer.warn(f"stale: {_origin(found)}; newer jobs have not succeeded")
    else:
        context.printer.say(_origin(found))


def _emit(context: Context, type_name: str, user: str, found: "LastResult") -> None:
    document = {"type": type_name, "user": user or None, **last_result_shape(found)}
    context.printer.emit(document, lambda: context.printer.body(found.result))


def _origin(found: "LastResult") -> str:
    return f"from job {found.job_id}, {round(found.age.total_seconds())} s old"
