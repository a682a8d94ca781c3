"""What a worker asks about the jobs it holds, and those it could still get. Nothing here changes a row."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, or_, select

from aijobs.core.model import Status
from aijobs.store.tables import jobs

_c = jobs.c
_OF_TYPES = _c.type.in_(bindparam("types", expanding=True))

_CANCELS = select(_c.id, _c.lock_token).where(
    _c.status == Status.PROCESSING.value,
    _c.locked_by == bindparam("worker"),
    _c.parked_at.is_(None),
    _c.cancel_requested_at.is_not(None),
)
_RUNNABLE = select(
    or_(
        # Whoever holds it: should its worker die, it comes back.
        select(_c.id).where(_c.status == Status.PROCESSING.value, _OF_TYPES).exists(),
        select(_c.id).where(_c.turn.is_not(None), _OF_TYPES).exists(),
        # A retry keeps its place, however long it waits; what a person must decide on has no next_run_at.
        select(_c.id)
        .where(_c.status == Status.FAILED.value, _c.next_run_at.is_not(None), _OF_TYPES)
        .exists(),
        select(_c.id).where(_c.turn.is_(None), _c.next_run_at <= bindparam("now"), _OF_TYPES).exists(),
    )
)
_NOT_IN_LINE = (
    select(_c.id)
    .where(_c.turn.is_(None), _c.next_run_at <= bindparam("before"))
    .order_by(_c.next_run_at)
    .limit(bindparam("limit"))
)


def cancels_asked(tx: Connection, worker: str) -> list[tuple[str, int]]:
    """The leases (id, fence) of *worker* whose jobs a person asked to cancel."""
    return [(row[0], row[1]) for row in tx.execute(_CANCELS, {"worker": worker})]


def runnable(tx: Connection, types: Sequence[str], now: datetime) -> bool:
    """Whether a job of *types* runs, or could run without waiting for a person or for a time its user set.

    Retries count although their time is in the future; jobs that were enqueued with a delay don't.
    """
    return bool(types) and bool(tx.execute(_RUNNABLE, {"types": list(types), "now": now}).scalar())


def not_in_line(tx: Connection, before: datetime, limit: int) -> list[str]:
    """Jobs that were due at *before* already and that nobody has given a turn, the longest due first."""
    return list(tx.execute(_NOT_IN_LINE, {"before": before, "limit": limit}).scalars())
