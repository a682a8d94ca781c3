"""Since when each alert fires, and when it was last told: one row a rule, told by one evaluation only."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, or_, select, update

from aijobs.store.dialect import PerDialect
from aijobs.store.tables import alerts

_c = alerts.c


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """What is kept of a rule. *since* None: it does not fire; *told_at* outlives that, so that what flaps is
    not told each time."""

    rule: str
    since: datetime | None
    told_at: datetime | None


_ALL = select(_c.rule, _c.since, _c.told_at)
# All of them, before anything else: two evaluations that take rows one by one would wait for each other.
_LOCKED = select(_c.rule).order_by(_c.rule).with_for_update()
_CREATE = PerDialect(lambda dialect: dialect.insert(alerts).on_conflict_do_nothing())
_MINE = _c.rule == bindparam("of_rule")
_BEGIN = update(alerts).where(_MINE, _c.since.is_(None)).values(since=bindparam("now"))
_END = update(alerts).where(_MINE, _c.since.is_not(None)).values(since=None)
_TELL = (
    update(alerts)
    .where(_MINE, or_(_c.told_at.is_(None), _c.told_at <= bindparam("before")))
    .values(told_at=bindparam("now"))
)
_UNTELL = update(alerts).where(_MINE, _c.told_at == bindparam("now")).values(told_at=None)


def states(tx: Connection) -> dict[str, AlertState]:
    """Every rule that ever fired."""
    return {row.rule: AlertState(**row._mapping) for row in tx.execute(_ALL)}


def note(tx: Connection, firing: Collection[str], now: datetime) -> None:
    """Write down which rules fire now; those not named do not. One evaluation at a time, until it commits."""
    known = states(tx)
    missing = [{"rule": rule} for rule in sorted(firing) if rule not in known]
    if missing:
        tx.execute(_CREATE[tx.dialect.name], missing)
    locked = list(tx.execute(_LOCKED).scalars())
    for rule in firing:
        tx.execute(_BEGIN, {"of_rule": rule, "now": now})
    for rule in locked:
        if rule not in firing:
            tx.execute(_END, {"of_rule": rule})


def claim(tx: Connection, rule: str, before: datetime, now: datetime) -> bool:
    """Whether the caller is the one to tell of a rule: it was not told since *before*."""
    return tx.execute(_TELL, {"of_rule": rule, "before": before, "now": now}).rowcount == 1


def give_back(tx: Connection, rule: str, now: datetime) -> None:
    """Nobody could be told after all: the next evaluation tries again."""
    tx.execute(_UNTELL, {"of_rule": rule, "now": now})
