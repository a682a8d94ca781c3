"""What the tables of version 0001 are made of."""

from typing import Any

from sqlalchemy import BigInteger, DateTime, Index, Integer, MetaData, Text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


Instant = DateTime(timezone=True).with_variant(Text(), "sqlite")
Counter = BigInteger().with_variant(Integer(), "sqlite")


def one_of(column: str, *values: str) -> str:
    """The condition of a CHECK that *column* holds one of *values*."""
    return f"{column} IN ({', '.join(repr(v) for v in values)})"


def partial_index(name: str, *columns: Any, where: Any, unique: bool = False) -> Index:
    """An index over the rows that *where* names, on both databases."""
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def storage(**parameters: float) -> dict[str, Any]:
    """How PostgreSQL keeps a table."""
    return {"postgresql_with": parameters}
