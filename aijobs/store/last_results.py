"""The last job of a user and type that succeeded, with its result: one look at an index of successes."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, select, text

from aijobs.store.tables import job_results, jobs

_c = jobs.c
_SUCCEEDED = text("jobs.status = 'succeeded'")  # as the index has it: SQLite uses it for no other writing
_LAST = (
    select(_c.id, _c.finished_at, job_results.c.result)
    .join(job_results, job_results.c.job_id == _c.id)
    .where(_SUCCEEDED, _c.user == bindparam("user"), _c.type == bindparam("type"))
    .order_by(_c.finished_at.desc())
    .limit(1)
)
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


def newest(tx: Connection, type_name: str, user: str) -> str | None:
    """The id of the job that was accepted last, whatever became of it."""
    found: str | None = tx.execute(_NEWEST, {"type": type_name, "user": user}).scalar()
    return found
