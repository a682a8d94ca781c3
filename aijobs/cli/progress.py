"""How far long work has come: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, TextIO

from aijobs.cli.plain import duration
from aijobs.core.clock import Clock

INTERVAL = 10.0
"""Seconds between two lines where there is no terminal."""


class Progress(Protocol):
    """What a command is handed to report its steps to."""

    def advance(self, count: int = 1) -> None:
        """*count* more are done."""
        ...


class Bar(Protocol):
    """A progress that is drawn; what is said meanwhile must be said above it."""

    def advance(self, count: int = 1) -> None:
        """*count* more are done."""
        ...

    def say(self, line: str) -> None:
        """One line above the bar."""
        ...


class Silent:
    """Says nothing."""

    def advance(self, count: int = 1) -> None:
        """Nothing to say."""


class Lines:
    """One line each `INTERVAL` seconds: done, of how many, rate, time left."""

    def __init__(self, what: str, *, total: int | None, stream: TextIO, clock: Clock) -> None:
        self._what, self._total, self._stream, self._clock = what, total, stream, clock
        self._done = 0
        self._began = self._said = clock.monotonic()

    def advance(self, count: int = 1) -> None:
        """Count, and say so when the last line is long enough ago."""
        self._done += count
        now = self._clock.monotonic()
        if now - self._said >= INTERVAL:
            self._said = now
            print(self._line(now - self._began), file=self._stream, flush=True)

    def _line(self, seconds: float) -> str:
        rate = self._done / seconds
        if self._total is None:
            return f"{self._what}: {self._done:,} so far ({rate:,.1f}/s)"
        left = duration(timedelta(seconds=(self._total - self._done) / rate)) if rate else "unknown"
        return f"{self._what}: {self._done:,} of {self._total:,} ({rate:,.1f}/s, {left} left)"


@contextmanager
def bar(what: str, *, total: int | None, stream: TextIO) -> Iterator[Bar]:
    """A bar with rate and time left, drawn by rich, gone when the work is done."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("-/s" if speed is None else f"{speed:,.1f}/s")

    class Drawn:
        """Hands steps and lines on to rich."""

        def advance(self, count: int = 1) -> None:
            """Move the bar."""
            progress.advance(task, count)

        def say(self, line: str) -> None:
            """Print above the bar, as it is."""
            progress.console.print(Text(line), soft_wrap=True)

    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), Rate())
    with RichProgress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield Drawn()
