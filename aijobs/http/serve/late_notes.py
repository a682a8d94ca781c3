"""Refused deliveries are counted at once and written behind the answers, at most once in a few seconds."""

import asyncio
from contextlib import suppress
from functools import partial

from aijobs.core.clock import Clock
from aijobs.core.log_events import Log, LogEvent
from aijobs.http.serve.threads import Threads
from aijobs.services.refusals import Refusals


class LateNotes:
    """Writes what was refused while there is anything to write. Belongs to its event loop."""

    def __init__(
        self, refusals: Refusals, threads: Threads, *, clock: Clock, log: Log, every: float,
        stopping: asyncio.Event,
    ) -> None:  # fmt: skip
        """*every*: seconds between two writes; once *stopping* is set only `close` writes."""
        self._refusals = refusals
        self._threads = threads
        self._clock = clock
        self._log = log
        self._every = every
        self._stopping = stopping
        self._writer: asyncio.Task[None] | None = None
        self._failed = False

    def note(self, provider: str, reason: str) -> None:
        """Count a refused delivery; the first after a while is written at once."""
        self._refusals.note(provider, reason, self._clock.now())
        if (self._writer is None or self._writer.done()) and not self._stopping.is_set():
            self._writer = asyncio.create_task(self._write_on())

    async def close(self) -> None:
        """Write what is left, with one try."""
        if self._writer is not None:
            await self._writer
        if self._refusals.pending:
            self._failed = False  # what is lost now is said in any case
            await self._write(wait=True)

    async def _write_on(self) -> None:
        while self._refusals.pending and not self._stopping.is_set():
            await self._write()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._stopping.wait()
        if not self._refusals.pending:  # or a write that we had given up did it
            self._failed = False

    async def _write(self, *, wait: bool = False) -> None:
        """A store that is away is said once; what was counted is kept and tried again."""
        try:
            done = await self._threads.run(partial(self._refusals.write, wait=wait))
        except Exception as fault:  # or a defect, which must not become a write for each refusal
            if not self._failed:
                error = type(fault).__name__
                self._log.emit(LogEvent.REFUSALS_NOT_SAVED, count=self._refusals.pending, error=error)
            self._failed = True
        else:
            if done:
                self._failed = False
