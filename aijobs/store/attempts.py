"""Running a transaction again when the database itself gave up on it: a deadlock, a conflict of two writers.

Nothing of such a transaction happened, so to run it again is always right. A lost connection is another
matter (it may have been committed) and is left to the caller, as is a lock that nobody lets go of.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreError
from aijobs.store.engine import Store
from aijobs.store.translate import code_of

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

Door = Callable[[], AbstractContextManager[Connection]]
"""What opens a transaction."""

ATTEMPTS = 5
"""How often a transaction is run at most."""

_LONGEST = 0.05  # seconds before the second attempt, doubled with each; the pause is a random part of it


def write(
    store: Store,
    work: Callable[[Connection], T],
    *,
    chance: Chance,
    sleep: Callable[[float], None] = time.sleep,
    door: Door | None = None,
) -> T:
    """What *work* returns, run in a transaction of its own that commits; the last StoreError when none does.

    *work* must do nothing but talk to the transaction, for it may run several times. *door* is that of
    the store through which it goes, `store.write` where none is named.
    """

    def once() -> T:
        with (door or store.write)() as tx:
            return work(tx)

    try:
        return once()
    except StoreError as error:
        if not gave_up(error):
            raise
    return _again(once, chance, sleep)


def _again(once: Callable[[], T], chance: Chance, sleep: Callable[[float], None]) -> T:
    from tenacity import Retrying, retry_if_exception, stop_after_attempt  # 40 ms that most commands can save

    def pause(state: "RetryCallState") -> float:
        longest: float = _LONGEST * 2**state.attempt_number
        return chance.random() * longest

    sleep(chance.random() * _LONGEST)
    stop = stop_after_attempt(ATTEMPTS - 1)
    again = Retrying(retry=retry_if_exception(gave_up), stop=stop, wait=pause, sleep=sleep, reraise=True)
    return again(once)


def gave_up(error: BaseException) -> bool:
    """Whether the database rolled the transaction back of its own accord (SQLSTATE class 40)."""
    if not isinstance(error, StoreError) or error.__cause__ is None:
        return False
    return (code_of(error.__cause__) or "").startswith("40")
