"""Waiting for something to become true, instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], timeout: float = 10.0, *, every: float = 0.01) -> T:
    """Call *check* until it returns something true, and return that; AssertionError after *timeout* seconds.

    An AssertionError raised by *check* counts as "not yet", and is shown when the time is over.
    """
    deadline = time.monotonic() + timeout
    while True:
        why: AssertionError | None = None
        try:
            value = check()
            if value:
                return value
        except AssertionError as error:
            why = error
        if time.monotonic() >= deadline:
            raise AssertionError(f"still not so after {timeout:g} s (last: {why or value!r})") from why
        time.sleep(every)
