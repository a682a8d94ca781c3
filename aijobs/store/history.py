"""What is written once and kept: executions, events, results, dead letters, the outbox of notifications."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from aijobs.core.model import Event, Execution, Job
from aijobs.store.arrays import InsertRows
from aijobs.store.bulk import MANY, insert_many
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import (
    dead_letters,
    events,
    executions,
    job_inputs,
    job_results,
    notifications,
    to_text,
)

_INPUTS = insert(job_inputs)
_EVENTS = insert(events)
_EVENT_NAMES = ("at", "kind", "actor", "job_id", "reason", "detail")
_DEAD_LETTERS = insert(dead_letters)
_NAMES = tuple(field.name for field in fields(Execution))
_EXECUTIONS = insert(executions)
_values = attrgetter(*_NAMES)
_TIMES = tuple(_NAMES.index(name) for name in ("started_at", "finished_at", "retry_at"))

_c = job_results.c


def _newest(insert: Any) -> Any:
    """Of two results of a job, that of the later claim stays."""
    return insert.on_conflict_do_update(
        index_elements=[_c.job_id],
        set_={name: insert.excluded[name] for name in ("result", "fence", "created_at")},
        where=_c.fence < insert.excluded.fence,
    )


_RESULTS = InsertRows(job_results, each=("job_id", "result", "fence"), once="created_at", finish=_newest)
_OUTBOX = PerDialect(lambda dialect: dialect.insert(notifications).on_conflict_do_nothing())
_SETTLE = (
    update(dead_letters)
    .where(
        dead_letters.c.job_id == bindparam("dead_job"),
        dead_letters.c.round == bindparam("dead_round"),
        dead_letters.c.state == "open",
    )
    .values(
        state=bindparam("new_state"),
        reason=bindparam("new_reason"),
        actor=bindparam("new_actor"),
        settled_at=bindparam("now"),
    )
)


def add_inputs(tx: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Keep the inputs of new jobs: rows of {job_id, payload}."""
    tx.execute(_INPUTS, list(rows))


def add_executions(tx: Connection, records: Sequence[Execution]) -> None:
    """Write attempts down, once and for all; a second record of the same claim is refused by the database."""
    if len(records) < MANY:
        tx.execute(_EXECUTIONS, [dict(zip(_NAMES, _values(record), strict=True)) for record in records])
        return
    said = cache(to_text)  # many ended at the same moment, and writing a time out takes a while
    columns = list(zip(*map(_values, records), strict=True))
    for index in _TIMES:
        columns[index] = tuple(value and said(value) for value in columns[index])
    used = [index for index, column in enumerate(columns) if column.count(None) < len(column)]
    names = tuple(_NAMES[index] for index in used)
    insert_many(tx, executions, names, zip(*(columns[index] for index in used), strict=True))


def add_results(tx: Connection, results: Sequence[tuple[Job, str]], now: datetime) -> None:
    """Store the results of jobs under the fences they were claimed with."""
    _RESULTS(tx, [(job.id, result, job.lock_token) for job, result in results], now)


def add_events(tx: Connection, records: Sequence[Event]) -> None:
    """Append events."""
    rows = map(_event_row, records)
    if len(records) < MANY:
        tx.execute(_EVENTS, [dict(zip(_EVENT_NAMES, row, strict=True)) for row in rows])
        return
    said = cache(to_text)  # as above
    insert_many(tx, events, _EVENT_NAMES, ((said(at), *rest) for at, *rest in rows))


def add_dead_letters(tx: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Open dead letters."""
    tx.execute(_DEAD_LETTERS, list(rows))


def settle_dead_letter(
    tx: Connection, job_id: str, round_number: int, *, state: str, reason: str, actor: str, now: datetime
) -> bool:
    """Mark an open dead letter replayed or closed; False when it was not open."""
    values = {
        "dead_job": job_id, "dead_round": round_number, "new_state": state, "new_reason": reason,
        "new_actor": actor, "now": now,
    }  # fmt: skip
    return tx.execute(_SETTLE, values).rowcount == 1


def add_notifications(tx: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Put notifications into the outbox; one a (job, round, target), whoever asks twice."""
    tx.execute(_OUTBOX[tx.dialect.name], list(rows))


def _event_row(record: Event) -> tuple[Any, ...]:
    detail = json.dumps(record.detail, ensure_ascii=False) if record.detail else None
    return record.at, record.kind, record.actor, record.job_id, record.reason, detail
