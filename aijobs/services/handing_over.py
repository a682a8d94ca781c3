"""Blocking work handed over to threads of ours, and its answers.

Not a ThreadPoolExecutor: its threads are joined when the interpreter ends, so a store that hangs would keep
a process alive that was told to go.
"""

import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Tasks:
    """Work in the order in which it was handed over; any number of threads may do it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def add(self, work: Callable[[], T]) -> Future[T]:
        """Hand *work* over; whoever waits gets what it returns or raises."""
        done: Future[T] = Future()
        self._queue.put((done, work))
        return done

    def stop(self) -> None:
        """Let one thread end when it has done all that was added before."""
        self._queue.put(None)

    def do_all(self) -> None:
        """What a thread does: one piece of work after the other, until one `stop`."""
        while (task := self._queue.get()) is not None:
            done, work = task
            if not done.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as fault:  # it belongs to whoever waits for the answer
                done.set_exception(fault)
            else:
                done.set_result(result)
