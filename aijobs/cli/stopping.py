"""Long work that ends between two steps when somebody asks for it, and says how far it came."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one ends the program as usual."""
    stop = threading.Event()
    kept: dict[int, Any] = {}

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # as a signal handler is called
        stop.set()
        signal.signal(number, kept[number])

    for wanted in (signal.SIGINT, signal.SIGTERM):
        kept[wanted] = signal.signal(wanted, ask)
    try:
        yield stop
    finally:
        for number in kept:
            signal.signal(number, kept[number])
