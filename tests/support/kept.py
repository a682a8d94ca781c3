"""What a store keeps, as only tests ask for it."""

from sqlalchemy import Connection, func, select

from aijobs.store.tables import deliveries, events


def last_events(tx: Connection, limit: int) -> list[dict[str, object]]:
    """The newest events of the whole store, newest first."""
    query = select(events).order_by(events.c.id.desc()).limit(limit)
    return [dict(row._mapping) for row in tx.execute(query)]


def count_unmatched(tx: Connection) -> int:
    """How many deliveries wait for their job to become known."""
    waits = (deliveries.c.handled_at.is_(None), deliveries.c.outcome != "ignored")
    return tx.execute(select(func.count()).select_from(deliveries).where(*waits)).scalar_one()
