"""The ledger of side effects: which mails, charges or posts of a job have been begun and which are done.

An entry outlives its attempt, so that the next one, on whatever machine, knows what must not be done twice.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, update

from aijobs.core.errors import LeaseLost
from aijobs.core.model import Status
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import effects, jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """Nobody has begun this effect: do it, then call `done`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The effect has happened; *value* is the JSON text kept with it."""

    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """An attempt (the one with *fence*) began it at *begun_at* and never said that it was done.

    It may have happened or not: only the receiver knows. The entry is ours now, so `done` may be called.
    """

    fence: int
    begun_at: datetime


Found = First | Done | Unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """One entry, for people. *done_at* None: begun, and not known to have happened."""

    name: str
    fence: int
    value: str | None
    begun_at: datetime
    done_at: datetime | None


_e = effects.c
# The row of the job is locked, so that no other worker can claim it between this look and our commit.
_OWNER = (
    select(jobs.c.id)
    .where(
        jobs.c.id == bindparam("job"),
        jobs.c.status == Status.PROCESSING.value,
        jobs.c.lock_token == bindparam("token"),
    )
    .with_for_update(read=True)
)
_BEGIN = PerDialect(
    lambda dialect: dialect.insert(effects).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
)
# Locked: an attempt that has lost its lease may still note it as done, between this look and the take-over.
_ENTRY = (
    select(_e.fence, _e.state, _e.value, _e.begun_at)
    .where(_e.job_id == bindparam("job"), _e.name == bindparam("effect"))
    .with_for_update()
)
_TAKE_OVER = (
    update(effects)
    .where(_e.job_id == bindparam("job"), _e.name == bindparam("effect"), _e.state == "begun")
    .values(fence=bindparam("token"), begun_at=bindparam("now"))
)
_DONE = (
    update(effects)
    .where(_e.job_id == bindparam("job"), _e.name == bindparam("effect"), _e.fence == bindparam("token"))
    .values(state="done", value=bindparam("result"), done_at=bindparam("now"))
)
_OF_JOB = (
    select(_e.name, _e.fence, _e.value, _e.begun_at, _e.done_at)
    .where(_e.job_id == bindparam("job"))
    .order_by(_e.begun_at, _e.name)
)


def begin(tx: Connection, job_id: str, *, name: str, fence: int, now: datetime) -> Found:
    """Open entry *name* for the attempt that holds *fence*; commit before the effect itself.

    Raises LeaseLost when the job is not, or no longer, processed under *fence*: then nothing may be begun.
    """
    if tx.execute(_OWNER, {"job": job_id, "token": fence}).first() is None:
        raise LeaseLost(f"job {job_id} is not ours any more; effect {name!r} was not begun")
    row = {"job_id": job_id, "name": name, "fence": fence, "state": "begun", "begun_at": now}
    if tx.execute(_BEGIN[tx.dialect.name], row).rowcount == 1:
        return First()
    entry = tx.execute(_ENTRY, {"job": job_id, "effect": name}).one()
    if entry.state == "done":
        return Done(value=entry.value)
    if tx.execute(_TAKE_OVER, {"job": job_id, "effect": name, "token": fence, "now": now}).rowcount != 1:
        raise LeaseLost(f"effect {name!r} of job {job_id} was noted by somebody else; it was not begun")
    return Unfinished(fence=entry.fence, begun_at=entry.begun_at)


def done(tx: Connection, job_id: str, *, name: str, fence: int, value: str | None, now: datetime) -> None:
    """Note that the effect begun under *fence* has happened; *value* is JSON text.

    The lease may be lost meanwhile: that it happened is true all the same, and spares the next attempt from
    doing it again. Raises LeaseLost when a later attempt has taken the entry over.
    """
    parameters = {"job": job_id, "effect": name, "token": fence, "result": value, "now": now}
    if tx.execute(_DONE, parameters).rowcount != 1:
        raise LeaseLost(f"a later attempt of job {job_id} has taken over effect {name!r}")


def effects_of(tx: Connection, job_id: str) -> list[EffectRecord]:
    """The ledger of one job, in the order in which its entries were begun."""
    return [EffectRecord(**row._asdict()) for row in tx.execute(_OF_JOB, {"job": job_id})]
