"""Totals that never fall, whatever is pruned. Sharded, so that workers seldom wait for the same row."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from aijobs.core.totals import Series, Totals
from aijobs.store import minutes
from aijobs.store.arrays import REALS, TEXTS, unnested
from aijobs.store.dialect import PerDialect, is_postgresql
from aijobs.store.tables import rollups

SHARDS = 8
_c = rollups.c


def _adding(dialect: Any) -> Any:
    insert = dialect.insert(rollups)
    if not dialect.__name__.endswith("sqlite"):  # one round trip for all of them
        given = unnested(metrics=TEXTS, all_labels=TEXTS, amounts=REALS)
        new = select(
            given.c.metrics, given.c.all_labels, bindparam("shard", type_=_c.shard.type), given.c.amounts
        )
        insert = insert.from_select(("metric", "labels", "shard", "value"), new)
    return insert.on_conflict_do_update(
        index_elements=[_c.metric, _c.labels, _c.shard], set_={"value": _c.value + insert.excluded.value}
    )


_ADD = PerDialect(_adding)
_SUMS = select(_c.metric, _c.labels, func.sum(_c.value)).group_by(_c.metric, _c.labels)


def add(tx: Connection, totals: Totals, shard: int, now: datetime) -> None:
    """Add what a transaction counted at *now*; *shard* tells writers apart (any number)."""
    rows = [(metric, labels, float(by)) for (metric, labels), by in totals.rows()]
    if not rows:
        return
    shard %= SHARDS
    if is_postgresql(tx):
        metrics, all_labels, amounts = map(list, zip(*rows, strict=True))
        values = {"metrics": metrics, "all_labels": all_labels, "amounts": amounts, "shard": shard}
        tx.execute(_ADD[tx.dialect.name], values)
    else:
        names = ("metric", "labels", "value")
        tx.execute(_ADD[tx.dialect.name], [dict(zip(names, row, strict=True), shard=shard) for row in rows])
    minutes.add(tx, totals.lately(), shard, now)


def sums(tx: Connection) -> dict[Series, float]:
    """Every total."""
    return {(metric, labels): value for metric, labels, value in tx.execute(_SUMS)}
