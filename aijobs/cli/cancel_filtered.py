"""`aijobs cancel` by filters: which jobs it would be, and stopping them step by step, with a true account."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aijobs.cli import words
from aijobs.cli.context import Context, unknown_type
from aijobs.cli.stopping import stoppable
from aijobs.core.errors import StoreError, UsageError
from aijobs.core.model import ErrorClass, Job, Status
from aijobs.services.coordinator.cancelling import Stopped, ToStop
from aijobs.services.shapes import job_shape
from aijobs.store import jobs
from aijobs.store.jobs import Filter, Unfinished

PREVIEWED = ("job_id", "type", "user", "status", "would")
PREVIEW_COLUMNS = ("ID", "TYPE", "USER", "STATUS", "WOULD")

_SAMPLE = 10
_MOST_GROUPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Who cancels, why, and whether that is agreed already."""

    actor: str
    reason: str
    yes: bool


def chosen(
    context: Context, *, statuses: Sequence[Status] | None, type_name: str | None, user: str | None,
    error_class: ErrorClass | None, since: str | None, until: str | None, held: bool,
) -> Filter | None:  # fmt: skip
    """The filter that the options describe; None: none is given. UsageError for one that means nothing."""
    given = (statuses or None, type_name, user, error_class, since, until, held or None)
    if all(one is None for one in given):
        return None
    for name, value in (("--type", type_name), ("--user", user)):
        if value is not None and not value.strip():  # a variable that is not set
            raise UsageError(f"{name} is empty", hint="leave it out")
    for status in statuses or ():
        if status.final:
            raise UsageError(f"--status {status}: such a job has ended", hint="pending, failed or processing")
    begin, end = words.time_range(since, until, now=context.store.clock.now())
    return Filter(
        statuses=tuple(statuses or ()), type=type_name, user=user, error_class=error_class, since=begin,
        until=end, held=held,
    )  # fmt: skip


def preview_all(context: Context, wanted: Filter, limit: int | None) -> int:
    """Say how many jobs it would be, of what kinds, and which the newest are."""
    found = _look(context, wanted, limit)
    kinds = Counter((job.type, job.user, job.status) for job in found).most_common()
    groups = [(*kind, count, _would(kind[2])) for kind, count in kinds]
    sample = [preview_row(job) for job in found[:_SAMPLE]]
    names = ("type", "user", "status", "jobs", "would")
    document = {
        "preview": named_rows(PREVIEWED, sample), "groups": named_rows(names, groups), "matched": len(found)
    }  # fmt: skip

    def plain() -> None:
        table, empty = context.printer.table, _nothing(context, wanted)
        table(tuple(name.upper() for name in names), groups[:_MOST_GROUPS], empty=empty)
        if len(groups) > _MOST_GROUPS:
            rest = sum(group[3] for group in groups[_MOST_GROUPS:])
            context.printer.say(f"and {rest:,} jobs in {len(groups) - _MOST_GROUPS:,} smaller groups")
        if found:
            context.printer.section("the newest", f"{len(sample)} of {len(found):,}")
            table(PREVIEW_COLUMNS, sample)

    context.printer.emit(document, plain)
    return 0


def cancel_all(context: Context, wanted: Filter, limit: int | None, said: Said) -> int:
    """Stop all that *wanted* names, after asking; the exit code."""
    if not said.reason.strip():
        raise UsageError("a reason is needed: it is kept with every one of the jobs")
    found = _look(context, wanted, limit)
    account = _Account(matched=len(found))
    if not found:
        context.printer.say(_nothing(context, wanted))
    elif not context.printer.confirm(_question(found), yes=said.yes):
        return 1
    to_stop = ToStop(actor=said.actor, reason=said.reason, still=wanted.still)
    try:
        _carry_out(context, [job.id for job in found], to_stop, account)
    except StoreError as error:
        hint = "the same command goes on with what is left"
        raise type(error)(f"{error.message}; until then {account}", hint=hint) from error
    document = {
        "cancelled": account.shapes, "refused": [], "counts": account.counts(),
        "interrupted": account.left > 0,
    }  # fmt: skip
    context.printer.emit(document, lambda: context.printer.fields(account.shown()))
    if account.left:
        context.printer.say("interrupted; the same command goes on with what is left")
        return 130
    return 0


def preview_row(job: Job | Unfinished) -> tuple[object, ...]:
    """A job, and what would become of it."""
    return job.id, job.type, job.user, job.status, _would(job.status)


def named_rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """*rows* for JSON; nobody's user is null, as everything unknown."""
    return [dict(zip(names, row, strict=True)) | {"user": row[names.index("user")] or None} for row in rows]


def cancelled_shape(job: Job) -> dict[str, Any]:
    """A job that was cancelled or asked to stop."""
    return job_shape(job) | {"cancel_requested_at": job.cancel_requested_at}


@dataclass(slots=True)
class _Account:
    """What became of the jobs that were found; *shapes* are those that were stopped, where JSON is wanted."""

    matched: int
    cancelled: int = 0
    asked_to_stop: int = 0
    asked_already: int = 0
    ended_already: int = 0
    changed: int = 0
    shapes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, step: Stopped) -> int:
        """Count one step; how many jobs it was about."""
        before = self.left
        self.cancelled += len(step.cancelled)
        self.asked_to_stop += len(step.asked)
        self.asked_already += step.asked_already
        self.ended_already += step.ended_already
        self.changed += step.changed
        return before - self.left

    @property
    def left(self) -> int:
        """Jobs that were found and not come to."""
        seen = self.cancelled + self.asked_to_stop + self.asked_already + self.ended_already + self.changed
        return self.matched - seen

    def counts(self) -> dict[str, int]:
        """All the numbers; the first is the sum of the others."""
        names = ("matched", "cancelled", "asked_to_stop", "asked_already", "ended_already", "changed", "left")
        return {name: getattr(self, name) for name in names}

    def shown(self) -> list[tuple[str, int]]:
        """The numbers for a person: without those that are nothing, but for the first two."""
        named = [(name.replace("_", " "), count) for name, count in self.counts().items()]
        return named[:2] + [(name, count) for name, count in named[2:] if count]

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in self.shown())


def _look(context: Context, wanted: Filter, limit: int | None) -> list[Unfinished]:
    with context.store.read() as tx:
        return jobs.unfinished(tx, wanted, limit)


def _carry_out(context: Context, ids: Sequence[str], said: ToStop, account: _Account) -> None:
    """Stop them step by step until all are come to, or somebody asks to end it."""
    with stoppable() as stop, context.printer.progress("cancel", total=len(ids)) as progress:
        for step in context.coordinator.cancel_many(ids, said):
            progress.advance(account.add(step))
            if context.json:
                account.shapes += _shapes(context, (*step.cancelled, *step.asked))
            if stop.is_set():
                break


def _shapes(context: Context, ids: Sequence[str]) -> list[dict[str, Any]]:
    with context.store.read() as tx:
        found = jobs.many(tx, ids)
    return [cancelled_shape(found[job_id]) for job_id in ids if job_id in found]


def _question(found: Sequence[Unfinished]) -> str:
    running = sum(job.status is Status.PROCESSING for job in found)
    types, users = {job.type for job in found}, {job.user for job in found}
    of = f"{_counted(types, 'type')}, {_counted(users, 'user')}"
    runs = f"; {running:,} of them run and would be asked to stop" if running else ""
    return f"Cancel {_counted(found, 'job')} ({of}{runs})?"


def _counted(things: Sequence[Unfinished] | set[str], name: str) -> str:
    return f"{len(things):,} {name}{'' if len(things) == 1 else 's'}"


def _would(status: Status) -> str:
    if status.final:
        return "be refused: it has ended"
    return "be asked to stop" if status is Status.PROCESSING else "be cancelled"


def _nothing(context: Context, wanted: Filter) -> str:
    return "no such job that has not ended" + unknown_type(context, wanted.type)
