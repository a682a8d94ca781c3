"""Writing new jobs on the guess that their keys are new: one, or many. Only the coordinator may call it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Boolean, Connection, Text, bindparam, case, cast, func, insert, select

from aijobs.core.model import Job, Status
from aijobs.store.bulk import insert_many
from aijobs.store.claims import PLACE
from aijobs.store.dialect import PerDialect, is_postgresql
from aijobs.store.tables import job_inputs, jobs, to_text
from aijobs.store.wake import CHANNEL

_PLAIN = (
    "id", "type", "user", "key", "priority", "max_attempts", "input_hash", "request_id", "traceparent",
    "schedule", "created_by",
)  # fmt: skip
_TIMES = ("next_run_at", "deadline", "key_expires_at", "created_at", "updated_at")
_NAMES = (*_PLAIN, *_TIMES)
_COLUMNS = (*_NAMES, "status", "turn")
"""What a new job has; the other columns have their defaults."""

_plain = attrgetter(*_PLAIN)
_times = attrgetter(*_TIMES)
_PENDING = Status.PENDING.value
_TAKEN = frozenset({"23505", "SQLITE_CONSTRAINT_UNIQUE"})

New = tuple[Job, int | None, str]
"""A job, its turn (None when it is not due yet) and its input as JSON text."""

_ON_KEY = [jobs.c.user, jobs.c.type, jobs.c.key]
_WHERE_KEYED = jobs.c.key.is_not(None) & jobs.c.key_released_at.is_(None)


def _insert_of_one(dialect: Any) -> Any:
    """The insert of a job that goes in unless its key is taken, with the turn that `claims.Turns` would give.

    On PostgreSQL its input goes along, and so does the word to the workers: one round trip, with one row
    back when the job went in.
    """
    lite = dialect.__name__.endswith("sqlite")
    users_last, served = PLACE.selected_columns
    last = (func.max if lite else func.greatest)(func.coalesce(users_last, 0), func.coalesce(served, 1) - 1)
    values: dict[str, Any] = {name: bindparam(name, type_=jobs.c[name].type) for name in _COLUMNS}
    values["turn"] = case((bindparam("due", type_=Boolean), last + 1))
    job = dialect.insert(jobs).values(values)
    job = job.on_conflict_do_nothing(index_elements=_ON_KEY, index_where=_WHERE_KEYED)
    if lite:
        return job
    made = job.returning(jobs.c.id).cte("made")
    payload = bindparam("payload", type_=Text)
    kept = insert(job_inputs).from_select(("job_id", "payload"), select(made.c.id, payload)).cte("kept")
    word = cast(func.pg_notify(CHANNEL, ""), Text)
    return select(word).select_from(made).add_cte(kept)


def _text_of_one(dialect: Any) -> tuple[str, dict[str, Any]]:
    """That statement as text, for the driver, and those of its values that are always the same.

    To compile it once and for all spares SQLAlchemy a tenth of a whole enqueue.
    """
    style = "named" if dialect.__name__.endswith("sqlite") else "pyformat"
    compiled = _insert_of_one(dialect).compile(dialect=dialect.dialect(paramstyle=style))
    return str(compiled), {name: value for name, value in compiled.params.items() if value is not None}


_ONE = PerDialect(_text_of_one)
_INPUT_OF_ONE = "INSERT INTO job_inputs (job_id, payload) VALUES (?, ?)"


def create_one(tx: Connection, job: Job, payload: str, *, due: bool) -> bool:
    """Insert a job with its input, with a turn if it is *due*, and wake the workers: an idle one must know
    when to look for a delayed job. False, and nothing is written, when its idempotency key is taken.
    """
    text, known = _ONE[tx.dialect.name]
    row = dict(zip(_NAMES, (*_plain(job), *map(_instant, _times(job))), strict=True))
    row |= known | {"status": _PENDING, "due": due}
    if is_postgresql(tx):
        return tx.exec_driver_sql(text, row | {"payload": payload}).first() is not None
    made = tx.exec_driver_sql(text, row).rowcount == 1
    if made:
        tx.exec_driver_sql(_INPUT_OF_ONE, (job.id, payload))
    return made


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
    for job, turn, _ in new:
        yield (*_plain(job), *map(said, _times(job)), _PENDING, turn)


def _instant(value: datetime | None) -> str | None:
    return None if value is None else to_text(value)  # PostgreSQL reads it whatever its date style


def _code(error: Exception) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None)
