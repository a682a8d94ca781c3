"""Writing many rows at once, by the fastest way each driver has.

One row at a time costs SQLAlchemy and the driver several times what the database needs for it. PostgreSQL
takes the rows by COPY, SQLite by one prepared statement that the driver repeats in C.
"""

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Dialect, Table

MANY = 20
"""From so many rows on it is worth the rounds that a COPY takes to begin and to end."""

Row = tuple[object, ...]
"""Values that the drivers take as they are; a time is text, as `to_text` writes it, for both databases."""


def insert_many(tx: Connection, table: Table, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    """Insert *rows* of *columns*. Errors are the driver's own, as `store.write` translates them."""
    _WAYS[tx.dialect.name](tx.connection.dbapi_connection, _names(tx.dialect, table, columns), rows)


def _names(dialect: Dialect, table: Table, columns: tuple[str, ...]) -> str:
    quote = dialect.identifier_preparer.quote
    return f"{quote(table.name)} ({', '.join(map(quote, columns))})"


def _copy(connection: Any, names: str, rows: Iterable[Row]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {names} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _repeat(connection: Any, names: str, rows: Iterable[Row]) -> None:
    places = ", ".join("?" * (names.count(",") + 1))
    connection.executemany(f"INSERT INTO {names} VALUES ({places})", rows)


_WAYS: dict[str, Callable[[Any, str, Iterable[Row]], None]] = {
    "postgresql": _copy,
    "sqlite": _repeat,
}
