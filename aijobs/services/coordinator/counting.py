"""The totals of a batch of ends, written in the transaction that ends them."""

import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from aijobs.core import totals as names
from aijobs.core.model import Execution, Job, Outcome, Status
from aijobs.core.totals import Totals
from aijobs.services.coordinator.values import Decided
from aijobs.store import rollups, usage_days
from aijobs.store.engine import Tx

_DIRECTIONS = ("input", "output", "cache_read", "cache_write", "reasoning")
_USED = (*(f"{direction}_tokens" for direction in _DIRECTIONS), "cost")
_NOTHING = (None,) * len(_USED)
_used = attrgetter(*_USED)


def shard_of(worker: str) -> int:
    """The same number for the same worker, in every process."""
    return zlib.crc32(worker.encode())


def count_ends(tx: Tx, decided: Sequence[Decided], records: Sequence[Execution], now: datetime) -> None:
    """Add a batch of ends and their attempts to the totals."""
    if not decided:
        return
    totals = Totals()
    _count_attempts(totals, records, {job.id: job.type for _, job, _ in decided}, now)
    _count_usage(totals, records)
    ended = Counter((job.type, move.target.value) for _, job, move in decided if move.target.final)
    for (type_name, status), count in ended.items():
        totals.count(names.FINAL_STATUS, count, type=type_name, status=status)
    for _, job, move in decided:
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
        used = _used(record)
        if used == _NOTHING:
            continue
        job = jobs[record.job_id]
        key = (job.type, job.user, record.provider or "", record.model or "")
        row = rows.setdefault(key, {"calls": 0, **dict.fromkeys(_USED)})
        row["calls"] += 1
        for name, value in zip(_USED, used, strict=True):
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


def _count_attempts(
    totals: Totals, records: Sequence[Execution], types: Mapping[str, str], now: datetime
) -> None:
    """Attempts and how long they took; what is alike is counted together, for a batch is mostly alike."""
    spans: dict[tuple[str, str | None, Outcome, str | None], list[timedelta]] = defaultdict(list)
    for record in records:
        kind = (types[record.job_id], record.provider, record.outcome, record.error_class)
        spans[kind].append(now - record.started_at)
    for (type_name, provider, outcome, error_class), found in spans.items():
        told = outcome.value
        labels = {"type": type_name, "provider": provider, "outcome": told, "error_class": error_class}
        totals.count(names.ATTEMPTS, len(found), **labels)
        totals.observe(names.DURATION, found, type=type_name, outcome=told)
        if outcome is Outcome.LOST:
            totals.count(names.LEASES_LOST, len(found), type=type_name)


def _count_usage(totals: Totals, records: Sequence[Execution]) -> None:
    for record in records:
        used = _used(record)
        if not any(used):
            continue
        where = {"provider": record.provider, "model": record.model}
        for direction, tokens in zip(_DIRECTIONS, used, strict=False):
            totals.count(names.TOKENS, tokens or 0, **where, direction=direction)
        totals.count(names.COST, record.cost or 0, **where)
