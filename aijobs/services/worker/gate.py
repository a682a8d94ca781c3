"""Whether the store is there. While it is known to be away no call is started: nothing could be saved."""

import asyncio
import contextlib
from datetime import timedelta

from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import StoreError
from aijobs.core.log_events import Log, LogEvent

_FIRST = timedelta(milliseconds=100)
_CAP = timedelta(seconds=2)


class StoreGate:
    """Closed from the first transaction that fails until one succeeds. Belongs to the event loop."""

    def __init__(self, *, clock: Clock, log: Log) -> None:
        self._clock = clock
        self._log = log
        self._open = asyncio.Event()
        self._open.set()
        self._since = 0.0
        self._failures = 0
        self.losses = 0
        """How often a transaction has failed: a success that began before the last one says nothing."""
        self.fault: StoreError | None = None
        """Why the last transaction that failed did."""

    @property
    def away(self) -> bool:
        """Whether the last transaction failed."""
        return not self._open.is_set()

    async def passed(self) -> None:
        """Wait until the store is there."""
        await self._open.wait()

    async def passed_within(self, seconds: float) -> None:
        """The same, but not longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._open.wait()

    def lost(self, fault: StoreError) -> None:
        """A transaction failed; said once an outage."""
        self.losses += 1
        self._failures += 1
        self.fault = fault
        if self._open.is_set():
            self._open.clear()
            self._since = self._clock.monotonic()
            self._log.emit(LogEvent.STORE_LOST, error=fault.message)

    def back(self) -> None:
        """A transaction succeeded."""
        if self._open.is_set():
            return
        self._failures = 0
        self._open.set()
        away = timedelta(seconds=self._clock.monotonic() - self._since)
        self._log.emit(LogEvent.STORE_BACK, seconds=away)

    def pause(self, chance: Chance) -> float:
        """Seconds to wait before the next try."""
        return backoff(self._failures, chance)


def backoff(failures: int, chance: Chance) -> float:
    """Seconds to wait after *failures* in a row: full jitter, up to 0.1 and doubling to 2."""
    room: float = min(_CAP, _FIRST * 2 ** min(failures, 10)).total_seconds()
    return room * max(0.1, chance.random())
