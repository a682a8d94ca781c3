"""Removing everything that some job types and providers left behind: for those that only a trial used.

Unlike retention it spares nothing, so it takes names and no period, and is for whoever made up the names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, exists, func, or_, select

from aijobs.core.totals import labels_text
from aijobs.store import retention
from aijobs.store.tables import (
    deliveries,
    events,
    jobs,
    minutes,
    provider_calls,
    provider_trials,
    providers,
    refusals,
    replay_items,
    replays,
    rollups,
    usage_days,
    workers,
)

_TYPES: Any = bindparam("types", expanding=True)
_PROVIDERS: Any = bindparam("providers", expanding=True)
_JOBS = select(jobs.c.id).where(jobs.c.type.in_(_TYPES))
_THEIR_REPLAYS = select(replay_items.c.replay_id).where(replay_items.c.job_id.in_(_JOBS)).distinct()
_EMPTY_REPLAYS = delete(replays).where(
    replays.c.id.in_(bindparam("ids", expanding=True)),
    ~exists().where(replay_items.c.replay_id == replays.c.id),
)
_KINDS = (
    select(jobs.c.type, jobs.c.user, func.count(), func.max(jobs.c.updated_at))
    .where(jobs.c.type.like(bindparam("like")))
    .group_by(jobs.c.type, jobs.c.user)
)
_LAST_EVENT = select(func.max(events.c.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What is to go. *after_event*: events of no job are looked for behind this one (`last_event`)."""

    types: Sequence[str]
    providers: Sequence[str]
    workers: Sequence[str]
    after_event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The jobs of one type and user: how many there are, and when one of them last changed."""

    type: str
    user: str
    jobs: int
    changed_at: datetime


def kinds(tx: Connection, prefix: str) -> list[Kind]:
    """What jobs there are of types whose names begin with *prefix*. It goes over all jobs of the store."""
    rows = tx.execute(_KINDS, {"like": prefix + "%"})
    return [Kind(type=row[0], user=row[1], jobs=row[2], changed_at=row[3]) for row in rows]


def last_event(tx: Connection) -> int:
    """The number of the newest event; 0 when there is none."""
    return tx.execute(_LAST_EVENT).scalar() or 0


def remove(tx: Connection, names: Names) -> int:
    """Remove every job of these types with all that hangs on it, every row about these providers and workers,
    and what was counted of them; how many jobs there were.

    Rows of `minutes` that count webhooks name no provider and stay.
    """
    replay_ids = list(tx.execute(_THEIR_REPLAYS, {"types": list(names.types)}).scalars())
    ids = list(tx.execute(_JOBS, {"types": list(names.types)}).scalars())
    removed = retention.remove_jobs(tx, ids) if ids else 0
    if replay_ids:
        tx.execute(_EMPTY_REPLAYS, {"ids": replay_ids})
    for statement in (
        delete(minutes).where(minutes.c.type.in_(_TYPES)),
        delete(usage_days).where(usage_days.c.type.in_(_TYPES)),
    ):
        tx.execute(statement, {"types": list(names.types)})
    for table, column in (
        (deliveries, deliveries.c.provider),
        (provider_trials, provider_trials.c.provider),
        (provider_calls, provider_calls.c.provider),
        (refusals, refusals.c.provider),
        (providers, providers.c.name),
    ):
        tx.execute(delete(table).where(column.in_(_PROVIDERS)), {"providers": list(names.providers)})
    tx.execute(delete(workers).where(workers.c.name.in_(names.workers)))
    tx.execute(delete(rollups).where(_labelled(names)))
    tx.execute(_events(names, replay_ids))
    return removed


def _labelled(names: Names) -> ColumnElement[bool]:
    pairs = [("type", name) for name in names.types] + [("provider", name) for name in names.providers]
    return or_(*(rollups.c.labels.contains(_pair(*pair), autoescape=True) for pair in pairs))


def _events(names: Names, replay_ids: Iterable[str]) -> Any:
    """The events of no job whose detail names one of these."""
    said = [*names.providers, *replay_ids]
    of_us = [events.c.detail.contains(f'"{name}"', autoescape=True) for name in said]
    by_us = events.c.actor.in_(names.workers)
    return delete(events).where(
        events.c.id > names.after_event, events.c.job_id.is_(None), or_(by_us, *of_us)
    )


def _pair(name: str, value: str) -> str:
    """One label as it stands among others in a row's text."""
    return labels_text({name: value})[1:-1]
