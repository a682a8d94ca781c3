"""Long work that ends between two steps when somebody asks for it, and says how far it came."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aijobs.core.errors import Interrupted, StoreError


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one ends the program as usual."""
    stop = threading.Event()
    kept: dict[int, Any] = {}

    def ask(number: int, *_: object) -> None:
        stop.set()
        signal.signal(number, kept[number])

    for wanted in (signal.SIGINT, signal.SIGTERM):
        kept[wanted] = signal.signal(wanted, ask)
    try:
        yield stop
    finally:
        for number in kept:
            signal.signal(number, kept[number])


@dataclass(frozen=True, slots=True)
class Account:
    """How far work came: for JSON the names of its answer, in words, and how to go on."""

    document: Mapping[str, object]
    words: str
    hint: str | None


@contextmanager
def accounted(so_far: Callable[[], Account]) -> Iterator[None]:
    """For work of many transactions: when Ctrl-C or the store ends it, the error says what is done.

    The transaction that was under way may be done, or not: nobody heard.
    """
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as end:
        account = so_far()
        error: Interrupted | StoreError = Interrupted(f"interrupted; {account.words}", hint=account.hint)
        error.account = account.document
        raise error from end
    except StoreError as end:
        account = so_far()
        error = type(end)(f"{end.message}; {account.words}", hint=account.hint)
        error.account = account.document
        raise error from end
