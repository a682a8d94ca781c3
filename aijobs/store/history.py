"""What is written once and kept: executions, events, results, dead letters, the outbox of notifications."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime

from sqlalchemy import Connection, bindparam, insert, select, update

from aijobs.core.model import Event, Execution
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import dead_letters, events, executions, job_inputs, job_results, notifications

_INPUTS = insert(job_inputs)
_EXECUTIONS = insert(executions)
_EVENTS = insert(events)
_DEAD_LETTERS = insert(dead_letters)
_NAMES = tuple(field.name for field in fields(Execution))

_RESULT = PerDialect(
    lambda dialect: dialect.insert(job_results).on_conflict_do_update(
        index_elements=[job_results.c.job_id],
        set_={
            "result": dialect.insert(job_results).excluded.result,
            "fence": dialect.insert(job_results).excluded.fence,
            "created_at": dialect.insert(job_results).excluded.created_at,
        },
        where=job_results.c.fence < dialect.insert(job_results).excluded.fence,
    )
)
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
_LAST_EVENTS = select(events).order_by(events.c.id.desc()).limit(bindparam("limit"))


def add_inputs(tx: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Keep the inputs of new jobs: rows of {job_id, payload}."""
    tx.execute(_INPUTS, list(rows))


def add_executions(tx: Connection, records: Sequence[Execution]) -> None:
    """Write attempts down, once and for all; a second record of the same claim is refused by the database."""
    tx.execute(_EXECUTIONS, [{name: getattr(record, name) for name in _NAMES} for record in records])


def add_results(tx: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Store results: rows of {job_id, result, fence, created_at}; an older fence never replaces a newer."""
    tx.execute(_RESULT[tx.dialect.name], list(rows))


def add_events(tx: Connection, records: Sequence[Event]) -> None:
    """Append events."""
    tx.execute(_EVENTS, [_event_row(record) for record in records])


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


def last_events(tx: Connection, limit: int) -> list[dict[str, object]]:
    """The newest events of the whole store, newest first."""
    return [dict(row._mapping) for row in tx.execute(_LAST_EVENTS, {"limit": limit})]


def _event_row(record: Event) -> dict[str, object]:
    detail = json.dumps(record.detail, ensure_ascii=False) if record.detail else None
    return {
        "at": record.at,
        "kind": record.kind,
        "actor": record.actor,
        "job_id": record.job_id,
        "reason": record.reason,
        "detail": detail,
    }
