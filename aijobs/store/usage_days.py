"""Tokens and cost summed by day, type, user, provider and model; jobs may be pruned long before."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, func, select

from aijobs.store.dialect import PerDialect
from aijobs.store.tables import usage_days

_c = usage_days.c
_SUMMED = (
    "calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
    "cost",
)  # fmt: skip
GROUPS = ("day", "type", "user", "provider", "model")
"""What usage can be summed by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """Calls with what they used. None: nobody said, which is not nought."""

    calls: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None


def _added(name: str, dialect: Any) -> Any:
    """The column plus what comes in; unknown plus known is known, unknown plus unknown stays unknown."""
    old, new = _c[name], dialect.insert(usage_days).excluded[name]
    return func.coalesce(old + new, old, new)


_ADD = PerDialect(
    lambda dialect: dialect.insert(usage_days).on_conflict_do_update(
        index_elements=[_c[group] for group in GROUPS],
        set_={column: _added(column, dialect) for column in _SUMMED},
    )
)


def add(tx: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Add to the sums: rows with the columns of GROUPS and of UsageSum."""
    tx.execute(_ADD[tx.dialect.name], sorted(rows, key=lambda row: [str(row[group]) for group in GROUPS]))


def summed(
    tx: Connection, by: Sequence[str], since_day: str | None
) -> list[tuple[tuple[str, ...], UsageSum]]:
    """Sums by some of GROUPS, from *since_day* (YYYY-MM-DD) on, the dearest and largest first."""
    keys = [_c[group] for group in by]
    sums = [func.sum(_c[name]).label(name) for name in _SUMMED]
    query = select(*keys, *sums).group_by(*keys)
    if since_day is not None:
        query = query.where(_c.day >= since_day)
    found = [(tuple(row[: len(keys)]), _sum(row[len(keys) :])) for row in tx.execute(query)]
    return sorted(found, key=lambda one: (-(one[1].cost or 0), -(one[1].output_tokens or 0), one[0]))


def _sum(values: Sequence[Any]) -> UsageSum:
    """PostgreSQL sums whole numbers as decimals, which are no JSON."""
    *counts, cost = values
    whole = [None if value is None else int(value) for value in counts]
    names = [field.name for field in fields(UsageSum)]
    return UsageSum(**dict(zip(names, (*whole, cost), strict=True)))
