"""What ails the store is for the log; and as callers come by the thousand, a fault is one line a minute."""

from aijobs.core.clock import Clock
from aijobs.core.errors import StoreError
from aijobs.core.log_events import Log, LogEvent

EVERY = 60.0
"""Seconds until a fault that lasts is said again."""


class StoreFaults:
    """What was said last, and when. Belongs to its event loop."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._again_at: dict[type[StoreError], float] = {}
        self._other_version: str | None = None

    def tell(self, route: str, error: StoreError) -> None:
        """Say that a request to *route* met *error*, unless its kind was said within EVERY."""
        now = self._clock.monotonic()
        if now >= self._again_at.get(type(error), now):
            self._again_at[type(error)] = now + EVERY
            self._log.emit(LogEvent.REQUEST_FAILED, route=route, error=error.message)

    def note_version(self, version: str, ours: str) -> None:
        """Say once that the store was upgraded to *version*: this server works, and should be replaced."""
        if version == ours or version == self._other_version:
            return
        self._other_version = version
        text = f"the store has the newer schema {version}, and this server knows {ours}: restart it, upgraded"
        self._log.emit(LogEvent.STORE_WARNING, text=text)
