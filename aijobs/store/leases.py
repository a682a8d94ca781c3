"""What a worker asks about the jobs it holds, and those it could still get. Nothing here changes a row."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, or_, select

from aijobs.core.model import Job, Status
from aijobs.store.claims import LOWEST_PRIORITY
from aijobs.store.jobs import COLUMNS, job_from
from aijobs.store.tables import jobs

_c = jobs.c
_CANCELS = select(_c.id, _c.lock_token).where(
    _c.claimed_at.is_not(None),
    _c.locked_by == bindparam("worker"),
    _c.parked_at.is_(None),
    _c.cancel_requested_at.is_not(None),
)
_TAKEN_AT = select(*COLUMNS).where(
    _c.claimed_at.is_not(None),
    _c.locked_by == bindparam("worker"),
    _c.parked_at.is_(None),
    _c.updated_at.in_(bindparam("instants", expanding=True)),
)
_MAY_START = (
    _c.type.in_(bindparam("waiting", expanding=True)),
    _c.priority >= bindparam("above"),
)
_RUNNABLE = select(
    or_(
        # Whoever holds it: should its worker die, it comes back.
        select(_c.id)
        .where(_c.claimed_at.is_not(None), _c.type.in_(bindparam("running", expanding=True)))
        .exists(),
        select(_c.id).where(_c.turn.is_not(None), *_MAY_START).exists(),
        # A retry keeps its place, however long it waits; what a person must decide on has no next_run_at.
        select(_c.id)
        .where(_c.status == Status.FAILED.value, _c.next_run_at.is_not(None), *_MAY_START)
        .exists(),
        select(_c.id).where(_c.turn.is_(None), _c.next_run_at <= bindparam("now"), *_MAY_START).exists(),
    )
)
_NEXT_RETRY = (
    select(_c.next_run_at)
    .where(
        _c.turn.is_(None),
        _c.next_run_at > bindparam("now"),
        _c.status == Status.FAILED.value,
        *_MAY_START,
    )
    .order_by(_c.next_run_at)
    .limit(1)
)
_NOT_IN_LINE = (
    select(_c.id)
    .where(_c.turn.is_(None), _c.next_run_at <= bindparam("before"))
    .order_by(_c.next_run_at)
    .limit(bindparam("limit"))
)

_WAITING_SINCE = (
    select(_c.id)
    .where(_c.turn.is_not(None), _c.next_run_at <= bindparam("before"))
    .order_by(_c.next_run_at, _c.id)
    .limit(bindparam("limit"))
)


def cancels_asked(tx: Connection, worker: str) -> list[tuple[str, int]]:
    """The leases (id, fence) of *worker* whose jobs a person asked to cancel."""
    return [(row[0], row[1]) for row in tx.execute(_CANCELS, {"worker": worker})]


def taken_at(tx: Connection, worker: str, instants: Sequence[datetime]) -> list[Job]:
    """What *worker* claimed at just these *instants*, and nobody has touched since."""
    return [job_from(row) for row in tx.execute(_TAKEN_AT, {"worker": worker, "instants": list(instants)})]


def runnable(
    tx: Connection, *, running: Sequence[str], waiting: Sequence[str], above: int | None, now: datetime
) -> bool:
    """Whether a job of the types *running* runs, or one of the types *waiting* is due or waits for a retry.

    Of those that wait only such of priority *above* or more; jobs enqueued with a delay are not due.
    """
    values = {
        "running": list(running), "waiting": list(waiting),
        "above": LOWEST_PRIORITY if above is None else above, "now": now,
    }  # fmt: skip
    return bool(tx.execute(_RUNNABLE, values).scalar())


def next_retry(
    tx: Connection, *, waiting: Sequence[str], above: int | None, now: datetime
) -> datetime | None:
    """When the first retry is due of those of the types *waiting*, of priority *above* or more, that wait."""
    values = {"waiting": list(waiting), "above": LOWEST_PRIORITY if above is None else above, "now": now}
    return tx.execute(_NEXT_RETRY, values).scalar()


def waiting_since(tx: Connection, before: datetime, limit: int) -> list[str]:
    """Jobs that could have started at *before* already and have not, the longest due first."""
    return list(tx.execute(_WAITING_SINCE, {"before": before, "limit": limit}).scalars())


def not_in_line(tx: Connection, before: datetime, limit: int) -> list[str]:
    """Jobs that were due at *before* already and that nobody has given a turn, the longest due first."""
    return list(tx.execute(_NOT_IN_LINE, {"before": before, "limit": limit}).scalars())
