"""Getting SQLite's write lock, so that a writer which begins again at once keeps nobody else out.

SQLite has no queue. Its own waiting sleeps for up to a tenth of a second between two tries, and between two
transactions of a busy writer (a sweep in steps, a worker) the lock is free for a fraction of a millisecond:
who sleeps through each of these moments waits for ever. To look more often helps little. So whoever waits
gives a sign: a shared `flock` on an empty file beside the store. Who is about to begin looks for the sign
first and, if there is one, stands back for some milliseconds; those who wait look more often than that.

The sign is manners and nothing more. SQLite's lock alone decides who writes, so a sign that cannot be given,
is not seen, or stays because its owner was stopped, costs some milliseconds. The kernel drops the `flock` of
a process that dies, and the file is removed by the last one to wait or by the next one to look.
"""

import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from aijobs.core.clock import Chance, Clock, SystemClock, system_chance

SUFFIX = "-waiting"
"""Follows the name of the store's file in the name of the sign."""

STAND_BACK = 0.005
"""Seconds left to others to begin first: enough for some of their tries on a machine that is busy, too."""

GLANCE = 0.002
"""Seconds between two tries at first. Who has waited longer tries more often, and is likelier to be next."""

_MOST_OFTEN = 4  # times as often as at first; a try takes some 20 microseconds


class WriteLock:
    """The write lock of one SQLite file, for all connections of this process. Threads may share it."""

    def __init__(
        self, path: Path, *, wait: float, clock: Clock | None = None, chance: Chance | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        """*wait* is how many seconds a transaction may wait to begin."""
        self._path = path.resolve()
        self._wait = wait
        self._clock = clock or SystemClock()
        self._chance = chance or system_chance()
        self._sleep = sleep

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction that writes. Raises sqlite3.OperationalError: SQLITE_BUSY after the wait."""
        connection.execute("PRAGMA busy_timeout=0")
        try:
            if somebody_waits(self._path):
                self._queue(connection, STAND_BACK)
            elif not _begins(connection):
                self._queue(connection, GLANCE * self._chance.random())
        finally:
            # SQLite itself waits for what else may be in the way (readers, when there is no write-ahead log).
            connection.execute(f"PRAGMA busy_timeout={int(self._wait * 1000)}")

    def _queue(self, connection: sqlite3.Connection, pause: float) -> None:
        since, waited = self._clock.monotonic(), 0.0
        with Sign(self._path) as sign:
            while waited < self._wait:
                self._sleep(min(pause, self._wait - waited))
                if _begins(connection):
                    return
                sign.give()
                waited = self._clock.monotonic() - since
                pause = GLANCE * (0.5 + self._chance.random()) / min(1 + waited, _MOST_OFTEN)
            connection.execute("BEGIN IMMEDIATE")


class Sign:
    """That one writer waits for the file at *path*: can be seen from `give` to the end of the block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def __enter__(self) -> Self:
        return self

    def give(self) -> None:
        """Let others see it, unless they do. May fail for once: it is called again with the next try."""
        if self._held is not None:
            return
        with suppress(OSError), _opened(self._path, os.O_CREAT, self._rights()) as file:
            if _locks(file, fcntl.LOCK_SH) and os.fstat(file).st_nlink:  # nobody is just removing it
                self._held = os.dup(file)

    def __exit__(self, *_: object) -> None:
        if self._held is None:
            return
        try:
            _remove_if_last(self._path, self._held)
        finally:
            os.close(self._held)

    def _rights(self) -> int:
        """Whoever may write to the store may see who waits."""
        return stat.S_IMODE(self._path.stat().st_mode)


def somebody_waits(path: Path) -> bool:
    """Whether a writer gives the sign that it waits for the file at *path*."""
    if not os.access(_sign_of(path), os.F_OK):  # nearly always, and quicker than an error
        return False
    try:
        with _opened(path) as file:
            return not _remove_if_last(path, file)
    except OSError:
        return False


_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW


def _sign_of(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


@contextmanager
def _opened(path: Path, flags: int = 0, rights: int = 0) -> Iterator[int]:
    file = os.open(_sign_of(path), os.O_RDONLY | _SAFELY | flags, rights)
    try:
        yield file
    finally:
        os.close(file)


def _remove_if_last(path: Path, file: int) -> bool:
    """Remove the sign unless somebody else (too) holds it; whether nobody does."""
    if not _locks(file, fcntl.LOCK_EX):
        return False
    with suppress(OSError):
        _sign_of(path).unlink()
    return True


def _locks(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _begins(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True
