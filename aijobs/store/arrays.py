"""Many values in one parameter: one text of a statement however many values it is given.

A list written out in a statement makes another statement of every length, which neither SQLAlchemy nor the
server can keep prepared. PostgreSQL takes an array instead, SQLite the same as JSON.
"""

import json
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Boolean, Dialect, Float, Text, bindparam, func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import UserDefinedType


class _Json(UserDefinedType[list[Any]]):
    """A list as JSON, which SQLite's `json_each` reads."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TEXT"

    def bind_processor(self, dialect: Dialect) -> Any:  # noqa: ARG002  # as SQLAlchemy calls it
        return lambda values: json.dumps(values, ensure_ascii=False)


TEXTS = ARRAY(Text()).with_variant(_Json(), "sqlite")
REALS = ARRAY(Float()).with_variant(_Json(), "sqlite")
NUMBERS = ARRAY(BigInteger()).with_variant(_Json(), "sqlite")


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
    return _Among(column, bindparam(name, type_=TEXTS))


class _Leased(_Condition):
    inherit_cache = True


def leased(job_id: Any, fence: Any, name: str) -> Any:
    """The condition that (id, fence) is one of the pairs bound as *name*."""
    return _Leased(job_id, fence, bindparam(name, type_=_Json()))


@compiles(_Among, "postgresql")
def _any_of(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} = ANY ({values})"


@compiles(_Among, "sqlite")
def _in_json(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"


def unnested(**lists: Any) -> Any:
    """On PostgreSQL, the rows made of lists of one length, bound under these names; their types are given."""
    arrays = [bindparam(name, type_=kind) for name, kind in lists.items()]
    return func.unnest(*arrays).table_valued(*lists).render_derived(name="given")


@compiles(_Leased, "postgresql")
def _in_pairs(element: _Leased, compiler: SQLCompiler, **options: Any) -> str:
    job_id, fence, pairs = (compiler.process(clause, **options) for clause in element.clauses)
    rows = f"json_array_elements(CAST({pairs} AS JSON)) AS pair"
    found = f"SELECT pair ->> 0, CAST(pair ->> 1 AS BIGINT) FROM {rows}"
    return f"({job_id}, {fence}) IN ({found})"


@compiles(_Leased, "sqlite")
def _in_json_pairs(element: _Leased, compiler: SQLCompiler, **options: Any) -> str:
    job_id, fence, pairs = (compiler.process(clause, **options) for clause in element.clauses)
    found = f"SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each({pairs})"
    return f"({job_id}, {fence}) IN ({found})"
