"""Many jobs from a file of JSON lines: all of them, or with --keep-going the good ones."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from aijobs.cli.context import Context
from aijobs.cli.inputs import count_lines, lines, opened, parse_line
from aijobs.cli.printer import error_document
from aijobs.cli.progress import Progress
from aijobs.cli.stopping import Account, accounted
from aijobs.core.errors import AijobsError, Conflict, NotFound, UsageError
from aijobs.core.model import NewJob
from aijobs.services.job_documents import request_of
from aijobs.services.shapes import enqueued_shape
from aijobs.services.submission import new_job, poll_after

if TYPE_CHECKING:
    from aijobs.core.model import Job
    from aijobs.services.coordinator import Enqueued
    from aijobs.services.last_results import LastResult

CHUNK = 1000
"""Jobs a transaction with --keep-going, and steps of the progress bar."""

_OVERHEAD = 64 * 1024  # what a line may hold besides its input
_MOST_SHOWN = 20


@dataclass(slots=True)
class Tally:
    """What became of the lines."""

    file: str  # as it was given
    created: int = 0
    duplicates: int = 0
    conflicts: int = 0
    invalid: int = 0
    shown: int = 0  # complaints printed so far
    refused: bool = False  # all or nothing, and it was nothing
    taken_to: int = 0  # the last line that is known to be in the store, with --keep-going

    def counts(self) -> dict[str, int]:
        """The four numbers of the summary."""
        return {
            "created": self.created,
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "invalid": self.invalid,
        }

    def account(self) -> Account:
        """Of work that was cut short."""
        return Account(
            self.counts(),
            f"lines up to {self.taken_to} are taken ({self.created} created)",
            "lines with a key may be given again: they are not enqueued twice",
        )


def enqueue_lines(
    context: Context, name: str, defaults: Mapping[str, Any], *, actor: str, keep_going: bool
) -> int:
    """Enqueue the jobs in file *name* (`-`: standard input) and print what became of them; the exit code.

    *defaults* stand in for names a line leaves out. A line that is wrong is reported with its number, and all
    are looked at. Without *keep_going* everything is one transaction and one refusal creates nothing.
    """
    total = count_lines(name)
    with (
        opened(name, context.printer) as stream,
        context.printer.progress("enqueue", total=total) as progress,
    ):
        parsed = _read(context, lines(stream, context.settings.limits.input_bytes + _OVERHEAD), defaults)
        enqueue = _take_the_good if keep_going else _all_or_nothing
        tally = Tally(name)
        enqueue(context, parsed, progress, actor, tally)
    _summarise(context, tally)
    if tally.refused:
        return UsageError.exit_code if tally.invalid else Conflict.exit_code
    return 1 if tally.conflicts or tally.invalid else 0


_Parsed = tuple[int, NewJob | AijobsError]


def _read(
    context: Context, numbered: Iterable[tuple[int, bytes]], defaults: Mapping[str, Any]
) -> Iterator[_Parsed]:
    settings = context.settings
    now = context.clock.now()
    bounds = {
        "max_bytes": settings.limits.input_bytes + _OVERHEAD,
        "max_depth": settings.limits.input_depth + 1,
    }
    for number, line in numbered:
        try:
            values = parse_line(line, **bounds)
            yield number, new_job(request_of(values, defaults), settings, now=now)
        except (UsageError, NotFound) as error:
            yield number, error


def _all_or_nothing(
    context: Context, parsed: Iterator[_Parsed], progress: Progress, actor: str, tally: Tally
) -> None:
    """Check every line first; then one transaction, if there is nothing to complain of."""
    numbers: list[int] = []
    wanted: list[NewJob] = []
    for chunk in _chunks(parsed):
        for number, one in chunk:
            if isinstance(one, NewJob):
                numbers.append(number)
                wanted.append(one)
            else:
                _complain(context, tally, number, one)
        progress.advance(len(chunk))
    if tally.invalid:
        tally.refused = True
        return
    context.create_store()
    answers = context.coordinator.enqueue_many(wanted, actor=actor)
    tally.refused = any(isinstance(answer, Conflict) for answer in answers)
    _count(context, tally, zip(numbers, answers, strict=True))


def _take_the_good(
    context: Context, parsed: Iterator[_Parsed], progress: Progress, actor: str, tally: Tally
) -> None:
    """A transaction every CHUNK lines; what is wrong is left out."""
    context.create_store()
    with accounted(tally.account):
        for chunk in _chunks(parsed):
            good = [one for _, one in chunk if isinstance(one, NewJob)]
            answers = iter(context.coordinator.enqueue_many(good, actor=actor, keep_going=True))
            _count(
                context, tally, ((n, next(answers) if isinstance(one, NewJob) else one) for n, one in chunk)
            )
            tally.taken_to = chunk[-1][0]
            progress.advance(len(chunk))


def _chunks(parsed: Iterator[_Parsed]) -> Iterator[list[_Parsed]]:
    while chunk := list(islice(parsed, CHUNK)):
        yield chunk


def _count(context: Context, tally: Tally, answers: Iterable[tuple[int, "Enqueued | AijobsError"]]) -> None:
    now = context.clock.now()
    answers = list(answers)
    stale = _stand_ins(context, [one.job for _, one in answers if not isinstance(one, AijobsError)])
    for number, answer in answers:
        if isinstance(answer, AijobsError):
            _complain(context, tally, number, answer)
            continue
        if answer.duplicate:
            tally.duplicates += 1
        elif not tally.refused:
            tally.created += 1
        if context.json and not tally.refused:
            shape = _shape(context, answer, stale.get(answer.job.id), now)
            context.printer.record({"line": number, **shape})


def _stand_ins(context: Context, jobs: "list[Job]") -> "Mapping[str, LastResult]":
    """Earlier results, while they are switched on; nobody looks for them where nobody would see them."""
    if not context.json or not any(kind.stale_results.allowed for kind in context.settings.types.values()):
        return {}
    from aijobs.services.last_results import LastResults

    return LastResults(context.store, context.settings).stand_ins(jobs)


def _shape(context: Context, answer: "Enqueued", stale: "LastResult | None", now: datetime) -> dict[str, Any]:
    wait = poll_after(answer.job, context.settings, now=now)
    return enqueued_shape(
        answer.job, duplicate=answer.duplicate, poll_after=wait, result=answer.result, stale=stale
    )


def _complain(context: Context, tally: Tally, number: int, error: AijobsError) -> None:
    if isinstance(error, Conflict):
        tally.conflicts += 1
    else:
        tally.invalid += 1
    if context.json:
        context.printer.record({"line": number, "error": error_document(error)})
    if tally.shown < _MOST_SHOWN:
        file = "" if tally.file == "-" else f"{tally.file} "
        context.printer.warn(f"{file}line {number}: {error.message}")
    elif tally.shown == _MOST_SHOWN:
        context.printer.warn("more lines are wrong; --json lists them all")
    tally.shown += 1


def _summarise(context: Context, tally: Tally) -> None:
    summary: dict[str, Any] = tally.counts()
    if not any(summary.values()):
        context.printer.warn("there was no line to enqueue")
    if tally.refused:
        reason = AijobsError(
            "nothing was enqueued: some lines are wrong", hint="--keep-going takes the others"
        )
        reason.kind = "invalid_input" if tally.invalid else "key_conflict"
        context.printer.say(f"{reason.message}; {reason.hint}")
        summary["error"] = error_document(reason)
    context.printer.emit_record(summary, lambda: context.printer.fields(tally.counts().items()))
