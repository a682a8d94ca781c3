"""Many values in one parameter: one text of a statement however many values it is given.

A list written out in a statement makes another statement of every length, which neither SQLAlchemy nor the
server can keep prepared. It goes as JSON instead, which Python writes faster than psycopg an array.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ARRAY, Boolean, Connection, Dialect, Table, bindparam, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import UserDefinedType

from aijobs.store.dialect import PerDialect, is_postgresql


class _Json(UserDefinedType[list[Any]]):
    """A list as JSON text."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TEXT"

    def bind_processor(self, dialect: Dialect) -> Any:  # noqa: ARG002  # as SQLAlchemy calls it
        return lambda values: json.dumps(values, ensure_ascii=False)


class _Condition(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002  # as SQLAlchemy calls it
        """As it is: SQLAlchemy would compare it to 1 for SQLite, which then reads the table and no index."""
        return self


class _Among(_Condition):
    inherit_cache = True


def among(column: Any, name: str) -> Any:
    """The condition that a column of texts holds one of the list bound as *name*."""
    return _Among(column, bindparam(name, type_=_Json()))


class _Leased(_Condition):
    inherit_cache = True


def leased(job_id: Any, fence: Any, name: str) -> Any:
    """The condition that (id, fence) is one of the pairs bound as *name*."""
    return _Leased(job_id, fence, bindparam(name, type_=_Json()))


class InsertRows:
    """An INSERT of many rows of *table*: *each* names what a row has of its own, *once* what all have alike.

    *finish* adds to the dialect's own INSERT what is to be done about conflicts.
    """

    def __init__(
        self, table: Table, *, each: tuple[str, ...], once: str, finish: Callable[[Any], Any]
    ) -> None:
        self._table = table
        self._each = each
        self._once = once
        self._finish = finish
        self._statements = PerDialect(self._statement)

    def __call__(self, tx: Connection, rows: Sequence[tuple[object, ...]], once: object) -> None:
        """Insert *rows*, of which there must be one, in this order; one round trip on PostgreSQL."""
        statement = self._statements[tx.dialect.name]
        if is_postgresql(tx):
            columns = map(list, zip(*rows, strict=True))
            tx.execute(statement, dict(zip(self._each, columns, strict=True)) | {self._once: once})
        else:
            tx.execute(
                statement, [{**dict(zip(self._each, row, strict=True)), self._once: once} for row in rows]
            )

    def _statement(self, dialect: Any) -> Any:
        insert = dialect.insert(self._table)
        if not dialect.__name__.endswith("sqlite"):
            types = self._table.c
            lists = [bindparam(name, type_=ARRAY(types[name].type)) for name in self._each]
            given = func.unnest(*lists).table_valued(*self._each).render_derived(name="given")
            alike = bindparam(self._once, type_=types[self._once].type)
            insert = insert.from_select((*self._each, self._once), select(given, alike))
        return self._finish(insert)


@compiles(_Among, "postgresql")
def _any_of(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} = ANY (ARRAY(SELECT json_array_elements_text(CAST({values} AS JSON))))"


@compiles(_Among, "sqlite")
def _in_json(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"


@compiles(_Leased, "postgresql")
def _in_pairs(element: _Leased, compiler: SQLCompiler, **options: Any) -> str:
    job_id, fence, pairs = (compiler.process(clause, **options) for clause in element.clauses)
    rows = f"json_array_elements(CAST({pairs} AS JSON)) AS pair"
    found = f"SELECT pair ->> 0, CAST(pair ->> 1 AS BIGINT) FROM {rows}"
    # The pairs alone it would rather join to everything that runs than look up by their ids.
    ids = f"{job_id} = ANY (ARRAY(SELECT pair ->> 0 FROM {rows}))"
    return f"({ids} AND ({job_id}, {fence}) IN ({found}))"


@compiles(_Leased, "sqlite")
def _in_json_pairs(element: _Leased, compiler: SQLCompiler, **options: Any) -> str:
    job_id, fence, pairs = (compiler.process(clause, **options) for clause in element.clauses)
    found = f"SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each({pairs})"
    return f"({job_id}, {fence}) IN ({found})"
