"""The outbox: notifications that are due, leased to whoever delivers them, and how each delivery went."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from aijobs.core.notifying import NextStep, Told
from aijobs.store.tables import jobs, notifications

_c = notifications.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A notification to deliver, with what it says of its job.

    *fence* guards the write that ends it; from *leased_until* on others may deliver it.
    """

    id: str
    job_id: str
    round: int
    target: str
    event: str
    attempts: int
    created_at: datetime
    fence: int
    leased_until: datetime
    type: str
    user: str
    key: str | None
    job_attempts: int
    error_class: str | None
    error_code: str | None
    finished_at: datetime | None


_DUE = (
    select(_c.id)
    .where(_c.state == "pending", _c.target == bindparam("of_target"), _c.next_run_at <= bindparam("now"))
    .order_by(_c.next_run_at)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_LEASE = (
    update(notifications)
    .where(
        _c.id.in_(bindparam("ids", expanding=True)),
        _c.state == "pending",
        _c.next_run_at <= bindparam("now"),
    )
    .values(
        attempts=_c.attempts + 1,
        lock_token=_c.lock_token + 1,
        next_run_at=bindparam("until"),  # due again should its deliverer die
    )
)
_READ = (
    select(
        _c.id, _c.job_id, _c.round, _c.target, _c.event, _c.attempts, _c.created_at, _c.lock_token,
        _c.next_run_at, jobs.c.type, jobs.c.user, jobs.c.key, jobs.c.attempts, jobs.c.last_error_class,
        jobs.c.last_error_code, jobs.c.finished_at,
    )
    .join(jobs, jobs.c.id == _c.job_id)
    .where(_c.id.in_(bindparam("ids", expanding=True)))
    .order_by(_c.created_at, _c.id)
)  # fmt: skip
_NOTE_NAMES = tuple(Note.__dataclass_fields__)
_FINISH = (
    update(notifications)
    .where(_c.id == bindparam("of_id"), _c.state == "pending", _c.lock_token == bindparam("fence"))
    .values(
        state=bindparam("new_state"),
        next_run_at=bindparam("new_next_run_at"),
        last_error=bindparam("new_error"),
        http_status=bindparam("new_http_status"),
        delivered_at=bindparam("new_delivered_at"),
    )
)
_OVERDUE = (
    select(_c.target, func.count())
    .where(_c.state == "pending", _c.next_run_at <= bindparam("before"))
    .group_by(_c.target)
)


def take(tx: Connection, target: str, now: datetime, limit: int, lease: timedelta) -> list[Note]:
    """At most *limit* due notifications for one target; for *lease* nobody else gets them."""
    values = {"of_target": target, "now": now, "limit": limit}
    ids = list(tx.execute(_DUE, values).scalars())
    if not ids:
        return []
    tx.execute(_LEASE, {"ids": ids, "now": now, "until": now + lease})
    rows: Any = tx.execute(_READ, {"ids": ids})
    return [Note(**dict(zip(_NOTE_NAMES, row, strict=True))) for row in rows]


def finish(tx: Connection, note: Note, told: Told, step: NextStep, now: datetime) -> bool:
    """Write down how a delivery went; False when the lease on it was lost."""
    values = {
        "of_id": note.id, "fence": note.fence, "new_state": step.state, "new_next_run_at": step.next_run_at,
        "new_error": told.error, "new_http_status": told.http_status,
        "new_delivered_at": now if step.state == "delivered" else None,
    }  # fmt: skip
    return tx.execute(_FINISH, values).rowcount == 1


def due_since(tx: Connection, before: datetime, limit: int) -> list[str]:
    """The notifications that were due at *before* already and still wait, the longest due first."""
    query = select(_c.id).where(_c.state == "pending", _c.next_run_at <= before)
    return list(tx.execute(query.order_by(_c.next_run_at).limit(limit)).scalars())


def overdue(tx: Connection, before: datetime) -> dict[str, int]:
    """How many notifications of each target were due at *before* already and still wait."""
    return dict(tx.execute(_OVERDUE, {"before": before}).all())
