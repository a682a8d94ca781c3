"""The jobs of a user and type that succeeded, with their results: looks at an index of successes."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, select, text

from aijobs.store.tables import job_results, jobs

_c = jobs.c
_SUCCEEDED = text("jobs.status = 'succeeded'")  # as the index has it: SQLite uses it for no other writing
_SUCCESS = select(_c.id, _c.finished_at, job_results.c.result).join(
    job_results, job_results.c.job_id == _c.id
)
_LAST = (
    _SUCCESS.where(_SUCCEEDED, _c.user == bindparam("user"), _c.type == bindparam("type"))
    .order_by(_c.finished_at.desc())
    .limit(1)
)
_ONE = _SUCCESS.where(_SUCCEEDED, _c.id == bindparam("job_id"))
_NEWEST = select(func.max(_c.id)).where(_c.user == bindparam("user"), _c.type == bindparam("type"))


@dataclass(frozen=True, slots=True)
class Success:
    """A job that succeeded; *result* is JSON text."""

    job_id: str
    finished_at: datetime
    result: str


def last_success(tx: Connection, type_name: str, user: str) -> Success | None:
    """The one that finished last, if its result is still kept."""
    row = tx.execute(_LAST, {"type": type_name, "user": user}).one_or_none()
    return Success(*row) if row is not None else None


def success_of(tx: Connection, job_id: str) -> Success | None:
    """That job's, if it succeeded and its result is still kept."""
    row = tx.execute(_ONE, {"job_id": job_id}).one_or_none()
    return Success(*row) if row is not None else None


def newest(tx: Connection, type_name: str, user: str) -> str | None:
    """The id of the job that was accepted last, whatever became of it."""
    found: str | None = tx.execute(_NEWEST, {"type": type_name, "user": user}).scalar()
    return found
