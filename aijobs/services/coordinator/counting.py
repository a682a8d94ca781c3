"""The totals of a batch of ends, written in the transaction that ends them."""

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from aijobs.core import totals as names
from aijobs.core.model import Execution, Job, Outcome, Status
from aijobs.core.totals import Totals
from aijobs.services.coordinator.values import Decided
from aijobs.store import rollups, usage_days
from aijobs.store.engine import Tx

_DIRECTIONS = ("input", "output", "cache_read", "cache_write", "reasoning")
_USED = (*(f"{direction}_tokens" for direction in _DIRECTIONS), "cost")


def shard_of(worker: str) -> int:
    """The same number for the same worker, in every process."""
    return zlib.crc32(worker.encode())


def count_ends(tx: Tx, decided: Sequence[Decided], records: Sequence[Execution], now: datetime) -> None:
    """Add a batch of ends and their attempts to the totals."""
    if not decided:
        return
    totals = Totals()
    types = {job.id: job.type for _, job, _ in decided}
    for record in records:
        _count_attempt(totals, record, types[record.job_id], now)
    for _, job, move in decided:
        if move.target.final:
            totals.count(names.FINAL_STATUS, type=job.type, status=move.target.value)
        failure = move.failure
        if move.target is Status.FAILED and failure:
            totals.count(names.RETRIES, provider=job.provider, error_class=failure.error_class.value)
            totals.peak("most_retries", job.attempts, type_name=job.type)
        if move.target is Status.DEAD_LETTER and failure:
            totals.count(names.DEAD_LETTERS, type=job.type, error_class=failure.error_class.value)
    rollups.add(tx, totals, shard_of(decided[0][0].worker), now)
    rows = usage_rows(records, {job.id: job for _, job, _ in decided}, now)
    if rows:
        usage_days.add(tx, rows)


def usage_rows(
    records: Sequence[Execution], jobs: Mapping[str, Job], now: datetime
) -> list[dict[str, object]]:
    """One row a (type, user, provider, model) of what the attempts used, where anything is known."""
    rows: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for record in records:
        used = {name: getattr(record, name) for name in _USED}
        if all(value is None for value in used.values()):
            continue
        job = jobs[record.job_id]
        key = (job.type, job.user, record.provider or "", record.model or "")
        row = rows.setdefault(key, {"calls": 0, **dict.fromkeys(_USED)})
        row["calls"] += 1
        for name, value in used.items():
            if value is not None:
                row[name] = (row[name] or 0) + value
    return [
        {
            "day": now.date().isoformat(),
            "type": kind,
            "user": user,
            "provider": provider,
            "model": model,
            **row,
        }
        for (kind, user, provider, model), row in rows.items()
    ]


def _count_attempt(totals: Totals, record: Execution, type_name: str, now: datetime) -> None:
    outcome = record.outcome.value
    totals.count(
        names.ATTEMPTS,
        type=type_name,
        provider=record.provider,
        outcome=outcome,
        error_class=record.error_class,
    )
    totals.observe(names.DURATION, now - record.started_at, type=type_name, outcome=outcome)
    if record.outcome is Outcome.LOST:
        totals.count(names.LEASES_LOST, type=type_name)
    for direction in _DIRECTIONS:
        tokens = getattr(record, f"{direction}_tokens")
        totals.count(
            names.TOKENS, tokens or 0, provider=record.provider, model=record.model, direction=direction
        )
    totals.count(names.COST, record.cost or 0, provider=record.provider, model=record.model)
