"""The story of one job in order: its creation, every attempt, what people did, what was told to whom."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aijobs.core.model import Execution, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened. *actor* is a worker, a person, or None for the system itself."""

    at: datetime
    what: str
    actor: str | None = None
    detail: str | None = None


_Row = Mapping[str, Any]


def timeline(
    job: Job,
    *,
    executions: Sequence[Execution],
    events: Sequence[_Row] = (),
    dead_letters: Sequence[_Row] = (),
    notifications: Sequence[_Row] = (),
) -> list[Moment]:
    """Everything known to have happened to *job*, oldest first. Rows are mappings of table columns."""
    moments = [
        Moment(at=job.created_at, what="created", actor=job.created_by, detail=_asked(job)),
        *_attempts(executions),
        *_running(job),
        *(_event(row) for row in events),
        *(_died(row) for row in dead_letters),
        *_told(notifications),
    ]
    return sorted(moments, key=lambda moment: moment.at)  # stable: what has the same time keeps this order


def _asked(job: Job) -> str | None:
    parts = (("key", job.key), ("request", job.request_id), ("schedule", job.schedule))
    return ", ".join(f"{name} {value}" for name, value in parts if value) or None


def _attempts(executions: Iterable[Execution]) -> Iterator[Moment]:
    for one in executions:
        name = f"{'shadow ' if one.shadow else ''}attempt {one.attempt}" + (
            f" of round {one.round}" if one.round > 1 else ""
        )
        where = " ".join(part for part in (one.provider, one.model) if part) or None
        yield Moment(at=one.started_at, what=f"{name} began", actor=one.worker, detail=where)
        yield Moment(at=one.finished_at, what=f"{name} {one.outcome}", actor=one.worker, detail=_end(one))


def _end(one: Execution) -> str | None:
    error = " ".join(str(part) for part in (one.error_class, one.error_code, one.http_status) if part)
    parts = [error, one.message or "", "maybe billed" if one.maybe_billed and one.error_class else ""]
    return "; ".join(part for part in parts if part) or None


def _running(job: Job) -> Iterator[Moment]:
    if job.claimed_at:
        yield Moment(at=job.claimed_at, what=f"attempt {job.attempts} began", actor=job.locked_by)
    if job.parked_at:
        detail = f"{job.provider or 'provider'} job {job.provider_job_id}"
        yield Moment(at=job.parked_at, what="last left to the provider", actor=job.locked_by, detail=detail)


def _event(row: _Row) -> Moment:
    return Moment(at=row["at"], what=row["kind"].replace("_", " "), actor=row["actor"], detail=row["reason"])


def _died(row: _Row) -> Moment:
    detail = f"{row['error_class']} after {row['attempts']} attempts"
    return Moment(at=row["at"], what="became a dead letter", detail=detail)


def _told(notifications: Iterable[_Row]) -> Iterator[Moment]:
    for row in notifications:
        name = f"{row['event']} to {row['target']}"
        yield Moment(at=row["created_at"], what="notification due", detail=name)
        if row["delivered_at"]:
            yield Moment(at=row["delivered_at"], what="notification delivered", detail=name)
