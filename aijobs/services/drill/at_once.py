"""Many who want the same at the same instant."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(count: int, act: Callable[[], T]) -> list[T]:
    """What *act* gives each of *count* threads, which wait for one another before they begin."""
    start = threading.Barrier(count)

    def begin(_: int) -> T:
        start.wait()
        return act()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))
