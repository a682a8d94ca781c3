"""A thread for blocking work, first come first served: where the event loop crosses over to the store."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_Task = tuple[Future[Any], Callable[[], Any]]


class Lane:
    """One daemon thread and its queue.

    Not a ThreadPoolExecutor: those are joined when the interpreter ends, so a store that hangs would keep a
    worker alive that was told twice to go.
    """

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have *work* done after everything that was submitted before it."""
        done: Future[T] = Future()
        self._tasks.put((done, work))
        return done

    async def run(self, work: Callable[[], T]) -> T:
        """The same, awaited. When the waiting is cancelled, work that has begun is still done."""
        return await asyncio.wrap_future(self.submit(work))

    def inside(self) -> bool:
        """Whether the caller runs on this thread already."""
        return threading.current_thread() is self._thread

    def close(self, *, timeout: float) -> bool:
        """Finish what is queued and end the thread; False when that took longer than *timeout* seconds."""
        self._tasks.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            done, work = task
            if not done.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as fault:  # it belongs to whoever waits for the answer
                done.set_exception(fault)
            else:
                done.set_result(result)
