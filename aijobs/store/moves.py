"""The statements that write `jobs.status`. Only the coordinator may call them.

Each names the id, the expected status and, for a job that runs, the fence; how many rows matched comes back,
and the coordinator never ignores it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, insert, select, update

from aijobs.core.model import Job, Status
from aijobs.store.arrays import among, leased
from aijobs.store.dialect import PerDialect
from aijobs.store.jobs import COLUMNS, job_from
from aijobs.store.tables import jobs

if TYPE_CHECKING:
    from aijobs.store.deliveries import Work

_c = jobs.c
_PROCESSING = Status.PROCESSING.value
_PENDING = Status.PENDING.value
_FAILED = Status.FAILED.value
_DEAD = Status.DEAD_LETTER.value

_ON_KEY = [_c.user, _c.type, _c.key]
_WHERE_KEYED = _c.key.is_not(None) & _c.key_released_at.is_(None)
_COUNTED = {"preserve_rowcount": True}  # SQLAlchemy forgets how many rows an INSERT wrote unless asked
_CREATE = PerDialect(
    lambda dialect: (
        dialect.insert(jobs)
        .on_conflict_do_nothing(index_elements=_ON_KEY, index_where=_WHERE_KEYED)
        .execution_options(**_COUNTED)
    )
)
_CREATE_UNKEYED = insert(jobs).execution_options(**_COUNTED)

# `key_share`: what only refers to a job, as a new replay's items do, need not wait for whoever moves it.
_LOCKED = select(*COLUMNS).where(among(_c.id, "job_ids")).order_by(_c.id).with_for_update(key_share=True)
_CHANGEABLE = ("cancel_requested_at", "provider_job_id", "parked_at")
_changeable = attrgetter(*_CHANGEABLE)
_HELD = (
    select(_c.id, _c.status, _c.lock_token, *(_c[name] for name in _CHANGEABLE))
    .where(among(_c.id, "job_ids"))
    .order_by(_c.id)
    .with_for_update(key_share=True)
)
_RELEASE_KEY = (
    update(jobs)
    .where(_c.id == bindparam("job_id"), _c.key_released_at.is_(None), _c.key_expires_at <= bindparam("now"))
    .values(key_released_at=bindparam("now"))
)

_CLAIM = (
    update(jobs)
    .where(
        among(_c.id, "job_ids"),
        _c.status.in_((_PENDING, _FAILED)),
        _c.turn.is_not(None),
    )
    .values(
        status=_PROCESSING,
        attempts=_c.attempts + 1,
        lock_token=_c.lock_token + 1,
        locked_until=bindparam("lease_until"),
        locked_by=bindparam("worker"),
        claimed_at=bindparam("now"),
        updated_at=bindparam("now"),
        next_run_at=None,
        turn=None,
        provider=bindparam("claim_provider"),
        model=bindparam("claim_model"),
    )
    .returning(*COLUMNS)
)
_RESUME = (
    update(jobs)
    .where(
        among(_c.id, "job_ids"),
        _c.status == _PROCESSING,
        _c.locked_until <= bindparam("now"),
        _c.provider_job_id.is_not(None),
    )
    .values(
        lock_token=_c.lock_token + 1,
        locked_until=bindparam("lease_until"),
        locked_by=bindparam("worker"),
        parked_at=None,
        updated_at=bindparam("now"),
    )
    .returning(*COLUMNS)
)
_ADOPT = (
    update(jobs)
    .where(
        _c.id == bindparam("job_id"),
        _c.status == bindparam("from_status"),
        _c.status.in_((_PENDING, _FAILED)),
        _c.lock_token == bindparam("fence"),
    )
    .values(
        status=_PROCESSING,
        attempts=_c.attempts + 1,
        lock_token=_c.lock_token + 1,
        locked_until=bindparam("now"),
        locked_by=bindparam("worker"),
        claimed_at=bindparam("now"),
        parked_at=bindparam("now"),
        updated_at=bindparam("now"),
        next_run_at=None,
        turn=None,
        hold_reason=None,
        provider=bindparam("new_provider"),
        model=bindparam("new_model"),
        provider_job_id=bindparam("new_provider_job_id"),
    )
    .returning(*COLUMNS)
)
_RENEW = (
    update(jobs)
    .where(
        leased(_c.id, _c.lock_token, "leases"),
        _c.status == _PROCESSING,
        _c.parked_at.is_(None),
    )
    .values(locked_until=bindparam("lease_until"))
    .returning(_c.id, _c.cancel_requested_at)
)
_GUARD = (
    _c.id == bindparam("job_id"),
    _c.status == bindparam("from_status"),
    _c.lock_token == bindparam("fence"),
)
_SAVE_PROVIDER_JOB = (
    update(jobs)
    .where(*_GUARD)
    .values(provider_job_id=bindparam("new_provider_job_id"), updated_at=bindparam("now"))
)
_NOT_RUNNING: dict[str, Any] = {
    "locked_until": None,
    "locked_by": None,
    "claimed_at": None,
    "parked_at": None,
    "turn": None,
}

_SUCCEED = (
    update(jobs)
    .where(leased(_c.id, _c.lock_token, "leases"), _c.status == _PROCESSING)
    .values(
        status=Status.SUCCEEDED.value,
        finished_at=bindparam("now"),
        updated_at=bindparam("now"),
        next_run_at=None,
        **_NOT_RUNNING,
    )
)
_CANCEL = (
    update(jobs)
    .where(leased(_c.id, _c.lock_token, "fences"), _c.status.in_((_PENDING, _FAILED)))
    .values(
        status=Status.CANCELLED.value,
        hold_reason=None,
        finished_at=bindparam("now"),
        updated_at=bindparam("now"),
        next_run_at=None,
        **_NOT_RUNNING,
    )
)
_MOVE = (
    update(jobs)
    .where(*_GUARD)
    .values(
        status=bindparam("to_status"),
        attempts=bindparam("new_attempts"),
        deferrals=bindparam("new_deferrals"),
        next_run_at=bindparam("new_next_run_at"),
        hold_reason=bindparam("new_hold_reason"),
        provider_job_id=bindparam("new_provider_job_id"),
        last_error_class=bindparam("new_error_class"),
        last_error_code=bindparam("new_error_code"),
        last_error_message=bindparam("new_error_message"),
        finished_at=bindparam("new_finished_at"),
        updated_at=bindparam("now"),
        **_NOT_RUNNING,
    )
)
_PARK = (
    update(jobs)
    .where(*_GUARD)
    .values(
        locked_until=bindparam("new_locked_until"),
        parked_at=bindparam("now"),
        provider_job_id=bindparam("new_provider_job_id"),
        updated_at=bindparam("now"),
    )
)
# What is parked is being processed: the table sees to that. To ask again makes SQLite read all that is.
_HASTEN = (
    update(jobs)
    .where(among(_c.id, "job_ids"), _c.parked_at.is_not(None))
    .values(locked_until=bindparam("now"), updated_at=bindparam("now"))
)
_BY_WORK = (
    select(*COLUMNS)
    .where(among(_c.provider_job_id, "provider_job_ids"))
    .order_by(_c.id)
    .with_for_update(key_share=True)
)
_ASK_TO_CANCEL = (
    update(jobs)
    .where(*_GUARD)
    .values(
        cancel_requested_at=bindparam("now"),
        locked_until=bindparam("new_locked_until"),
        updated_at=bindparam("now"),
    )
)
_REOPEN = (
    update(jobs)
    .where(_c.id == bindparam("job_id"), _c.status == _DEAD, _c.round == bindparam("dead_round"))
    .values(
        status=_PENDING,
        round=_c.round + 1,
        attempts=0,
        deferrals=0,
        next_run_at=bindparam("new_next_run_at"),
        turn=bindparam("new_turn"),
        priority=bindparam("new_priority"),
        deadline=bindparam("new_deadline"),
        provider_job_id=None,
        cancel_requested_at=None,
        finished_at=None,
        updated_at=bindparam("now"),
    )
    .returning(*COLUMNS)
)
_UNHOLD = (
    update(jobs)
    .where(_c.id == bindparam("job_id"), _c.status == _FAILED, _c.hold_reason.is_not(None))
    .values(hold_reason=None, next_run_at=bindparam("now"), updated_at=bindparam("now"))
    .returning(*COLUMNS)
)


def create(tx: Connection, rows: Sequence[Mapping[str, object]]) -> int:
    """Insert jobs; those whose idempotency key is taken are left out. How many went in."""
    keyed = any(row["key"] is not None for row in rows)
    statement = _CREATE[tx.dialect.name] if keyed else _CREATE_UNKEYED
    return tx.execute(statement, list(rows)).rowcount


def locked(tx: Connection, job_ids: Sequence[str]) -> dict[str, Job]:
    """The jobs as they are now, by id, locked until the transaction ends."""
    return {row[0]: job_from(row) for row in tx.execute(_LOCKED, {"job_ids": sorted(job_ids)}).all()}


def held(tx: Connection, claimed: Sequence[Job]) -> dict[str, Job]:
    """Jobs as they are now, by id, locked until the transaction ends; *claimed* is how they were claimed.

    Where the lease still stands, only what may change under a lease is read: a request to cancel, the
    provider's name for the work. The rest is what the claim saw, `locked_until` among it, which nobody asks
    of a job that ends.
    """
    known = {job.id: job for job in claimed}
    found: dict[str, Job] = {}
    lost: list[str] = []
    for job_id, status, fence, *changed in tx.execute(_HELD, {"job_ids": sorted(known)}).all():
        job = known[job_id]
        if status == _PROCESSING and fence == job.lock_token:
            found[job_id] = job if _changeable(job) == tuple(changed) else _with(job, changed)
        else:
            lost.append(job_id)
    return found | locked(tx, lost) if lost else found


def _with(job: Job, changed: Sequence[Any]) -> Job:
    return replace(job, **dict(zip(_CHANGEABLE, changed, strict=True)))


def release_keys(tx: Connection, job_ids: Sequence[str], now: datetime) -> None:
    """Free the idempotency keys of jobs whose key has outlived its time."""
    tx.execute(_RELEASE_KEY, [{"job_id": job_id, "now": now} for job_id in job_ids])


def claim(
    tx: Connection, job_ids: Sequence[str], worker: str, now: datetime, lease: timedelta, provider: str,
    model: str | None,
) -> list[Job]:  # fmt: skip
    """Lease ready jobs of one provider and model to *worker*; those that were still ready come back."""
    values = {
        "job_ids": list(job_ids), "worker": worker, "now": now, "lease_until": now + lease,
        "claim_provider": provider, "claim_model": model,
    }  # fmt: skip
    return [job_from(row) for row in tx.execute(_CLAIM, values).all()]


def resume(tx: Connection, job_ids: Sequence[str], worker: str, now: datetime, lease: timedelta) -> list[Job]:
    """Lease parked jobs whose poll is due to *worker*."""
    values = {"job_ids": list(job_ids), "worker": worker, "now": now, "lease_until": now + lease}
    return [job_from(row) for row in tx.execute(_RESUME, values)]


def adopt(
    tx: Connection, job: Job, worker: str, now: datetime, *, provider: str, model: str | None,
    provider_job_id: str,
) -> Job | None:  # fmt: skip
    """A waiting or held job is claimed and parked at once, on work that its provider has already."""
    values = _guard(job) | {
        "worker": worker, "now": now, "new_provider": provider, "new_model": model,
        "new_provider_job_id": provider_job_id,
    }  # fmt: skip
    row = tx.execute(_ADOPT, values).first()
    return job_from(row) if row else None


def renew(tx: Connection, leases: Sequence[tuple[str, int]], until: datetime) -> dict[str, datetime | None]:
    """Extend leases held by (id, fence); those still held come back, with when a cancel was asked for."""
    rows = tx.execute(_RENEW, {"leases": list(leases), "lease_until": until})
    return {row[0]: row[1] for row in rows}


def save_provider_job(tx: Connection, job: Job, provider_job_id: str, now: datetime) -> bool:
    """Note what the provider calls the running job; False when the lease is lost."""
    values = _guard(job) | {"new_provider_job_id": provider_job_id, "now": now}
    return tx.execute(_SAVE_PROVIDER_JOB, values).rowcount == 1


def succeed(tx: Connection, found: Sequence[Job], now: datetime) -> int:
    """Running jobs become succeeded; how many rows matched."""
    leases = [(job.id, job.lock_token) for job in found]
    return tx.execute(_SUCCEED, {"leases": leases, "now": now}).rowcount


def cancel(tx: Connection, found: Sequence[Job], now: datetime) -> int:
    """Waiting jobs become cancelled; how many rows matched."""
    fences = [(job.id, job.lock_token) for job in found]
    return tx.execute(_CANCEL, {"fences": fences, "now": now}).rowcount


def move(tx: Connection, found: Sequence[tuple[Job, Mapping[str, object]]], now: datetime) -> int:
    """Jobs leave their present status with the given new values; how many rows matched."""
    return tx.execute(_MOVE, [_guard(job) | dict(values) | {"now": now} for job, values in found]).rowcount


def park(tx: Connection, found: Sequence[tuple[Job, Mapping[str, object]]], now: datetime) -> int:
    """Running jobs are left to their provider until the next poll; how many rows matched."""
    return tx.execute(_PARK, [_guard(job) | dict(values) | {"now": now} for job, values in found]).rowcount


def hasten(tx: Connection, job_ids: Sequence[str], now: datetime) -> int:
    """Make the next look at those of these jobs that are parked due now; how many there were."""
    return tx.execute(_HASTEN, {"job_ids": sorted(job_ids), "now": now}).rowcount


def by_work(tx: Connection, works: "Collection[Work]") -> list[Job]:
    """The jobs, in whatever state, that carry these (provider, provider's id), locked until the transaction
    ends, in the one order of all who lock jobs.
    """
    found = tx.execute(_BY_WORK, {"provider_job_ids": sorted({name for _, name in works})})
    return [job for job in map(job_from, found) if (job.provider, job.provider_job_id) in works]


def ask_to_cancel(tx: Connection, found: Sequence[Job], now: datetime) -> int:
    """Mark running jobs to be cancelled, a parked one due for its next look at once; how many matched."""
    rows = [_guard(job) | {"now": now, "new_locked_until": _asked_until(job, now)} for job in found]
    return tx.execute(_ASK_TO_CANCEL, rows).rowcount


def _asked_until(job: Job, now: datetime) -> datetime | None:
    return min(now, job.locked_until or now) if job.parked_at else job.locked_until


def reopen(tx: Connection, job: Job, values: Mapping[str, object], now: datetime) -> Job | None:
    """A dead letter becomes pending again, in a new round; None when it is no longer that dead letter."""
    row = tx.execute(_REOPEN, {"job_id": job.id, "dead_round": job.round, "now": now, **values}).first()
    return job_from(row) if row else None


def unhold(tx: Connection, job_id: str, now: datetime) -> Job | None:
    """A held job may be tried again; None when it is not held."""
    row = tx.execute(_UNHOLD, {"job_id": job_id, "now": now}).first()
    return job_from(row) if row else None


def _guard(job: Job) -> dict[str, object]:
    return {"job_id": job.id, "from_status": job.status.value, "fence": job.lock_token}
