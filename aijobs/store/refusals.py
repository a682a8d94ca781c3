"""Webhook deliveries that were refused lately, by the minute; how many there ever were is in the roll-ups."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, func, or_, select

from aijobs.store.dialect import PerDialect
from aijobs.store.tables import deliveries, refusals

_c = refusals.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Lately:
    """What was refused of one provider for one reason; *first* and *last* are the minutes of these two."""

    provider: str
    reason: str
    count: int
    first: datetime
    last: datetime


def _adding(dialect: Any) -> Any:
    insert = dialect.insert(refusals)
    return insert.on_conflict_do_update(
        index_elements=list(refusals.primary_key),
        set_={"deliveries": _c.deliveries + insert.excluded.deliveries},
    )


_ADD = PerDialect(_adding)
_SINCE = (
    select(_c.provider, _c.reason, func.sum(_c.deliveries), func.min(_c.minute), func.max(_c.minute))
    .where(_c.minute > bindparam("since"))
    .group_by(_c.provider, _c.reason)
    .order_by(_c.provider, _c.reason)
)
_d = deliveries.c
_IS_NEW = (_d.provider == bindparam("of"), _d.received_at >= bindparam("since"))
# What was received since was handled since, or is not handled: each half has its index.
_TAKEN = select(
    or_(
        exists().where(*_IS_NEW, _d.handled_at >= bindparam("since")),
        exists().where(*_IS_NEW, _d.handled_at.is_(None), _d.outcome != "ignored"),
    )
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


def since(tx: Connection, then: datetime) -> list[Lately]:
    """What was refused in minutes that began after *then*, by provider and reason."""
    return [
        Lately(provider=provider, reason=reason, count=int(count), first=first, last=last)
        for provider, reason, count, first, last in tx.execute(_SINCE, {"since": then})
    ]


def was_one_taken(tx: Connection, provider: str, then: datetime) -> bool:
    """Whether a delivery of *provider* has been written down since *then*."""
    return bool(tx.execute(_TAKEN, {"of": provider, "since": then}).scalar_one())


def forget(tx: Connection, before: datetime) -> int:
    """Forget what was counted by the minute and is looked at no more."""
    return tx.execute(delete(refusals).where(_c.minute <= bindparam("before")), {"before": before}).rowcount
