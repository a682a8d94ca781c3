"""A clock that moves only when it is told to."""

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Stands still at 2026-01-01T00:00:00Z until `advance` or `set`; safe to share between threads."""

    def __init__(self, start: datetime = START) -> None:
        self._lock = threading.Lock()
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, by: timedelta = timedelta(0), *, seconds: float = 0) -> datetime:
        """Move forward; returns the new time."""
        step = by + timedelta(seconds=seconds)
        with self._lock:
            self._now += step
            self._monotonic += step.total_seconds()
            return self._now

    def set(self, now: datetime) -> None:
        """Jump to *now*, as a wall clock does when it is corrected; durations are not touched."""
        with self._lock:
            self._now = now
