"""The few statements that the two databases spell differently. Everything else is one statement for both."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, text

LOCK_WAIT = "10s"
"""How long PostgreSQL waits for a lock we name; SQLite's wait is in `sqlite.py`."""

_TABLES = {
    "sqlite": text("SELECT name FROM sqlite_master WHERE type = 'table'"),
    "postgresql": text(
        "SELECT relname FROM pg_catalog.pg_class"
        " WHERE relkind IN ('r', 'p') AND pg_catalog.pg_table_is_visible(oid)"
        " AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = current_schema())"
    ),
}
# The wait is set in the same round trip, and for this transaction only: a pooler may hand the session on.
_LOCK = text("SELECT set_config('lock_timeout', :wait, true), pg_advisory_xact_lock(:space, :key)")

_LOCK_SPACE = 0x61696A62  # "aijb": keeps our advisory locks apart from other programs' in the same database


S = TypeVar("S")


class PerDialect(Generic[S]):
    """A statement built from SQLAlchemy's module for the database in use, when it is first used.

    To load that of the other database would take a tenth of the time of a whole command.
    """

    def __init__(self, build: Callable[[Any], S]) -> None:
        self._build = build
        self._built: dict[str, S] = {}

    def __getitem__(self, name: str) -> S:
        """The statement for the dialect called *name*."""
        if name not in self._built:
            self._built[name] = self._build(import_module(f"sqlalchemy.dialects.{name}"))
        return self._built[name]


def is_postgresql(tx: Connection) -> bool:
    """Whether *tx* talks to PostgreSQL."""
    return tx.dialect.name == "postgresql"


def take_lock(tx: Connection, key: int) -> None:
    """Hold lock number *key* (a 32-bit int) until the transaction ends. StoreLocked after LOCK_WAIT.

    On SQLite a writer holds the only lock there is from its BEGIN IMMEDIATE on.
    """
    if is_postgresql(tx):
        tx.execute(_LOCK, {"wait": LOCK_WAIT, "space": _LOCK_SPACE, "key": key})


def tables_present(tx: Connection, names: Iterable[str]) -> frozenset[str]:
    """Those of *names* that are tables already, on PostgreSQL in the first schema of the search path."""
    return frozenset(names) & frozenset(tx.execute(_TABLES[tx.dialect.name]).scalars())
