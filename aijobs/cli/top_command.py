"""`aijobs top`: how things stand, live."""

import contextlib
import os
import select
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import context_of
from aijobs.cli.top_picture import picture
from aijobs.cli.words import positive_duration
from aijobs.core.errors import UsageError

_SHOWN = 5


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

    It fits 80 columns by 24 lines; where room is short, the longest table is cut first. Where there is no
    terminal, use `aijobs stats`.
    """
    from aijobs.services.statistics import Statistics

    context = context_of(ctx)
    pause = positive_duration(every, "--every")
    assert pause is not None
    if context.json:
        raise UsageError("top draws on a terminal", hint="aijobs stats --json")
    statistics = Statistics(context.store, context.settings)
    with context.printer.live() as screen, _keys() as pressed:
        while True:
            seen = statistics.close_up(_SHOWN)
            screen.draw(picture(*seen, store=context.store.location, height=screen.height))
            if pressed(pause) in ("q", "Q"):
                return


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
