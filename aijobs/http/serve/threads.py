"""Where requests cross over to the store: a few threads, and a limit to how long a request waits for them.

What a caller is told has failed must not be done afterwards: told to try again, it would have two jobs. So
before each commit the thread asks whether the caller still waits, and who wants to give up asks whether the
commit has begun. One of the two comes first, and the other goes by it.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from aijobs.core.errors import StoreLocked
from aijobs.services.handing_over import Tasks

T = TypeVar("T")

_at_work = threading.local()


def may_commit() -> None:
    """Raise StoreLocked when this thread is at work for a request that has been told no meanwhile."""
    request: _Request | None = getattr(_at_work, "request", None)
    if request is not None:
        request.may_commit()


class _Request:
    """What one caller waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = self._commits = False

    def do(self, work: Callable[[], T]) -> T:
        """Do *work*, in a thread of ours."""
        _at_work.request = self
        try:
            return work()
        finally:
            _at_work.request = None

    def may_commit(self) -> None:
        """See above."""
        with self._lock:
            if self._given_up:
                raise StoreLocked("whoever asked for it has been told that it failed")
            self._commits = True

    def give_up(self) -> bool:
        """Keep it from being committed; False when that has begun."""
        with self._lock:
            self._given_up = not self._commits
            return self._given_up


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
        """What *work* returns or raises. StoreLocked when that takes too long: then it is not done.

        Work that has not begun is dropped, and what has begun is rolled back. Only a commit under way is
        waited for once more; of one that takes even longer nobody can know how it ends.
        """
        request = _Request()
        task = self._tasks.add(lambda: request.do(work))
        done = asyncio.wrap_future(task)
        try:
            await asyncio.wait({done}, timeout=self._patience)
            if not done.done() and not request.give_up():
                await asyncio.wait({done}, timeout=self._patience)
            if done.done():
                return done.result()
        finally:
            task.cancel()  # at once; the other only in the next round of the event loop
            done.cancel()
        raise StoreLocked(f"the store has not answered within {self._patience:g} s")

    def close(self, *, timeout: float) -> None:
        """Finish what is queued and end, waiting at most *timeout* seconds for each thread."""
        for _ in self._threads:
            self._tasks.stop()
        for thread in self._threads:
            thread.join(timeout)
