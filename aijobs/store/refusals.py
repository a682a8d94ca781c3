"""Webhook deliveries that were refused lately, by the minute; how many there ever were is in the roll-ups."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select

from aijobs.store.dialect import PerDialect
from aijobs.store.tables import deliveries, refusals

_c = refusals.c


@dataclass(frozen=True, slots=True, kw_only=True)
class InMinute:
    """What was refused of one provider for one reason in the minute that began at *minute*."""

    provider: str
    reason: str
    minute: datetime
    count: int


def _adding(dialect: Any) -> Any:
    insert = dialect.insert(refusals)
    return insert.on_conflict_do_update(
        index_elements=list(refusals.primary_key),
        set_={"deliveries": _c.deliveries + insert.excluded.deliveries},
    )


_ADD = PerDialect(_adding)
_SINCE = (
    select(_c.provider, _c.reason, _c.minute, _c.deliveries)
    .where(_c.minute > bindparam("since"))
    .order_by(_c.provider, _c.reason, _c.minute)
)
_d = deliveries.c
_NEWEST = select(func.max(_d.received_at)).where(
    _d.provider == bindparam("of"), _d.received_at >= bindparam("since")
)
# What was received since was handled since, or is not handled: each half has its index.
_TAKEN = select(
    _NEWEST.where(_d.handled_at >= bindparam("since")).scalar_subquery(),
    _NEWEST.where(_d.handled_at.is_(None), _d.outcome != "ignored").scalar_subquery(),
)


def add(tx: Connection, counted: Iterable[tuple[datetime, str, str, int]]) -> None:
    """Add to the minute of each: (when, provider, reason, how many). In one order, so that writers cannot
    deadlock."""
    rows = [
        {
            "minute": at.replace(second=0, microsecond=0),
            "provider": provider,
            "reason": reason,
            "deliveries": n,
        }
        for at, provider, reason, n in counted
    ]
    rows.sort(key=lambda row: (row["minute"], row["provider"], row["reason"]))
    tx.execute(_ADD[tx.dialect.name], rows)


def since(tx: Connection, then: datetime) -> list[InMinute]:
    """What was refused in minutes that began after *then*, by provider, reason and minute."""
    return [
        InMinute(provider=provider, reason=reason, minute=minute, count=int(count))
        for provider, reason, minute, count in tx.execute(_SINCE, {"since": then})
    ]


def last_taken(tx: Connection, provider: str, then: datetime) -> datetime | None:
    """When the newest delivery of *provider* came that was written down; None when none came since *then*."""
    found = tx.execute(_TAKEN, {"of": provider, "since": then}).one()
    return max((at for at in found if at is not None), default=None)


def forget(tx: Connection, before: datetime) -> int:
    """Forget what was counted by the minute and is looked at no more."""
    return tx.execute(delete(refusals).where(_c.minute <= bindparam("before")), {"before": before}).rowcount
