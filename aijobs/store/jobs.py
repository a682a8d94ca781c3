"""Reading jobs and everything that hangs on them. Nothing here changes a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, select, tuple_

from aijobs.core.model import ErrorClass, Execution, Job, Outcome, Status
from aijobs.store.arrays import among
from aijobs.store.tables import dead_letters, events, executions, job_inputs, job_results, jobs, notifications

COLUMNS = tuple(jobs.c[field.name] for field in fields(Job))
"""The columns of a Job, in field order; bodies (input, result) are never among them."""

_EXECUTION_NAMES = tuple(field.name for field in fields(Execution))


def job_from(row: Row[Any] | Sequence[Any]) -> Job:
    """A Job from a row of COLUMNS."""
    values: list[Any] = list(row)
    values[4] = Status(values[4])
    return Job(*values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs; what is None does not restrict. Text is compared as it stands: no wildcards."""

    statuses: tuple[Status, ...] = ()
    type: str | None = None
    user: str | None = None
    key: str | None = None
    error_class: str | None = None
    schedule: str | None = None
    since: datetime | None = None  # created at or after
    until: datetime | None = None  # created before
    held: bool = False  # only those that wait for a person's decision

    def clauses(self) -> list[ColumnElement[bool]]:
        """The conditions, to be joined by AND."""
        c = jobs.c
        equal = {
            c.type: self.type,
            c.user: self.user,
            c.key: self.key,
            c.last_error_class: self.error_class,
            c.schedule: self.schedule,
        }
        clauses = [column == value for column, value in equal.items() if value is not None]
        if self.statuses:
            clauses.append(c.status.in_([status.value for status in self.statuses]))
        if self.held:
            clauses.append(c.hold_reason.is_not(None))
        if self.since is not None:
            clauses.append(c.created_at >= self.since)
        if self.until is not None:
            clauses.append(c.created_at < self.until)
        return clauses

    def still(self, job: Job) -> bool:
        """Whether it would still choose a job that it chose before; only what may change is looked at."""
        return (
            (not self.statuses or job.status in self.statuses)
            and (self.error_class is None or job.last_error_class == self.error_class)
            and (not self.held or job.hold_reason is not None)
        )


class Unfinished(NamedTuple):
    """What tells jobs that have not ended apart, where there may be a hundred thousand."""

    id: str
    type: str
    user: str
    status: Status


_UNFINISHED = tuple(status for status in Status if not status.final)
_BRIEF = select(*(jobs.c[name] for name in Unfinished._fields))
_GET = select(*COLUMNS).where(jobs.c.id == bindparam("job_id"))
_MANY = select(*COLUMNS).where(among(jobs.c.id, "job_ids"))
_BY_KEY = select(*COLUMNS).where(
    tuple_(jobs.c.user, jobs.c.type, jobs.c.key).in_(bindparam("keys", expanding=True)),
    jobs.c.key.is_not(None),
    jobs.c.key_released_at.is_(None),
)
_TRUNCATIONS = (
    select(executions.c.job_id, func.count())
    .where(
        tuple_(executions.c.job_id, executions.c.round).in_(bindparam("rounds", expanding=True)),
        executions.c.error_class == ErrorClass.OUTPUT_TRUNCATED.value,
        executions.c.shadow.is_(False),
    )
    .group_by(executions.c.job_id)
)
_NEXT_TYPE = select(func.min(jobs.c.type)).where(
    jobs.c.user == bindparam("user"), jobs.c.type > bindparam("above")
)
_PAYLOAD = select(job_inputs.c.payload).where(job_inputs.c.job_id == bindparam("job_id"))
_PAYLOADS = select(job_inputs.c.job_id, job_inputs.c.payload).where(among(job_inputs.c.job_id, "job_ids"))
_RESULT = select(job_results.c.result).where(job_results.c.job_id == bindparam("job_id"))
_HAS_RESULT = select(job_results.c.job_id).where(job_results.c.job_id == bindparam("job_id"))
_EXECUTIONS = (
    select(*executions.c)
    .where(executions.c.job_id == bindparam("job_id"))
    .order_by(executions.c.fence, executions.c.shadow)
)
_EVENTS = select(events).where(events.c.job_id == bindparam("job_id")).order_by(events.c.id)
_NOTIFICATIONS = (
    select(notifications).where(notifications.c.job_id == bindparam("job_id")).order_by(notifications.c.round)
)
_DEAD = (
    select(dead_letters).where(dead_letters.c.job_id == bindparam("job_id")).order_by(dead_letters.c.round)
)
_COUNTS = select(jobs.c.type, jobs.c.status, func.count()).group_by(jobs.c.type, jobs.c.status)


def get(tx: Connection, job_id: str) -> Job | None:
    """The job of that id, or None."""
    row = tx.execute(_GET, {"job_id": job_id}).first()
    return job_from(row) if row else None


def many(tx: Connection, job_ids: Sequence[str]) -> dict[str, Job]:
    """Several jobs by id; those that are not there are left out."""
    return {row[0]: job_from(row) for row in tx.execute(_MANY, {"job_ids": list(job_ids)})}


def by_key(tx: Connection, keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], Job]:
    """The jobs that hold these (user, type, key), by that triple."""
    found = (job_from(row) for row in tx.execute(_BY_KEY, {"keys": list(keys)}))
    return {(job.user, job.type, job.key or ""): job for job in found}


def page(tx: Connection, wanted: Filter, limit: int, after: str | None = None) -> list[Job]:
    """At most *limit* jobs, newest first, older than the cursor *after* (a job id).

    Those of a user are read type by type, as the index has them: whoever has a hundred thousand jobs is not
    sorted for the newest fifty.
    """
    if wanted.user is None or wanted.type is not None:
        return _page(tx, wanted, limit, after)
    found = [
        job
        for type_name in _types_of(tx, wanted.user)
        for job in _page(tx, replace(wanted, type=type_name), limit, after)
    ]
    return sorted(found, key=lambda job: job.id, reverse=True)[:limit]


def unfinished(tx: Connection, wanted: Filter, limit: int | None = None) -> list[Unfinished]:
    """The *limit* newest jobs that have not ended, the newest first.

    They are put in order here: asked for that, PostgreSQL may walk over everything that ended since, from the
    newest job back.
    """
    chosen = replace(wanted, statuses=wanted.statuses or _UNFINISHED)
    rows = tx.execute(_BRIEF.where(*chosen.clauses())).all()
    known = {status.value: status for status in _UNFINISHED}
    names: dict[str, str] = {}  # of all these jobs there are few types, and mostly few users
    found = [
        Unfinished(row[0], names.setdefault(row[1], row[1]), names.setdefault(row[2], row[2]), known[row[3]])
        for row in rows
    ]
    return sorted(found, reverse=True)[:limit]


def _types_of(tx: Connection, user: str) -> Iterator[str]:
    """The types of a user's jobs, one look into the index each."""
    known = ""
    while (found := tx.execute(_NEXT_TYPE, {"user": user, "above": known}).scalar()) is not None:
        known = found
        yield known


def _page(tx: Connection, wanted: Filter, limit: int, after: str | None) -> list[Job]:
    query = select(*COLUMNS).where(*wanted.clauses()).order_by(jobs.c.id.desc()).limit(limit)
    if after is not None:
        query = query.where(jobs.c.id < after)
    return [job_from(row) for row in tx.execute(query)]


def payload_of(tx: Connection, job_id: str) -> str | None:
    """The input as JSON text; None once retention has dropped it."""
    return tx.execute(_PAYLOAD, {"job_id": job_id}).scalar()


def payloads_of(tx: Connection, job_ids: Sequence[str]) -> dict[str, str]:
    """The inputs of several jobs, by job id."""
    return dict(tx.execute(_PAYLOADS, {"job_ids": list(job_ids)}).all())


def result_of(tx: Connection, job_id: str) -> str | None:
    """The result as JSON text, or None."""
    return tx.execute(_RESULT, {"job_id": job_id}).scalar()


def has_result(tx: Connection, job_id: str) -> bool:
    """Whether there is a result, without reading it."""
    return tx.execute(_HAS_RESULT, {"job_id": job_id}).first() is not None


def executions_of(tx: Connection, job_id: str) -> list[Execution]:
    """Every attempt of every round, in the order they were claimed."""
    return [_execution(row) for row in tx.execute(_EXECUTIONS, {"job_id": job_id})]


def truncations(tx: Connection, rounds: Sequence[tuple[str, int]]) -> dict[str, int]:
    """How many answers were cut off, by job id; *rounds*: of which jobs, in which round of each."""
    rows: Any = tx.execute(_TRUNCATIONS, {"rounds": list(rounds)})
    return dict(rows.all())


def events_of(tx: Connection, job_id: str) -> list[dict[str, Any]]:
    """The events of a job, oldest first, as mappings of the table's columns."""
    return [dict(row._mapping) for row in tx.execute(_EVENTS, {"job_id": job_id})]


def notifications_of(tx: Connection, job_id: str) -> list[dict[str, Any]]:
    """The outgoing notifications of a job, as mappings of the table's columns."""
    return [dict(row._mapping) for row in tx.execute(_NOTIFICATIONS, {"job_id": job_id})]


def dead_letters_of(tx: Connection, job_id: str) -> list[dict[str, Any]]:
    """Every time the job died, oldest first, as mappings of the table's columns."""
    return [dict(row._mapping) for row in tx.execute(_DEAD, {"job_id": job_id})]


def round_began(tx: Connection, job: Job) -> datetime:
    """When the round began that *job* is in: when it came, or when its last death was replayed."""
    if job.round == 1:
        return job.created_at
    replayed = {dead["round"]: dead["settled_at"] for dead in dead_letters_of(tx, job.id)}
    return replayed.get(job.round - 1) or job.created_at


def counts(tx: Connection) -> dict[tuple[str, Status], int]:
    """How many jobs there are of each (type, status)."""
    return {(type_name, Status(status)): count for type_name, status, count in tx.execute(_COUNTS)}


def _execution(row: Row[Any]) -> Execution:
    values = dict(zip(_EXECUTION_NAMES, row, strict=True))
    values["outcome"] = Outcome(values["outcome"])
    return Execution(**values)
