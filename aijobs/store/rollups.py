"""Totals that never fall, whatever is pruned. Sharded, so that workers seldom wait for the same row."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from aijobs.core.totals import Series, Totals
from aijobs.store import minutes
from aijobs.store.arrays import InsertRows
from aijobs.store.tables import rollups

SHARDS = 8
_c = rollups.c


def _adding(insert: Any) -> Any:
    return insert.on_conflict_do_update(
        index_elements=[_c.metric, _c.labels, _c.shard], set_={"value": _c.value + insert.excluded.value}
    )


_ADD = InsertRows(rollups, each=("metric", "labels", "value"), once="shard", finish=_adding)
_SUMS = select(_c.metric, _c.labels, func.sum(_c.value)).group_by(_c.metric, _c.labels)


def add(tx: Connection, totals: Totals, shard: int, now: datetime) -> None:
    """Add what a transaction counted at *now*; *shard* tells writers apart (any number)."""
    rows = [(metric, labels, float(by)) for (metric, labels), by in totals.rows()]
    if rows:
        _ADD(tx, rows, shard % SHARDS)
        minutes.add(tx, totals.lately(), shard % SHARDS, now)


def sums(tx: Connection) -> dict[Series, float]:
    """Every total."""
    return {(metric, labels): value for metric, labels, value in tx.execute(_SUMS)}
