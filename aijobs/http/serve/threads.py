"""Where requests cross over to the store: a few threads, and a limit to how long a request waits for them."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from aijobs.core.errors import StoreLocked
from aijobs.services.handing_over import Tasks

T = TypeVar("T")


class Threads:
    """Daemon threads on one queue: a store that hangs must not keep the process from ending."""

    def __init__(self, count: int, *, patience: float) -> None:
        self._patience = patience
        self._tasks = Tasks()
        self._threads = [
            threading.Thread(target=self._tasks.do_all, name=f"aijobs-serve-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """What *work* returns or raises. StoreLocked when that takes too long.

        Work that has begun then goes on: what it commits, the sender's next try finds as a copy. Work that
        has not begun is dropped.
        """
        done = self._tasks.add(work)
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.wrap_future(done)
        except TimeoutError:
            raise StoreLocked(f"the store has not answered within {self._patience:g} s") from None

    def close(self, *, timeout: float) -> None:
        """Finish what is queued and end, waiting at most *timeout* seconds for each thread."""
        for _ in self._threads:
            self._tasks.stop()
        for thread in self._threads:
            thread.join(timeout)
