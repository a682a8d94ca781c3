"""Writing many new jobs at once, by the fastest way each driver has. Only the coordinator may call it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter

from sqlalchemy import Connection

from aijobs.core.model import Job, Status
from aijobs.store.bulk import insert_many
from aijobs.store.tables import job_inputs, jobs, to_text

_PLAIN = (
    "id", "type", "user", "key", "priority", "max_attempts", "input_hash", "request_id", "traceparent",
    "schedule", "created_by",
)  # fmt: skip
_TIMES = ("next_run_at", "deadline", "key_expires_at", "created_at", "updated_at")
_COLUMNS = (*_PLAIN, *_TIMES, "status", "turn")
"""What a new job has; the other columns have their defaults."""

_plain = attrgetter(*_PLAIN)
_times = attrgetter(*_TIMES)
_TAKEN = frozenset({"23505", "SQLITE_CONSTRAINT_UNIQUE"})

New = tuple[Job, int | None, str]
"""A job, its turn (None when it is not due yet) and its input as JSON text."""


def create_all(tx: Connection, new: Sequence[New]) -> bool:
    """Insert jobs with their inputs. False, and nothing is written, when an idempotency key is taken."""
    nested = tx.begin_nested()
    try:
        insert_many(tx, jobs, _COLUMNS, _job_rows(new))
        insert_many(tx, job_inputs, ("job_id", "payload"), ((job.id, payload) for job, _, payload in new))
    except Exception as error:
        nested.rollback()
        if _code(error) in _TAKEN:
            return False
        raise
    nested.commit()
    return True


def _job_rows(new: Iterable[New]) -> Iterator[tuple[object, ...]]:
    said = cache(_instant)  # an import has few different times, and writing one out takes a while
    pending = Status.PENDING.value
    for job, turn, _ in new:
        yield (*_plain(job), *map(said, _times(job)), pending, turn)


def _instant(value: datetime | None) -> str | None:
    return None if value is None else to_text(value)  # PostgreSQL reads it whatever its date style


def _code(error: Exception) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None)
