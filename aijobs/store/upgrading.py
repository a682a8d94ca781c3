"""Bringing a store to the version of this program, and looking whether it is whole: what `aijobs db` does.

Alembic is loaded only to upgrade an older store.
"""

from contextlib import closing
from dataclasses import dataclass

from sqlalchemy import Connection

from aijobs.store import dialect, schema, wake
from aijobs.store.engine import open_any, open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """What an upgrade did. *before* None: the store was made; *before* equal to *after*: nothing."""

    location: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A store of the right version. *missing* names tables, columns and indexes that somebody removed."""

    location: str
    version: str
    missing: tuple[str, ...]


def upgrade(url: str) -> Upgraded:
    """Make the store at *url*, or bring an older one to our version; several may try at once, one does it.

    Raises UsageError, StoreUnreachable, StoreLocked, and SchemaMismatch for a newer store or foreign tables.
    """
    with closing(open_any(url)) as store, store.write() as tx:
        dialect.take_lock(tx, schema.CREATE_LOCK)
        before = None if store.created else schema.version_of(tx)
        if not store.created:
            _advance(tx, before, location=store.location)
            wake.notify(tx)  # workers at work look at the version
        return Upgraded(location=store.location, before=before, after=schema.HEAD)


def check(url: str) -> Checked:
    """Look whether the store at *url* is whole. Raises what `open_store` raises."""
    with closing(open_store(url)) as store, store.read() as tx:
        return Checked(location=store.location, version=schema.HEAD, missing=schema.missing(tx))


def _advance(tx: Connection, version: str | None, *, location: str) -> None:
    if version is None:
        schema.make_tables(tx, location=location)
    elif version < schema.HEAD:
        from aijobs.store import migrations

        migrations.run(tx)
    else:
        schema.require_head(version, location=location)
