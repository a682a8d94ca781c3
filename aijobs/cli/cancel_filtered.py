"""`aijobs cancel` by filters: which jobs it would be, and stopping them step by step, with a true account."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aijobs.cli import words
from aijobs.cli.cancel_shapes import (
    PREVIEW_COLUMNS,
    PREVIEWED,
    Order,
    cancelled_shape,
    named_rows,
    preview_row,
    would,
)
from aijobs.cli.context import Context, unknown_type
from aijobs.cli.stopping import Account, accounted, stoppable
from aijobs.core.errors import Interrupted, UsageError
from aijobs.core.model import ErrorClass, Status
from aijobs.services.coordinator.cancelling import Cancellation, Stopped, parts
from aijobs.store import jobs
from aijobs.store.jobs import Filter, Unfinished

_SAMPLE = 10
_MOST_GROUPS = 20


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


def preview_filtered(context: Context, wanted: Filter, limit: int | None) -> int:
    """Say how many jobs it would be, of what kinds, and which the newest are."""
    found = _look(context, wanted, limit)
    kinds = Counter((job.type, job.user, job.status) for job in found).most_common()
    groups = [(*kind, count, would(kind[2])) for kind, count in kinds]
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


def cancel_filtered(context: Context, wanted: Filter, limit: int | None, order: Order) -> int:
    """Stop all that *wanted* names, after asking; the exit code."""
    found = _look(context, wanted, limit)
    if not found:
        context.printer.say(_nothing(context, wanted))
    elif not context.printer.confirm(_question(found), yes=order.yes):
        return 1
    done = _Done(matched=len(found))
    cancellation = Cancellation(actor=order.actor, reason=order.reason, still=wanted.still)
    with accounted(lambda: done.account(limit)):
        _carry_out(context, [job.id for job in found], cancellation, done)
    context.printer.emit(done.document(interrupted=False), lambda: context.printer.fields(done.shown()))
    return 0


@dataclass(slots=True)
class _Done:
    """What became of the jobs that were found; *shapes* are those that were stopped, where JSON is wanted.

    *unread* were stopped as well, and not looked at since.
    """

    matched: int
    cancelled: int = 0
    asked_to_stop: int = 0
    asked_already: int = 0
    ended_already: int = 0
    changed: int = 0
    shapes: list[dict[str, Any]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def add(self, step: Stopped) -> int:
        """Count one step; how many jobs it was about."""
        before = self.left
        self.cancelled += len(step.cancelled)
        self.asked_to_stop += len(step.asked)
        self.asked_already += step.asked_already
        self.ended_already += step.ended_already
        self.changed += step.changed
        self.unread += (*step.cancelled, *step.asked)
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

    def document(self, *, interrupted: bool) -> dict[str, Any]:
        """For JSON."""
        cancelled = self.shapes + [{"id": job_id} for job_id in self.unread]
        return {
            "cancelled": cancelled, "refused": [], "counts": self.counts(), "interrupted": interrupted
        }  # fmt: skip

    def account(self, limit: int | None) -> Account:
        """Of work that was cut short; *limit* is what was asked for."""
        words = ", ".join(f"{count:,} {name}" for name, count in self.shown())
        return Account(self.document(interrupted=True), f"until then {words}", self._to_go_on(limit))

    def _to_go_on(self, limit: int | None) -> str | None:
        if not self.left:
            return None
        if limit is None:
            return "the same command goes on: with what is left, and what came in since"
        return f"the same command with --limit {self.left} goes on; what came in since would be first"


def _look(context: Context, wanted: Filter, limit: int | None) -> list[Unfinished]:
    with context.store.read() as tx:
        return jobs.unfinished(tx, wanted, limit)


def _carry_out(context: Context, ids: Sequence[str], cancellation: Cancellation, done: _Done) -> None:
    """Stop them step by step. Raises Interrupted between two when somebody asks to end it."""
    with stoppable() as stop, context.printer.progress("cancel", total=len(ids)) as progress:
        try:
            for step in context.coordinator.cancel_many(ids, cancellation):
                progress.advance(done.add(step))
                _read_stopped(context, done)
                if stop.is_set() and done.left:
                    raise Interrupted("interrupted")
        except KeyboardInterrupt:
            for part in parts(ids[len(ids) - done.left :]):
                done.add(_cut_off(context, part))
                break
            _read_stopped(context, done)
            raise


def _read_stopped(context: Context, done: _Done) -> None:
    """Keep for the answer in JSON what the stopped jobs are like."""
    if context.json:
        with context.store.read() as tx:
            found = jobs.many(tx, done.unread)
        done.shapes += [cancelled_shape(found[job_id]) for job_id in done.unread if job_id in found]
    done.unread.clear()


def _cut_off(context: Context, job_ids: Sequence[str]) -> Stopped:
    """What became of a step whose end nobody heard: how its jobs are now, whoever's doing that is."""
    with context.store.read() as tx:
        found = jobs.many(tx, job_ids)
    cancelled = tuple(job.id for job in found.values() if job.status is Status.CANCELLED)
    asked = tuple(job.id for job in found.values() if not job.status.final and job.cancel_requested_at)
    live = sum(not job.status.final for job in found.values())
    return Stopped(
        cancelled=cancelled, asked=asked, ended_already=len(job_ids) - live - len(cancelled)
    )  # fmt: skip


def _question(found: Sequence[Unfinished]) -> str:
    running = sum(job.status is Status.PROCESSING for job in found)
    types, users = {job.type for job in found}, {job.user for job in found}
    of = f"{_counted(types, 'type')}, {_counted(users, 'user')}"
    runs = f"; {running:,} of them run and would be asked to stop" if running else ""
    return f"Cancel {_counted(found, 'job')} ({of}{runs})?"


def _counted(things: Sequence[Unfinished] | set[str], name: str) -> str:
    return f"{len(things):,} {name}{'' if len(things) == 1 else 's'}"


def _nothing(context: Context, wanted: Filter) -> str:
    return "no such job that has not ended" + unknown_type(context, wanted.type)
