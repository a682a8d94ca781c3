"""A store of very many jobs, written past the services by the drivers' bulk means: a million in two minutes.

The rows are such as a month of ordinary work leaves. Of twenty jobs fourteen have succeeded, one is a dead
letter, one was cancelled, and four have not ended; every seventh job is of one and the same user. What hangs
on a job is there too: input, attempts, result, the totals and the minutes.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from aijobs.core.clock import seeded_chance
from aijobs.core.ids import new_id
from aijobs.core.payload import input_hash
from aijobs.core.totals import ATTEMPTS, DEAD_LETTERS, FINAL_STATUS, labels_text
from aijobs.store.engine import Store, Tx
from aijobs.store.tables.columns import to_text

TYPES = ("summarize", "translate", "embed")
HEAVY = "user-0"
"""The user of every seventh job; the others are of a thousand users."""

_MONTH = timedelta(days=30)
_HOUR, _SECOND = timedelta(hours=1), timedelta(seconds=1)
_CHUNK = 20_000
_PAYLOAD = json.dumps({"text": "x" * 200})
_HASH = input_hash(json.loads(_PAYLOAD))
_CLASSES = ("unavailable", "timeout", "invalid_request")
_COLUMNS: Mapping[str, Sequence[str]] = {
    "jobs": (
        "id", "type", "user", "key", "status", "attempts", "max_attempts", "next_run_at", "locked_until",
        "locked_by", "lock_token", "claimed_at", "last_error_class", "input_hash", "created_at", "updated_at",
        "finished_at", "turn",
    ),
    "job_inputs": ("job_id", "payload"),
    "job_results": ("job_id", "result", "fence", "created_at"),
    "executions": (
        "job_id", "fence", "round", "attempt", "worker", "provider", "model", "outcome", "error_class",
        "started_at", "finished_at", "elapsed_seconds", "input_tokens", "output_tokens",
    ),
    "dead_letters": ("job_id", "round", "type", "user", "error_class", "attempts", "at"),
    "rollups": ("metric", "labels", "shard", "value"),
    "minutes": ("minute", "type", "shard", "succeeded", "dead_letter", "cancelled", "attempts", "started"),
}  # fmt: skip

Rows = dict[str, list[tuple[Any, ...]]]


def fill(store: Store, count: int) -> None:
    """Add *count* jobs of the last thirty days, and let a server take its statistics.

    SQLite gets none, for a store in use has none either.
    """
    now, chance = store.clock.now(), seeded_chance(1)
    rows: Rows = defaultdict(list)
    ended: Counter[tuple[datetime, str, str]] = Counter()
    with store.write() as tx:
        for n in range(count):
            created = now - _MONTH + _MONTH * n / count
            status = _add_job(rows, n, new_id(created, chance), created, now)
            if status in ("succeeded", "dead_letter", "cancelled"):
                ended[created.replace(second=0, microsecond=0), TYPES[n % len(TYPES)], status] += 1
            if n % _CHUNK == _CHUNK - 1:
                _load(tx, rows)
        _add_counts(rows, ended)
        _load(tx, rows)
    if store.dialect == "postgresql":
        with store.at_once() as tx:
            tx.execute(text("VACUUM ANALYZE"))


def _add_job(rows: Rows, n: int, job_id: str, created: datetime, now: datetime) -> str:
    """One job with what hangs on it; its status."""
    type_name, user = TYPES[n % len(TYPES)], HEAVY if n % 7 == 0 else f"user-{n % 997 + 1}"
    place = n // 3 % 20
    key = f"key-{n}" if n % 2 else None
    error = None
    attempts, next_run_at, turn, running, finished = 1, None, None, (None, None, None), None
    if place < 14:
        status, finished = "succeeded", created + 3 * _SECOND
        rows["job_results"].append((job_id, '"an answer"', 1, finished))
    elif place == 14:
        status, finished, error = "dead_letter", created + 3 * _SECOND, _CLASSES[n // 60 % 3]
        rows["dead_letters"].append((job_id, 1, type_name, user, error, 1, finished))
    elif place == 15:
        status, finished, attempts = "cancelled", created + _SECOND, 0
    elif place < 18:
        status, next_run_at, turn, attempts = "pending", created, n, 0
    elif place == 18:
        status, next_run_at, attempts = "pending", now + _HOUR + _SECOND * n, 0
    elif n % 1000 < 990:
        status, next_run_at, error = "failed", now + _HOUR + _SECOND * n, "network"
    else:
        status, running = "processing", (now + _HOUR, "worker-1", created)
    until, worker, claimed = running
    rows["jobs"].append(
        (
            job_id, type_name, user, key, status, attempts, 5, next_run_at, until, worker, attempts, claimed,
            error, _HASH, created, finished or created, finished, turn,
        )
    )  # fmt: skip
    rows["job_inputs"].append((job_id, _PAYLOAD))
    if status in ("succeeded", "dead_letter", "failed"):
        outcome = "succeeded" if status == "succeeded" else "failed"
        rows["executions"].append(
            (
                job_id, 1, 1, 1, "worker-1", "simulator", "model", outcome, error, created + _SECOND,
                created + 3 * _SECOND, 2.0, 100, 20,
            )
        )  # fmt: skip
    return status


def _add_counts(rows: Rows, ended: Mapping[tuple[datetime, str, str], int]) -> None:
    """What the workers would have added up."""
    statuses = ("succeeded", "dead_letter", "cancelled")
    totals: Counter[tuple[str, str]] = Counter()
    by_minute: dict[tuple[datetime, str], Counter[str]] = defaultdict(Counter)
    for (minute, type_name, status), count in ended.items():
        by_minute[minute, type_name][status] += count
        totals[FINAL_STATUS, labels_text({"type": type_name, "status": status})] += count
        labels = {"type": type_name, "provider": "simulator", "outcome": status, "error_class": "none"}
        totals[ATTEMPTS, labels_text(labels)] += count
        if status == "dead_letter":
            totals[DEAD_LETTERS, labels_text({"type": type_name, "error_class": "timeout"})] += count
    rows["rollups"] = [(metric, labels, 0, value) for (metric, labels), value in totals.items()]
    rows["minutes"] = [
        (minute, type_name, 0, *(found[status] for status in statuses), found.total(), found.total())
        for (minute, type_name), found in by_minute.items()
    ]


def _load(tx: Tx, rows: Rows) -> None:
    """Write and forget *rows*, tables in the order of `_COLUMNS`, which is that of their references."""
    connection: Any = tx.connection.driver_connection
    for table, names in _COLUMNS.items():
        columns = ", ".join(f'"{name}"' for name in names)
        if tx.dialect.name == "sqlite":
            marks = ", ".join("?" * len(names))
            texts = (tuple(map(_plain, row)) for row in rows[table])
            connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", texts)
        else:
            with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for row in rows[table]:
                    copy.write_row(row)
        rows[table].clear()


def _plain(value: Any) -> Any:
    return to_text(value) if isinstance(value, datetime) else value
