"""`aijobs deadletter list|show|close`: what died, why, and what a person decided."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of, unknown_type
from aijobs.cli.filters import ErrorClassFilter
from aijobs.cli.inspect_command import inspect
from aijobs.cli.options import (
    MOST,
    Actor,
    Limit,
    Preview,
    Reason,
    Since,
    TypeFilter,
    Until,
    UserFilter,
    Yes,
)
from aijobs.cli.stopping import Account, accounted
from aijobs.cli.words import time_range
from aijobs.core.errors import Conflict, NotFound, UsageError
from aijobs.core.model import ErrorClass
from aijobs.store import dead_letters
from aijobs.store.dead_letters import DeadLetter, DeadLetterFilter, Group

_COLUMNS = ("JOB", "TYPE", "USER", "ERROR", "ATTEMPTS", "DIED", "STATE", "REASON")
Jobs = Annotated[list[str] | None, typer.Argument(metavar="JOB", help="The ids of dead letters.")]
All = Annotated[bool, typer.Option("--all", help="Every open dead letter; said, because it is many.")]


@notes(
    "aijobs deadletter list --type summarize --since 2d",
    "aijobs deadletter list --state closed --json",
    exits={0: "listed", 5: "the store cannot be reached"},
)
def deadletter_list(
    ctx: typer.Context, type_name: TypeFilter = None, error_class: ErrorClassFilter = None,
    user: UserFilter = None, since: Since = None, until: Until = None,
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="open, replayed, closed, or any.")
    ] = "open",
    limit: Limit = 50,
) -> None:  # fmt: skip
    """List dead letters, those that died last first, and how many there are of each kind."""
    context = context_of(ctx)
    if state not in ("open", "replayed", "closed", "any"):
        raise UsageError(f"no state {state!r}", hint="open, replayed, closed, or any")
    wanted = chosen(
        context, None, type_name=type_name, error_class=error_class, user=user, since=since, until=until,
        state=None if state == "any" else state,
    )  # fmt: skip
    with context.store.read() as tx:
        found = dead_letters.find(tx, wanted, limit)
        kinds = dead_letters.groups(tx, wanted)
    empty = f"no {'' if state == 'any' else state + ' '}dead letters" + unknown_type(context, type_name)
    context.printer.emit(
        {"dead_letters": [_shape(one) for one in found], "groups": [group_shape(one) for one in kinds]},
        lambda: _print(context, found, kinds, empty=empty),
    )


@notes(
    "aijobs deadletter show 019b7d6e-…",
    exits={0: "shown", 3: "no such job", 5: "the store cannot be reached"},
)
def deadletter_show(
    ctx: typer.Context, job_id: Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")]
) -> None:
    """Show everything about one dead letter: every attempt of every round, and what was done about it."""
    inspect(ctx, job_id)


@notes(
    "aijobs deadletter close 019b7d6e-… --reason 'the customer is gone'",
    "aijobs deadletter close --error-class invalid_request --type summarize --reason 'bad import' --preview",
    exits={
        0: "closed",
        1: "some could not be closed, or you said no",
        3: "no such job",
        4: "it is no open dead letter",
        5: "the store cannot be reached",
    },
)
def deadletter_close(
    ctx: typer.Context, reason: Reason, job_ids: Jobs = None, type_name: TypeFilter = None,
    error_class: ErrorClassFilter = None, user: UserFilter = None, since: Since = None, until: Until = None,
    everything: All = False, preview: Preview = False, yes: Yes = False, actor: Actor = None,
) -> int:  # fmt: skip
    """Say of dead letters that they will not be replayed, and why. Their history stays."""
    context = context_of(ctx)
    wanted = chosen(
        context, job_ids, type_name=type_name, error_class=error_class, user=user, since=since, until=until
    )
    if job_ids and len(set(job_ids)) == 1 and not preview:
        context.coordinator.close(job_ids[0], actor=context.actor(actor), reason=reason)
        _say(context, [job_ids[0]], [])
        return 0
    found = select_all(context, wanted, everything=everything)
    if preview:
        context.printer.emit(
            {"would_close": [_shape(one) for one in found]},
            lambda: _print(context, found, (), empty="no dead letters"),
        )
        return 0
    if not found:
        _say(context, [], [])
        return 0
    if not context.printer.confirm(f"Close {len(found)} dead letters?", yes=yes):
        return 1
    return _close(context, found, context.actor(actor), reason)


@notes(
    "aijobs retry 019b7d6e-… --reason 'the key was renewed'",
    exits={
        0: "it runs again",
        3: "no such job",
        4: "it is neither a dead letter nor held, or was replayed as often as its type allows",
        5: "the store cannot be reached",
    },
)
def retry(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")],
    reason: Reason,
    actor: Actor = None,
) -> None:
    """Run one dead letter again, or let a held job go on. Counted, limited per job, and written down.

    A held job is one of which nobody knows whether the provider has done the work already
    (`aijobs inspect --held`): look there first, for it is sent again. `aijobs cancel` closes it instead.
    """
    from aijobs.services.shapes import job_shape

    context = context_of(ctx)
    job = context.coordinator.retry(job_id, actor=context.actor(actor), reason=reason)
    context.printer.emit(
        {"job": job_shape(job)},
        lambda: context.printer.line(f"{job.id} is {job.status}, to run again: round {job.round}"),
    )


def chosen(
    context: Context, job_ids: Sequence[str] | None, *, type_name: str | None, error_class: ErrorClass | None,
    user: str | None, since: str | None, until: str | None, state: str | None = "open",
) -> DeadLetterFilter:  # fmt: skip
    """The filter that the options describe. UsageError for an empty value: a lost variable is not `all`."""
    for name, value in (("--type", type_name), ("--user", user)):
        if value is not None and not value.strip():
            raise UsageError(f"{name} is empty", hint="leave it out, or say --all")
    begin, end = time_range(since, until, now=context.store.clock.now())
    return DeadLetterFilter(
        job_ids=tuple(dict.fromkeys(job_ids or ())), state=state, type=type_name, user=user,
        error_class=error_class.value if error_class else None, since=begin, until=end,
    )  # fmt: skip


def select_all(context: Context, wanted: DeadLetterFilter, *, everything: bool) -> list[DeadLetter]:
    """Every dead letter that *wanted* names. No filter at all has to be said as --all.

    Raises NotFound when one of the named jobs is not there, before anything is done.
    """
    if wanted.empty and not everything:
        raise UsageError("say which: jobs, a filter, or --all", hint="--preview shows what it would be")
    with context.store.read() as tx:
        found = dead_letters.find(tx, wanted, MOST)
    missing = sorted(set(wanted.job_ids) - {one.job_id for one in found})
    if missing:
        raise NotFound(
            f"no open dead letter: {', '.join(missing)}", hint="'aijobs deadletter list' shows them"
        )
    return found


def _close(context: Context, found: Sequence[DeadLetter], who: str, reason: str) -> int:
    closed: list[str] = []
    refused: list[tuple[str, str]] = []

    def so_far() -> Account:
        words = f"until then {len(closed)} of {len(found)} closed, {len(refused)} refused"
        return Account(
            _closed_shape(closed, refused),
            words,
            "the same filters go on; of jobs that were named, name those that are left",
        )

    with accounted(so_far), context.printer.progress("close", total=len(found)) as progress:
        for one in found:
            try:
                context.coordinator.close(one.job_id, actor=who, reason=reason)
                closed.append(one.job_id)
            except Conflict as error:
                refused.append((one.job_id, error.message))
            progress.advance()
    _say(context, closed, refused)
    return 1 if refused else 0


def _say(context: Context, closed: Sequence[str], refused: Sequence[tuple[str, str]]) -> None:
    rows = [(job_id, "closed") for job_id in closed] + list(refused)
    context.printer.emit(
        _closed_shape(closed, refused),
        lambda: context.printer.table(("JOB", "OUTCOME"), rows, empty="no dead letter to close"),
    )


def _closed_shape(closed: Sequence[str], refused: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "closed": list(closed), "refused": [{"job_id": job_id, "message": why} for job_id, why in refused]
    }  # fmt: skip


def _print(context: Context, found: Sequence[DeadLetter], kinds: Sequence[Group], *, empty: str) -> None:
    rows = [
        (one.job_id, one.type, one.user, _error(one), one.attempts, one.at, one.state, one.reason)
        for one in found
    ]
    context.printer.table(_COLUMNS, rows, empty=empty)
    if len(kinds) > 1 or sum(kind.count for kind in kinds) > len(found):
        context.printer.section("by kind")
        context.printer.table(
            ("TYPE", "ERROR", "COUNT", "OLDEST", "NEWEST"),
            [(kind.type, kind.error_class, kind.count, kind.oldest, kind.newest) for kind in kinds],
        )


def _error(one: DeadLetter) -> str:
    return f"{one.error_class} {one.error_code or ''}".strip()


def _shape(one: DeadLetter) -> dict[str, Any]:
    return {
        "job_id": one.job_id, "type": one.type, "user": one.user or None, "error_class": one.error_class,
        "error_code": one.error_code, "attempts": one.attempts, "at": one.at, "state": one.state,
        "reason": one.reason, "round": one.round, "actor": one.actor, "settled_at": one.settled_at,
    }  # fmt: skip


def group_shape(group: Group) -> dict[str, Any]:
    """A group of dead letters as JSON."""
    return {
        "type": group.type, "error_class": group.error_class, "count": group.count, "oldest": group.oldest,
        "newest": group.newest,
    }  # fmt: skip
