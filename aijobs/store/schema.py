"""The version of a store's tables: made whole when it is empty, compared with one constant ever after."""

from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, inspect, select

from aijobs.core.errors import SchemaMismatch, StoreUnreachable
from aijobs.store import dialect
from aijobs.store.tables import metadata, schema_version

if TYPE_CHECKING:
    from aijobs.store.engine import Store

HEAD = "0001"
"""The version `tables.py` describes: the number of the last migration."""

CREATE_LOCK = 1
"""The advisory lock under which tables are made or changed."""


_VERSION = select(schema_version.c.version_num)


def version_of(tx: Connection) -> str | None:
    """The version stamped on the store; None when it has no tables of ours."""
    if not dialect.tables_present(tx, [schema_version.name]):
        return None
    return tx.execute(_VERSION).scalar_one_or_none()


def require_head(version: str, *, location: str) -> None:
    """Raise SchemaMismatch unless *version* is the one this program works with."""
    if version == HEAD:
        return
    if version < HEAD:
        hint = "back it up, then run `aijobs db upgrade`"
        raise SchemaMismatch(
            f"{location} has the older schema {version}; this version needs {HEAD}", hint=hint
        )
    hint = "upgrade aijobs on this machine; there is no way back for the store"
    raise SchemaMismatch(f"{location} has the newer schema {version}; this version knows {HEAD}", hint=hint)


def ensure(store: "Store", *, create: bool) -> bool:
    """Check the version; with *create*, make the tables of an empty store. True when they were made.

    Raises StoreUnreachable when there are none and *create* is False, and SchemaMismatch.
    """
    with store.read() as tx:
        version = version_of(tx)
    if version is not None:
        require_head(version, location=store.location)
        return False
    if not create:
        hint = "check the URL; `aijobs db upgrade` makes a new store there"
        raise StoreUnreachable(f"no job store in {store.location}", hint=hint)
    return _create(store)


def missing(tx: Connection) -> tuple[str, ...]:
    """The tables, columns and indexes that a store of this version should have and this one lacks."""
    found = inspect(tx)
    present = set(found.get_table_names())
    lost = []
    for table in metadata.sorted_tables:
        if table.name not in present:
            lost.append(f"table {table.name}")
            continue
        columns = {column["name"] for column in found.get_columns(table.name)}
        indexes = {index["name"] for index in found.get_indexes(table.name)}
        lost += [f"column {table.name}.{c.name}" for c in table.columns if c.name not in columns]
        lost += sorted(f"index {i.name}" for i in table.indexes if i.name not in indexes)
    return tuple(lost)


def _create(store: "Store") -> bool:
    with store.write() as tx:
        dialect.take_lock(tx, CREATE_LOCK)
        version = version_of(tx)  # another process may have been faster
        if version is None:
            make_tables(tx, location=store.location)
            return True
    require_head(version, location=store.location)
    return False


def make_tables(tx: Connection, *, location: str) -> None:
    """Make every table and stamp the version; SchemaMismatch when another program's table is in the way."""
    foreign = dialect.tables_present(tx, metadata.tables)
    if foreign:
        raise SchemaMismatch(
            f"{location} already has tables that are not ours: {', '.join(sorted(foreign))}",
            hint="use a database, or a PostgreSQL schema, of its own for the jobs",
        )
    metadata.create_all(tx, checkfirst=False)
    tx.execute(insert(schema_version).values(version_num=HEAD))
