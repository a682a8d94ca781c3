"""`aijobs top`: how things stand, live."""

import contextlib
import os
import select
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import context_of
from aijobs.cli.plain import aligned, cell
from aijobs.cli.stats_command import percent, provider_rows, worker_rows
from aijobs.cli.words import positive_duration
from aijobs.core.errors import UsageError
from aijobs.core.overview import Overview, age

if TYPE_CHECKING:
    from aijobs.core.overview import FailedJob, RunningJob

_SHOWN = 5
_TYPES = ("TYPE", "READY", "OLDEST", "LATER", "RETRY", "HELD", "RUN", "PARK", "OK/H", "DEAD/H")
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)


@notes(
    "aijobs top",
    "aijobs top --every 5s",
    exits={0: "left with q", 5: "the store cannot be reached"},
)
def top(
    ctx: typer.Context,
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="How often it is drawn anew.")
    ] = "2s",
) -> None:
    """Show live what `aijobs stats` shows once, with what runs and what failed last. q quits.

    It fits 80 columns; what does not fit the height is cut at the bottom. Where there is no terminal, use
    `aijobs stats`.
    """
    from aijobs.services.statistics import Statistics

    context = context_of(ctx)
    pause = positive_duration(every, "--every")
    assert pause is not None
    if context.json:
        raise UsageError("top draws on a terminal", hint="aijobs stats --json")
    statistics = Statistics(context.store, context.settings)
    with context.printer.live() as draw, _keys() as pressed:
        while True:
            draw(picture(*statistics.close_up(_SHOWN), store=context.store.location))
            if pressed(pause) in ("q", "Q"):
                return


def picture(
    seen: Overview, running: "Sequence[RunningJob]", failed: "Sequence[FailedJob]", *, store: str
) -> list[str]:
    """The lines of one picture."""
    lines = [f"aijobs  {cell(seen.now)}  {store}", _rates(seen), ""]
    lines += _table(_TYPES, _loads(seen))
    lines += ["", *_table(("PROVIDER", "BREAKER", "CALLS", "MAY START", "UNTIL", "WHY"), provider_rows(seen))]
    lines += [
        "",
        f"Workers alive: {len(seen.alive)}, calls at once: {sum(w.concurrency for w in seen.alive)}",
    ]
    if seen.alive:
        lines += _table(("WORKER", "HOST", "STATE", "CALLS", "TYPES", "HEARD"), worker_rows(seen)[:_SHOWN])
    if running:
        lines += ["", *_table(("RUNNING", "TYPE", "FOR", "LEASE", "WORKER"), _running(seen, running))]
    if failed:
        lines += ["", *_table(("FAILED", "TYPE", "AGO", "ERROR", ""), _failed(seen, failed))]
    lines += ["", "q quits"]
    return lines


def _rates(seen: Overview) -> str:
    minute, hour = seen.lately(_MINUTE), seen.lately(_HOUR)
    wait = None if hour.mean_wait is None else timedelta(seconds=hour.mean_wait)
    share = cell(percent(hour.success_rate))
    now = f"this minute {minute.succeeded} ok, {minute.failed} failed"
    return f"{now}; hour {hour.succeeded} ok, {hour.dead_letter} dead, {share}, wait {cell(wait)}"


def _loads(seen: Overview) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for name, load in seen.loads.items():
        hour = seen.lately(_HOUR, type_name=name)
        rows.append(
            (
                _short(name, 16), load.ready, age(seen.now, load.oldest_ready_at), load.delayed,
                load.retrying, load.held, load.running, load.parked, hour.succeeded, hour.dead_letter,
            )
        )  # fmt: skip
    return rows


def _running(seen: Overview, running: "Sequence[RunningJob]") -> list[tuple[object, ...]]:
    return [
        (
            one.id, _short(one.type, 12), age(seen.now, one.claimed_at),
            "parked" if one.parked_at else one.locked_until - seen.now, _short(one.worker or "", 12),
        )
        for one in running
    ]  # fmt: skip


def _failed(seen: Overview, failed: "Sequence[FailedJob]") -> list[tuple[object, ...]]:
    return [
        (
            one.id, _short(one.type, 12), age(seen.now, one.at), one.error_class or "",
            "dead" if one.dead else "again",
        )
        for one in failed
    ]  # fmt: skip


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return aligned(columns, [[cell(value) for value in row] for row in rows])


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "~"


class _Keys:
    """Waits for a key, at most for a time."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._never = threading.Event()

    def __call__(self, within: timedelta) -> str | None:
        """The key that was pressed, or None."""
        seconds = within.total_seconds()
        if self._descriptor is None:
            self._never.wait(seconds)
            return None
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return None
        pressed = os.read(self._descriptor, 1)
        if not pressed:  # whoever typed is gone
            self._descriptor = None
        return pressed.decode("utf-8", "replace")


@contextlib.contextmanager
def _keys() -> Iterator[_Keys]:
    """Keys one by one as they are pressed; Ctrl-C still interrupts. Without a keyboard there are none."""
    import termios
    import tty

    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, termios.error):
        yield _Keys(None)
        return
    try:
        tty.setcbreak(descriptor)
        yield _Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
