"""Totals that never fall, whatever is pruned. Sharded, so that workers seldom wait for the same row."""

from datetime import datetime

from sqlalchemy import Connection, func, select

from aijobs.core.totals import Series, Totals
from aijobs.store import minutes
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import rollups

SHARDS = 8
_c = rollups.c
_ADD = PerDialect(
    lambda dialect: dialect.insert(rollups).on_conflict_do_update(
        index_elements=[_c.metric, _c.labels, _c.shard],
        set_={"value": _c.value + dialect.insert(rollups).excluded.value},
    )
)
_SUMS = select(_c.metric, _c.labels, func.sum(_c.value)).group_by(_c.metric, _c.labels)


def add(tx: Connection, totals: Totals, shard: int, now: datetime) -> None:
    """Add what a transaction counted at *now*; *shard* tells writers apart (any number)."""
    rows = [
        {"metric": metric, "labels": labels, "shard": shard % SHARDS, "value": by}
        for (metric, labels), by in totals.rows()
    ]
    if rows:
        tx.execute(_ADD[tx.dialect.name], rows)
        minutes.add(tx, totals.lately(), shard % SHARDS, now)


def sums(tx: Connection) -> dict[Series, float]:
    """Every total."""
    return {(metric, labels): value for metric, labels, value in tx.execute(_SUMS)}
