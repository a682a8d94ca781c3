"""Seeing that somebody waits for a lock."""

from sqlalchemy import text

from aijobs.store.engine import Store

_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def waits_for_a_lock(store: Store) -> bool:
    """Whether a session of the store's database waits for a lock; on SQLite a second writer always does."""
    if store.dialect == "sqlite":
        return True
    with store.read() as tx:
        return bool(tx.execute(_WAITING).scalar())
