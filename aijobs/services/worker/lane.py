"""A thread for blocking work, first come first served: where the event loop crosses over to the store."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from aijobs.services.handing_over import Tasks

T = TypeVar("T")


class Lane:
    """One daemon thread and its queue."""

    def __init__(self, name: str) -> None:
        self._tasks = Tasks()
        self._thread = threading.Thread(target=self._tasks.do_all, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have *work* done after everything that was submitted before it."""
        return self._tasks.add(work)

    async def run(self, work: Callable[[], T]) -> T:
        """The same, awaited. When the waiting is cancelled, work that has begun is still done."""
        return await asyncio.wrap_future(self.submit(work))

    def inside(self) -> bool:
        """Whether the caller runs on this thread already."""
        return threading.current_thread() is self._thread

    def close(self, *, timeout: float) -> bool:
        """Finish what is queued and end the thread; False when that took longer than *timeout* seconds."""
        self._tasks.stop()
        self._thread.join(timeout)
        return not self._thread.is_alive()
