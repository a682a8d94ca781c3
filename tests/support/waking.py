"""Hearing what workers hear."""

import contextlib
from collections.abc import Iterator

from aijobs.store.engine import Store
from aijobs.store.wake import Wake
from tests.support.wait import eventually


@contextlib.contextmanager
def listening(store: Store) -> Iterator[Wake]:
    """A listener that works and has heard everything there was: what it hears next is new."""
    wake = Wake(store)
    try:
        eventually(lambda: wake.healthy)
        while wake.wait(0):
            pass
        yield wake
    finally:
        wake.close()
