"""Removing what has been kept long enough, oldest first, a bounded batch a transaction.

Each batch begins where the one before ended. What must stay although it is old enough (a key that lives, an
open dead letter) collects at the front, and would else be walked over again by every batch of a night.

Never removed: a job that has not ended, a dead letter that nobody closed, a job whose idempotency key still
lives (a repeat would run it again), a job somebody has yet to be told about, a replay that may be resumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
)

from aijobs.core.ids import lowest_id
from aijobs.core.model import Status
from aijobs.store.arrays import among
from aijobs.store.tables import (
    dead_letters,
    deliveries,
    events,
    job_inputs,
    job_results,
    jobs,
    minutes,
    notifications,
    provider_calls,
    replay_items,
    replays,
    usage_days,
)

_c = jobs.c


@dataclass(frozen=True, slots=True)
class Dropped:
    """A step over inputs or results: how many went, and the last id judged; None: there are no more."""

    count: int
    last: str | None


_IDS: Any = bindparam("ids", expanding=True)
_BEFORE: Any = bindparam("before")
_KEY_IS_FREE = or_(_c.key.is_(None), _c.key_released_at.is_not(None), _c.key_expires_at <= bindparam("now"))
_ALL_TOLD = ~exists().where(notifications.c.job_id == _c.id, notifications.c.state == "pending")
_OPEN = exists().where(dead_letters.c.job_id == _c.id, dead_letters.c.state == "open")
_LATELY_CLOSED = exists().where(dead_letters.c.job_id == _c.id, dead_letters.c.settled_at > _BEFORE)


def _ended(status: Status, *more: ColumnElement[bool]) -> Select[Any]:
    return (
        select(_c.id, _c.finished_at)
        .where(_c.status == status.value, _c.finished_at <= _BEFORE, _KEY_IS_FREE, _ALL_TOLD, *more)
        .order_by(_c.finished_at)
    )


_ENDED = {
    Status.SUCCEEDED: _ended(Status.SUCCEEDED),
    Status.CANCELLED: _ended(Status.CANCELLED),
    Status.DEAD_LETTER: _ended(Status.DEAD_LETTER, ~_OPEN, ~_LATELY_CLOSED),
}
_WELL_ENDED = (Status.SUCCEEDED.value, Status.CANCELLED.value)


def _next(table: Table) -> Select[str]:
    """By job id, which is by age; a job made later than *young* cannot have ended long enough ago."""
    between = (table.c.job_id > bindparam("after"), table.c.job_id < bindparam("young"))
    return select(table.c.job_id).where(*between).order_by(table.c.job_id).limit(bindparam("limit"))


_NEXT = {table: _next(table) for table in (job_inputs, job_results)}
_LONG_ENDED = (_c.status.in_(_WELL_ENDED), _c.finished_at <= _BEFORE)
# Of those only: asked in one statement, PostgreSQL may go through all jobs beside the bodies that are left.
_OF_THOSE = select(_c.id).where(among(_c.id, "job_ids"), *_LONG_ENDED)
_n = notifications.c
_NOTIFICATIONS = (  # by id, which is by age
    select(_n.id)
    .where(_n.id < bindparam("young"), _n.state != "pending", _n.created_at <= _BEFORE)
    .order_by(_n.id)
)
_LIMIT: Any = bindparam("limit")
_OLD_EVENTS = (
    select(events.c.id).where(events.c.job_id.is_(None), events.c.at <= _BEFORE).order_by(events.c.at)
)
_OLD_REPLAYS = select(replays.c.id).where(
    or_(
        replays.c.finished_at <= _BEFORE,
        and_(replays.c.state == "planned", replays.c.expires_at <= _BEFORE),  # never carried out
    )
)
_OLD_ITEMS = select(replay_items.c.replay_id, replay_items.c.job_id).where(
    replay_items.c.replay_id.in_(_OLD_REPLAYS)
)
_USAGE_KEY = tuple(usage_days.primary_key)
_OLD_USAGE = select(*_USAGE_KEY).where(usage_days.c.day < bindparam("day")).order_by(usage_days.c.day)
_DROP_USAGE = delete(usage_days).where(*(part == bindparam(f"of_{part.name}") for part in _USAGE_KEY))


def ended_jobs(
    tx: Connection, status: Status, before: datetime, now: datetime, limit: int, *, since: datetime | None
) -> Sequence[Row[Any]]:
    """At most *limit* jobs (id, finished_at) of a final status that may be removed, those that ended first.

    *since*: none that ended earlier; the last time of the batch before.
    """
    query = _ENDED[status].limit(_LIMIT).with_for_update(of=jobs, skip_locked=True)
    values = {"before": before, "now": now, "limit": limit}
    if since is None:
        return tx.execute(query, values).all()
    return tx.execute(query.where(_c.finished_at >= bindparam("since")), values | {"since": since}).all()


def count_ended(tx: Connection, status: Status, before: datetime, now: datetime) -> int:
    """How many jobs of a final status may be removed."""
    return _count(tx, _ENDED[status], before=before, now=now)


def remove_jobs(tx: Connection, ids: Sequence[str]) -> int:
    """Remove jobs with all that hangs on them; totals in the roll-ups stay."""
    tx.execute(delete(dead_letters).where(dead_letters.c.job_id.in_(_IDS)), {"ids": list(ids)})
    tx.execute(delete(replay_items).where(replay_items.c.job_id.in_(_IDS)), {"ids": list(ids)})
    return tx.execute(delete(jobs).where(_c.id.in_(_IDS)), {"ids": list(ids)}).rowcount


def drop_inputs(tx: Connection, before: datetime, limit: int, after: str) -> Dropped:
    """Drop inputs of jobs that ended well long enough ago; at most *limit* are judged, from *after* on."""
    return _drop(tx, job_inputs, before, limit, after)


def drop_results(tx: Connection, before: datetime, limit: int, after: str) -> Dropped:
    """Drop results of jobs that ended long enough ago; at most *limit* are judged, from *after* on."""
    return _drop(tx, job_results, before, limit, after)


def _drop(tx: Connection, table: Table, before: datetime, limit: int, after: str) -> Dropped:
    values = {"after": after, "young": _young(before), "limit": limit}
    judged = list(tx.execute(_NEXT[table], values).scalars())
    if not judged:
        return Dropped(count=0, last=None)
    ids = list(tx.execute(_OF_THOSE, {"job_ids": judged, "before": before}).scalars())
    if ids:
        tx.execute(delete(table).where(table.c.job_id.in_(_IDS)), {"ids": ids})
    return Dropped(count=len(ids), last=judged[-1] if len(judged) == limit else None)


def count_inputs(tx: Connection, before: datetime) -> int:
    """How many inputs `drop_inputs` would drop in all."""
    return _count_of(tx, job_inputs, before)


def count_results(tx: Connection, before: datetime) -> int:
    """How many results `drop_results` would drop in all."""
    return _count_of(tx, job_results, before)


def _count_of(tx: Connection, table: Table, before: datetime) -> int:
    query = select(table.c.job_id).join(jobs, _c.id == table.c.job_id).where(*_LONG_ENDED)
    return _count(tx, query, before=before)


def drop_deliveries(tx: Connection, before: datetime, limit: int) -> int:
    """Drop webhook deliveries that were handled long enough ago."""
    d = deliveries.c
    old = select(d.provider, d.delivery_id).where(d.handled_at <= _BEFORE).order_by(d.handled_at)
    rows = tx.execute(old.limit(_LIMIT), {"before": before, "limit": limit}).all()
    gone = delete(deliveries).where(d.provider == bindparam("of"), d.delivery_id == bindparam("id"))
    return tx.execute(gone, [{"of": row[0], "id": row[1]} for row in rows]).rowcount if rows else 0


def count_deliveries(tx: Connection, before: datetime) -> int:
    """How many webhook deliveries `drop_deliveries` would drop in all."""
    query = select(func.count()).select_from(deliveries).where(deliveries.c.handled_at <= _BEFORE)
    return tx.execute(query, {"before": before}).scalar_one()


def drop_notifications(tx: Connection, before: datetime, limit: int) -> int:
    """Drop notifications that were delivered or given up long enough ago."""
    values = {"before": before, "young": _young(before), "limit": limit}
    ids = list(tx.execute(_NOTIFICATIONS.limit(_LIMIT), values).scalars())
    gone = delete(notifications).where(notifications.c.id.in_(_IDS))
    return tx.execute(gone, {"ids": ids}).rowcount if ids else 0


def count_notifications(tx: Connection, before: datetime) -> int:
    """How many notifications `drop_notifications` would drop in all."""
    return _count(tx, _NOTIFICATIONS, before=before, young=_young(before))


def drop_usage(tx: Connection, before: datetime, limit: int) -> int:
    """Drop the usage of days that were over by then."""
    rows = tx.execute(_OLD_USAGE.limit(_LIMIT), {"day": _day(before), "limit": limit}).all()
    values = [{f"of_{name}": value for name, value in row._asdict().items()} for row in rows]
    return tx.execute(_DROP_USAGE, values).rowcount if rows else 0


def count_usage(tx: Connection, before: datetime) -> int:
    """How many rows `drop_usage` would drop in all."""
    return _count(tx, _OLD_USAGE, day=_day(before))


def drop_replays(tx: Connection, before: datetime, limit: int) -> tuple[int, bool]:
    """Drop replays that ended, or expired, long enough ago; how many, and whether there may be more.

    What each was to replay goes first, *limit* rows at a time: there may be a hundred thousand.
    """
    values = {"before": before, "limit": limit}
    parts = tx.execute(_OLD_ITEMS.limit(_LIMIT), values).all()
    if parts:
        i = replay_items.c
        gone = delete(replay_items).where(i.replay_id == bindparam("of"), i.job_id == bindparam("id"))
        tx.execute(gone, [{"of": row[0], "id": row[1]} for row in parts])
        return 0, True
    ids = list(tx.execute(_OLD_REPLAYS.limit(_LIMIT), values).scalars())
    if ids:
        tx.execute(delete(replays).where(replays.c.id.in_(_IDS)), {"ids": ids})
    return len(ids), len(ids) == limit


def count_replays(tx: Connection, before: datetime) -> int:
    """How many replays `drop_replays` would drop in all."""
    return _count(tx, _OLD_REPLAYS, before=before)


def drop_events(tx: Connection, before: datetime, limit: int) -> int:
    """Drop events that belong to no job; those of a job go with it."""
    ids = list(tx.execute(_OLD_EVENTS.limit(_LIMIT), {"before": before, "limit": limit}).scalars())
    return tx.execute(delete(events).where(events.c.id.in_(_IDS)), {"ids": ids}).rowcount if ids else 0


def count_events(tx: Connection, before: datetime) -> int:
    """How many events `drop_events` would drop in all."""
    return _count(tx, _OLD_EVENTS, before=before)


def forget_calls(tx: Connection, before: datetime) -> int:
    """Forget counts of calls that no retry budget looks at any more."""
    gone = delete(provider_calls).where(provider_calls.c.bucket <= _BEFORE)
    return tx.execute(gone, {"before": before}).rowcount


def forget_minutes(tx: Connection, before: datetime) -> int:
    """Forget what was counted by the minute and is looked at no more."""
    return tx.execute(delete(minutes).where(minutes.c.minute <= _BEFORE), {"before": before}).rowcount


def _day(before: datetime) -> str:
    """The day (UTC) in which it falls, which is not over."""
    return before.astimezone(UTC).date().isoformat()


def _young(before: datetime) -> str:
    """What every id that was made by then is below."""
    return lowest_id(before + timedelta(milliseconds=1))


def _count(tx: Connection, query: Select[Any], **values: object) -> int:
    counted = select(func.count()).select_from(query.order_by(None).subquery())
    return tx.execute(counted, values).scalar_one()
