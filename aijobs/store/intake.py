"""Writing many new jobs at once, by the fastest way each driver has. Only the coordinator may call it.

One job at a time costs SQLAlchemy and the driver several times what the database needs for it. PostgreSQL
takes the rows by COPY, SQLite by one prepared statement that the driver repeats in C.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Dialect, Table

from aijobs.core.model import Job, Status
from aijobs.store.tables import job_inputs, jobs, to_text

_PLAIN = (
    "id", "type", "user", "key", "priority", "max_attempts", "input_hash", "request_id", "traceparent",
    "schedule", "created_by",
)  # fmt: skip
_TIMES = ("next_run_at", "deadline", "key_expires_at", "created_at", "updated_at")
_COLUMNS = (*_PLAIN, *_TIMES, "status", "turn")
"""What a new job has; the other columns have their defaults."""

_plain = attrgetter(*_PLAIN)
_times = attrgetter(*_TIMES)
_TAKEN = frozenset({"23505", "SQLITE_CONSTRAINT_UNIQUE"})

New = tuple[Job, int | None, str]
"""A job, its turn (None when it is not due yet) and its input as JSON text."""


def create_all(tx: Connection, new: Sequence[New]) -> bool:
    """Insert jobs with their inputs. False, and nothing is written, when an idempotency key is taken."""
    nested = tx.begin_nested()
    try:
        _insert(tx, jobs, _COLUMNS, _job_rows(new))
        _insert(tx, job_inputs, ("job_id", "payload"), ((job.id, payload) for job, _, payload in new))
    except Exception as error:
        nested.rollback()
        if _code(error) in _TAKEN:
            return False
        raise
    nested.commit()
    return True


def _job_rows(new: Iterable[New]) -> Iterator[tuple[object, ...]]:
    said = cache(_instant)  # an import has few different times, and writing one out takes a while
    pending = Status.PENDING.value
    for job, turn, _ in new:
        yield (*_plain(job), *map(said, _times(job)), pending, turn)


def _instant(value: datetime | None) -> str | None:
    return None if value is None else to_text(value)  # PostgreSQL reads it whatever its date style


def _insert(
    tx: Connection, table: Table, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]
) -> None:
    _WAYS[tx.dialect.name](tx.connection.dbapi_connection, _names(tx.dialect, table, columns), rows)


def _names(dialect: Dialect, table: Table, columns: tuple[str, ...]) -> str:
    quote = dialect.identifier_preparer.quote
    return f"{quote(table.name)} ({', '.join(map(quote, columns))})"


def _copy(connection: Any, names: str, rows: Iterable[tuple[object, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {names} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _repeat(connection: Any, names: str, rows: Iterable[tuple[object, ...]]) -> None:
    places = ", ".join("?" * (names.count(",") + 1))
    connection.executemany(f"INSERT INTO {names} VALUES ({places})", rows)


_WAYS: dict[str, Callable[[Any, str, Iterable[tuple[object, ...]]], None]] = {
    "postgresql": _copy,
    "sqlite": _repeat,
}


def _code(error: Exception) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None)
