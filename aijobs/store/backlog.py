"""What has not ended, counted by type: only indexes over such jobs are read, however many have ended."""

from collections import defaultdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, literal_column, select

from aijobs.core.model import Status
from aijobs.core.overview import FailedJob, RunningJob
from aijobs.store.tables import dead_letters, deliveries, jobs

_c = jobs.c
_READY = select(_c.type, func.count(), func.min(_c.next_run_at)).where(_c.turn.is_not(None)).group_by(_c.type)
_DUE = case((_c.next_run_at <= bindparam("now"), literal_column("1")), else_=literal_column("0"))
_WAITING = (
    select(_c.type, _c.status, _DUE, func.count(), func.min(_c.next_run_at))
    .where(_c.turn.is_(None), _c.next_run_at.is_not(None))
    .group_by(_c.type, _c.status, _DUE)
)
_HELD = select(_c.type, func.count()).where(_c.hold_reason.is_not(None)).group_by(_c.type)
_RUNNING = (
    select(
        _c.type,
        func.count(),
        func.sum(case((_c.parked_at.is_not(None), 1), else_=0)),
        func.sum(case((_c.provider_job_id.is_(None) & (_c.locked_until <= bindparam("now")), 1), else_=0)),
        func.min(case((_c.provider_job_id.is_(None), _c.claimed_at), else_=None)),
        func.min(case((_c.provider_job_id.is_not(None), _c.claimed_at), else_=None)),
    )
    .where(_c.claimed_at.is_not(None))
    .group_by(_c.type)
)
_BELOW = select(
    *(
        select(func.count()).where(*kept, _c.priority < bindparam("priority")).scalar_subquery()
        for kept in (
            (_c.turn.is_not(None),),
            (_c.turn.is_(None), _c.next_run_at.is_not(None)),
            (_c.claimed_at.is_not(None),),
        )
    )
)
_d = dead_letters.c
_OPEN = (
    select(_d.type, _d.error_class, func.count()).where(_d.state == "open").group_by(_d.type, _d.error_class)
)
_OLDEST_OPEN = select(func.min(_d.at)).where(_d.state == "open")
_w = deliveries.c
_UNMATCHED = select(func.count(), func.min(_w.received_at)).where(
    _w.handled_at.is_(None), _w.outcome != "ignored"
)
_LONGEST = (
    select(_c.id, _c.type, _c.user, _c.provider, _c.locked_by, _c.claimed_at, _c.locked_until, _c.parked_at)
    .where(_c.claimed_at.is_not(None))
    .order_by(_c.locked_until, _c.id)
    .limit(bindparam("limit"))
)
_LATEST_DEAD = (
    select(_d.at, _d.job_id, _d.type, _d.error_class, _d.error_code)
    .where(_d.state == "open")
    .order_by(_d.at.desc())
    .limit(bindparam("limit"))
)
_NEWEST_FAILED = (
    select(_c.updated_at, _c.id, _c.type, _c.last_error_class, _c.last_error_code)
    .where(_c.status == Status.FAILED.value)
    .order_by(_c.id.desc())
    .limit(bindparam("limit"))
)


def loads(tx: Connection, now: datetime) -> dict[str, dict[str, Any]]:
    """The fields of a `Load` that are not their defaults, by type."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for type_name, count, oldest in tx.execute(_READY):
        found[type_name] |= {"ready": count, "oldest_ready_at": oldest}
    for type_name, status, due, count, oldest in tx.execute(_WAITING, {"now": now}):
        _wait(found[type_name], status, bool(due), count, oldest)
    for type_name, count in tx.execute(_HELD):
        found[type_name]["held"] = count
    for type_name, count, parked, expired, running_since, parked_since in tx.execute(_RUNNING, {"now": now}):
        found[type_name] |= {
            "running": count - parked, "parked": parked, "expired": expired,
            "oldest_running_at": running_since, "oldest_parked_at": parked_since,
        }  # fmt: skip
    return dict(found)


def below(tx: Connection, priority: int) -> tuple[int, int]:
    """How many jobs of a lower priority than *priority* wait and run; those held for a person aside."""
    ready, later, running = tx.execute(_BELOW, {"priority": priority}).one()
    return ready + later, running


def open_dead_letters(tx: Connection) -> dict[tuple[str, str], int]:
    """How many dead letters are open, by (type, error class)."""
    return {(type_name, error_class): count for type_name, error_class, count in tx.execute(_OPEN)}


def oldest_dead_letter(tx: Connection) -> datetime | None:
    """When the oldest open dead letter died."""
    return tx.execute(_OLDEST_OPEN).scalar()


def unmatched(tx: Connection) -> tuple[int, datetime | None]:
    """How many webhook deliveries wait for their job to become known, and since when the oldest does."""
    count, oldest = tx.execute(_UNMATCHED).one()
    return count, oldest


def running(tx: Connection, limit: int) -> list[RunningJob]:
    """Jobs that run, those first whose lease or next look at the provider comes first."""
    return [RunningJob(*row) for row in tx.execute(_LONGEST, {"limit": limit})]


def failures(tx: Connection, limit: int) -> list[FailedJob]:
    """The latest dead letters, and the newest jobs that wait for another try; the latest first."""
    dead = [FailedJob(*row, dead=True) for row in tx.execute(_LATEST_DEAD, {"limit": limit})]
    again = [FailedJob(*row, dead=False) for row in tx.execute(_NEWEST_FAILED, {"limit": limit})]
    return sorted([*dead, *again], key=lambda one: one.at, reverse=True)[:limit]


def _wait(row: dict[str, Any], status: str, due: bool, count: int, oldest: datetime) -> None:
    if due:  # no worker has put it in line yet
        row["ready"] = row.get("ready", 0) + count
        row["oldest_ready_at"] = min(row.get("oldest_ready_at") or oldest, oldest)
    else:
        name = "retrying" if status == Status.FAILED.value else "delayed"
        row[name] = row.get(name, 0) + count
