"""The totals of a batch of ends, written in the transaction that ends them."""

import zlib
from collections.abc import Sequence
from datetime import datetime

from aijobs.core import totals as names
from aijobs.core.model import Execution, Outcome, Status
from aijobs.core.totals import Totals
from aijobs.services.coordinator.values import Decided
from aijobs.store import rollups
from aijobs.store.engine import Tx

_DIRECTIONS = ("input", "output", "cache_read", "cache_write", "reasoning")


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
        if move.target is Status.DEAD_LETTER and failure:
            totals.count(names.DEAD_LETTERS, type=job.type, error_class=failure.error_class.value)
    rollups.add(tx, totals, shard_of(decided[0][0].worker))


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
