"""`aijobs tick`: what fell due becomes jobs."""

from collections.abc import Iterator
from typing import Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Preview
from aijobs.cli.words import instant
from aijobs.core.errors import UsageError
from aijobs.core.wallclock import EARLIEST, LATEST
from aijobs.services.scheduler import Scheduler
from aijobs.services.tick_report import TickReport


@notes(
    "* * * * * aijobs --config /etc/aijobs.yaml tick",
    "aijobs tick --preview",
    "aijobs tick --at 2026-03-08T07:00:00Z --preview --json",
    exits={
        0: "done, or nothing was due",
        1: "a schedule could not fire; the next tick tries it again",
        5: "the store cannot be reached",
    },
)
def tick(
    ctx: typer.Context,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="As if it were then: ISO 8601, UTC if no zone.")
    ] = None,
    preview: Preview = False,
) -> int:
    """Make a job for every schedule that has fallen due; safe every minute, on every machine.

    One short run: let cron, a systemd timer or a cron service call it once a minute. Each window gets one
    job, however many ticks there are. What was missed in a downtime follows the schedule's catch_up, a
    window whose last job has not ended its overlap; both are reported and counted.
    """
    context = context_of(ctx)
    then = instant(at, "--at")
    if then is not None and not EARLIEST <= then < LATEST:
        years = f"{EARLIEST.year} to {LATEST.year - 1}"
        raise UsageError(f"--at: schedules fire in the years {years}", hint="is the year right?")
    scheduler = Scheduler(context.store, context.settings, coordinator=lambda: context.coordinator)
    report = scheduler.tick(then, preview=preview)
    _print(context, report, preview=preview)
    return 1 if report.failed else 0


def _print(context: Context, report: TickReport, *, preview: bool) -> None:
    printer = context.printer
    nothing = "nothing is due" if context.settings.schedules else "no schedules are configured"
    printer.emit(
        report.document(),
        lambda: printer.table(
            ("WHAT", "SCHEDULE", "WINDOW", "JOB"), _rows(report, preview=preview), empty=nothing
        ),
    )
    for skip in report.skipped:
        counted = f"skipped {skip.count}" if skip.count else "not yet"
        printer.say(f"schedule {skip.schedule}: {counted}: {skip.reason}")
    for said in (*report.notes, *report.failed):
        printer.warn(f"schedule {said.schedule}: {said.reason}")


def _rows(report: TickReport, *, preview: bool) -> Iterator[tuple[object, ...]]:
    for one in report.created:
        yield "would create" if preview else "created", one.schedule, one.window, one.job_id
    for one in report.existing:
        yield "exists", one.schedule, one.window, one.job_id
    for skip in report.skipped:
        yield "skipped" if skip.count else "waits", skip.schedule, skip.window, None
