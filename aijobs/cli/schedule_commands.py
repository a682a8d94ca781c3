"""`aijobs schedule list`, `preview`, `pause`, `resume`."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Actor, Reason
from aijobs.cli.plain import cell
from aijobs.cli.words import instant, positive_duration
from aijobs.core.durations import format_duration
from aijobs.core.settings import ScheduleSettings
from aijobs.core.ticking import OPEN_END
from aijobs.services.timetable import Entry, Fire, Timetable

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule.")]
_MOST = 1000


@notes(
    "aijobs schedule list --count 3",
    exits={0: "listed", 5: "the store was written by another version"},
)
def schedule_list(
    ctx: typer.Context,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=1, max=_MOST, help="How many fire times of each.")
    ] = 1,
) -> None:
    """List the schedules with their next fire times, in the business zone and in UTC.

    Days on which the clocks change are marked. With --json also the last window that was settled, how many
    were skipped so far, and until when a schedule is paused; unknown before the first tick.
    """
    context = context_of(ctx)
    listed = _timetable(context).entries(context.clock.now(), count=count)
    known = listed.unknown_because is None
    context.printer.emit(
        {"schedules": [_entry_shape(entry, known=known) for entry in listed.entries]},
        lambda: context.printer.table(
            ("SCHEDULE", "TYPE", "WHEN", "NEXT IN ITS ZONE", "UTC", "CLOCKS", "PAUSED UNTIL"),
            _rows(listed.entries),
            empty="no schedules are configured",
        ),
    )
    if listed.entries and not known:
        context.printer.warn(f"whether a schedule is paused is unknown: {listed.unknown_because}")


@notes(
    "aijobs schedule preview nightly-report --count 5",
    "aijobs schedule preview nightly-report --from 2026-03-07 --count 3 --json",
    exits={0: "shown", 3: "no such schedule"},
)
def schedule_preview(
    ctx: typer.Context,
    name: Name,
    after: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Only later than this: ISO 8601, UTC if no zone. Else: now."
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=1, max=_MOST, help="How many fire times.")
    ] = 5,
) -> None:
    """Show when a schedule fires, in its business zone and in UTC, with the days of clock changes marked."""
    context = context_of(ctx)
    fires = _timetable(context).fires(name, instant(after, "--from") or context.clock.now(), count=count)
    settings = context.settings.schedule(name)
    document = {"schedule": name, **_times_shape(settings), "fires": [_fire_shape(fire) for fire in fires]}
    context.printer.emit(
        document | {"clock_changes": _changes_shape(fires)},
        lambda: context.printer.table(
            (f"IN {settings.timezone}", "UTC", "CLOCKS"),
            [(_local(fire), fire.utc, _clocks(fire)) for fire in fires],
            empty="it does not fire any more",
        ),
    )


@notes(
    "aijobs schedule pause nightly-report --for 2d --reason 'month end, no reports'",
    exits={0: "paused", 3: "no such schedule", 5: "the store cannot be reached"},
)
def schedule_pause(
    ctx: typer.Context,
    name: Name,
    reason: Reason,
    lasting: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Ends by itself after this: 30m, 2d. Else: open."),
    ] = None,
    actor: Actor = None,
) -> None:
    """Let a schedule fire nothing; what falls due in a pause never fires. Jobs that exist go on."""
    context = context_of(ctx)
    span = positive_duration(lasting, "--for")
    until = _timetable(context).pause(name, actor=context.actor(actor), reason=reason, lasting=span)
    _print_pause(context, name, until)


@notes(
    "aijobs schedule resume nightly-report --reason 'month end is over'",
    exits={0: "resumed", 3: "no such schedule", 5: "the store cannot be reached"},
)
def schedule_resume(ctx: typer.Context, name: Name, reason: Reason, actor: Actor = None) -> None:
    """End a pause: the schedule fires from now on, and nothing of the past."""
    context = context_of(ctx)
    _timetable(context).resume(name, actor=context.actor(actor), reason=reason)
    _print_pause(context, name, None)


def _timetable(context: Context) -> Timetable:
    return Timetable(context.settings, lambda: context.store)


def _print_pause(context: Context, name: str, until: datetime | None) -> None:
    end = None if until == OPEN_END else until
    words = (
        f"{name} is paused until {cell(end) if end else 'it is resumed'}" if until else f"{name} fires again"
    )
    context.printer.emit(
        {"schedule": name, "paused": until is not None, "paused_until": end},
        lambda: context.printer.line(words),
    )


# --- Shapes and rows --------------------------------------------------------------------------------


def _entry_shape(entry: Entry, *, known: bool) -> dict[str, Any]:
    record = entry.record
    paused = record.paused_until if record else None
    return {
        "schedule": entry.name,
        "type": entry.settings.type,
        **_times_shape(entry.settings),
        "catch_up": entry.settings.catch_up,
        "overlap": entry.settings.overlap,
        "next": [_fire_shape(fire) for fire in entry.next],
        "previous": _fire_shape(entry.previous) if entry.previous else None,
        "last_window": record.last_window if record else None,
        "skipped": record.skipped if record else None,
        "paused": (paused is not None and paused > entry.now) if known else None,
        "paused_until": None if paused == OPEN_END else paused,
    }


def _times_shape(settings: ScheduleSettings) -> dict[str, Any]:
    return {
        "cron": settings.cron,
        "every": format_duration(settings.every) if settings.every else None,
        "timezone": settings.timezone,
    }


def _fire_shape(fire: Fire) -> dict[str, Any]:
    return {"utc": fire.utc, "local": fire.local.isoformat()}


def _changes_shape(fires: Sequence[Fire]) -> list[dict[str, Any]]:
    changes = {fire.change.at: fire.change for fire in fires if fire.change}
    return [
        {"utc": at, "shift_seconds": int(change.shift.total_seconds())}
        for at, change in sorted(changes.items())
    ]


def _rows(entries: Sequence[Entry]) -> Iterator[tuple[object, ...]]:
    for entry in entries:
        when = entry.settings.cron or f"every {format_duration(entry.settings.every or timedelta(0))}"
        paused = entry.record.paused_until if entry.record else None
        end = "it is resumed" if paused == OPEN_END else paused if paused and paused > entry.now else None
        for fire in entry.next:
            yield entry.name, entry.settings.type, when, _local(fire), fire.utc, _clocks(fire), end


def _local(fire: Fire) -> str:
    return f"{fire.local:%a} {fire.local.isoformat()}"


def _clocks(fire: Fire) -> str:
    if fire.change is None:
        return ""
    way = "forward" if fire.change.shift > timedelta(0) else "back"
    return f"{way} {format_duration(abs(fire.change.shift))} that day"
