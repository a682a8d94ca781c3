"""How the database under a store is doing: its version, its journal, its room. For `aijobs doctor`."""

import os
from dataclasses import dataclass

from sqlalchemy import text

from aijobs.store.engine import Store
from aijobs.store.postgresql import ServerClock

_SQLITE_VERSION = text("SELECT sqlite_version()")
_JOURNAL = text("PRAGMA journal_mode")
_SYNCHRONOUS = text("PRAGMA synchronous")
_SERVER_VERSION = text("SELECT current_setting('server_version')")
_FULL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What the database says of itself; None where it has no such thing."""

    version: str
    journal_mode: str | None = None  # SQLite
    durable: bool | None = None  # SQLite: whether a commit survives a loss of power
    free_bytes: int | None = None  # SQLite: on the disk of the file, for this user
    skew_seconds: float | None = None  # PostgreSQL: how far its clock is ahead of this machine's


def condition_of(store: Store) -> Condition:
    """Look at the database of *store*. Raises StoreError."""
    with store.read() as tx:
        if store.path is None:
            version = str(tx.execute(_SERVER_VERSION).scalar_one())
            skew = store.clock.skew().total_seconds() if isinstance(store.clock, ServerClock) else None
            return Condition(version=version, skew_seconds=skew)
        disk = os.statvfs(store.path)
        return Condition(
            version=str(tx.execute(_SQLITE_VERSION).scalar_one()),
            journal_mode=str(tx.execute(_JOURNAL).scalar_one()),
            durable=tx.execute(_SYNCHRONOUS).scalar_one() >= _FULL,
            free_bytes=disk.f_bavail * disk.f_frsize,
        )
