"""What happened lately, by the minute and job type: rates cost the same however many jobs have ended."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, select

from aijobs.core.overview import Minute
from aijobs.core.totals import LATELY, PEAKS
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import minutes

_c = minutes.c


def _adding(dialect: Any) -> Any:
    new = dialect.insert(minutes).excluded
    added = {name: _c[name] + new[name] for name in LATELY}
    highest = {name: case((new[name] > _c[name], new[name]), else_=_c[name]) for name in PEAKS}
    return dialect.insert(minutes).on_conflict_do_update(
        index_elements=[_c.minute, _c.type, _c.shard], set_=added | highest
    )


_ADD = PerDialect(_adding)
_BETWEEN = (
    select(
        _c.minute,
        _c.type,
        *(func.sum(_c[name]).label(name) for name in LATELY),
        *(func.max(_c[name]).label(name) for name in PEAKS),
    )
    .where(_c.minute > bindparam("since"))
    .group_by(_c.minute, _c.type)
    .order_by(_c.minute)
)
_NONE = dict.fromkeys((*LATELY, *PEAKS), 0)


def add(tx: Connection, counted: Mapping[str, Mapping[str, float]], shard: int, now: datetime) -> None:
    """Add to the minute of *now*: by job type, names of LATELY and PEAKS."""
    if counted:
        minute = now.replace(second=0, microsecond=0)
        rows = [
            {"minute": minute, "type": type_name, "shard": shard, **_NONE, **row}
            for type_name, row in sorted(counted.items())
        ]
        tx.execute(_ADD[tx.dialect.name], rows)


def since(tx: Connection, then: datetime) -> list[Minute]:
    """Every minute that began after *then*, oldest first."""
    return [_minute(row._asdict()) for row in tx.execute(_BETWEEN, {"since": then})]


def _minute(row: dict[str, Any]) -> Minute:
    counts = {name: int(row[name]) for name in (*LATELY, *PEAKS) if not name.endswith("_seconds")}
    return Minute(**row | counts)  # PostgreSQL sums whole numbers as decimals
