"""What every table is made of: the metadata, the types of columns, partial indexes, how a table is kept.

Times are UTC: `timestamptz` on PostgreSQL, ISO 8601 text with a `Z` on SQLite, which sorts as time does.
JSON is kept as text, byte for byte, so that both databases give back what was put in.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, DateTime, Dialect, Index, Integer, MetaData, event
from sqlalchemy.engine.processors import str_to_datetime
from sqlalchemy.types import UserDefinedType

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def to_text(value: datetime) -> str:
    """*value* as the text SQLite keeps: always 27 characters, so that text order is time order."""
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC)
    return value.isoformat(timespec="microseconds")[:26] + "Z"


class IsoText(UserDefinedType[datetime]):
    """An instant as ISO 8601 text; SQLite has no type for it."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TEXT"

    def bind_processor(self, dialect: Dialect) -> Any:  # noqa: ARG002
        return lambda value: None if value is None else to_text(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ARG002
        return str_to_datetime  # as written by `to_text`; a lambda of ours takes twice as long


Instant = DateTime(timezone=True).with_variant(IsoText(), "sqlite")
Counter = BigInteger().with_variant(Integer(), "sqlite")


def one_of(column: str, *values: str) -> str:
    """The condition of a CHECK that *column* holds one of *values*."""
    return f"{column} IN ({', '.join(repr(v) for v in values)})"


def partial_index(name: str, *columns: Any, where: Any, unique: bool = False) -> Index:
    """An index over the rows that *where* names, on both databases."""
    return Index(name, *columns, unique=unique, info={"where": where})


def storage(**parameters: float) -> dict[str, Any]:
    """How PostgreSQL keeps a table, where its defaults do not do: fillfactor, autovacuum. Not on SQLite."""
    return {"info": {"storage": parameters}}


@event.listens_for(metadata, "before_create")
def _tell_the_dialect(target: MetaData, connection: Connection, **_: Any) -> None:
    """Tell the dialect in use what an index is partial to, and how a table is kept.

    To name both dialects in the table itself would load both, drivers included, with every command.
    """
    dialect = connection.dialect.name
    for table in target.tables.values():
        if "storage" in table.info and dialect == "postgresql":
            table.dialect_options[dialect]["with"] = table.info["storage"]
        for index in table.indexes:
            if "where" in index.info:
                index.dialect_options[dialect]["where"] = index.info["where"]
