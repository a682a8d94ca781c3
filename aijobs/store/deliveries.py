"""The webhook inbox: one row a (provider, delivery id), whatever arrives how often and in which order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from aijobs.store.dialect import PerDialect
from aijobs.store.tables import deliveries

_c = deliveries.c

Key = tuple[str, str]
"""A provider, and its id of a delivery."""

Work = tuple[str, str]
"""A provider, and what it calls a piece of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What is kept of a delivery: no body, only what is needed to act on it and to recognise a copy."""

    provider: str
    delivery_id: str
    event_type: str
    provider_job_id: str | None
    job_id: str | None
    body_hash: str
    outcome: str
    sent_at: datetime | None
    received_at: datetime
    handled_at: datetime | None

    @property
    def key(self) -> Key:
        """What copies have in common."""
        return self.provider, self.delivery_id


_key = attrgetter("key")
_NAMES = tuple(Delivery.__dataclass_fields__)
_COLUMNS = tuple(_c[name] for name in _NAMES)
_RECORD = PerDialect(
    lambda dialect: dialect.insert(deliveries).on_conflict_do_nothing().returning(_c.provider, _c.delivery_id)
)
_KEY = (_c.provider == bindparam("of_provider"), _c.delivery_id == bindparam("of_delivery"))
_COUNT_COPIES = (
    update(deliveries)
    .where(*_KEY)
    .values(copies=_c.copies + bindparam("more"))
    .returning(_c.body_hash, _c.job_id)
)
_OF_WORK = select(_c.provider, _c.provider_job_id, _c.handled_at, _c.received_at).where(
    _c.provider_job_id.in_(bindparam("provider_job_ids", expanding=True))
)
_MATCH = (
    update(deliveries)
    .where(
        _c.provider == bindparam("of_provider"),
        _c.provider_job_id == bindparam("of_provider_job"),
        _c.handled_at.is_(None),
    )
    .values(job_id=bindparam("new_job_id"), outcome="accepted", handled_at=bindparam("now"))
)
_UNMATCHED = (
    select(*_COLUMNS)
    .where(_c.handled_at.is_(None), _c.outcome != "ignored", _c.received_at <= bindparam("before"))
    .order_by(_c.received_at)
    .limit(bindparam("limit"))
)
_ABOUT = (
    select(*_COLUMNS)
    .where(_c.provider_job_id.in_(bindparam("provider_job_ids", expanding=True)))
    .order_by(_c.received_at)
)
_NEWEST_UNMATCHED = (
    select(*_COLUMNS)
    .where(_c.handled_at.is_(None), _c.outcome != "ignored", _c.received_at <= bindparam("before"))
    .order_by(_c.received_at.desc())
    .limit(bindparam("limit"))
)
_OPEN = select(_c.handled_at.is_(None)).where(*_KEY).with_for_update()
_SETTLE = (
    update(deliveries)
    .where(*_KEY, _c.handled_at.is_(None))
    .values(outcome=bindparam("new_outcome"), job_id=bindparam("new_job_id"), handled_at=bindparam("now"))
)


def record(tx: Connection, found: Iterable[Delivery]) -> frozenset[Key]:
    """Write deliveries down, of each key one; the keys that were not there already.

    In one order for everybody, so that two servers which are sent the same cannot deadlock.
    """
    rows = [{name: getattr(delivery, name) for name in _NAMES} for delivery in sorted(found, key=_key)]
    return frozenset((row[0], row[1]) for row in tx.execute(_RECORD[tx.dialect.name], rows))


def count_copies(tx: Connection, copies: Mapping[Key, int]) -> dict[Key, tuple[str | None, str | None]]:
    """Count more copies of deliveries; by key the (body hash, job id) of the first, which a prune may just
    have taken away: then nothing is known of it.
    """
    firsts: dict[Key, tuple[str | None, str | None]] = {}
    for (provider, delivery_id), more in sorted(copies.items()):
        values = {"of_provider": provider, "of_delivery": delivery_id, "more": more}
        first = tx.execute(_COUNT_COPIES, values).first()
        firsts[provider, delivery_id] = (first[0], first[1]) if first else (None, None)
    return firsts


def news_of(tx: Connection, works: Mapping[Work, datetime]) -> frozenset[Work]:
    """Those of *works* with a delivery that no look has followed: it came before we knew the work, or since
    the last look at it began, which *works* tells.
    """
    found = tx.execute(_OF_WORK, {"provider_job_ids": [provider_job_id for _, provider_job_id in works]})
    return frozenset(
        (provider, name)
        for provider, name, handled_at, received_at in found
        if (began := works.get((provider, name))) and (handled_at is None or received_at >= began)
    )


def match(tx: Connection, jobs: Mapping[Work, str], now: datetime) -> None:
    """Tie every waiting delivery about a piece of work to its job, whose id *jobs* tells."""
    rows = [
        {"of_provider": provider, "of_provider_job": provider_job_id, "new_job_id": job_id, "now": now}
        for (provider, provider_job_id), job_id in sorted(jobs.items())
    ]
    if rows:
        tx.execute(_MATCH, rows)


def unmatched(tx: Connection, before: datetime, limit: int) -> list[Delivery]:
    """Deliveries received up to *before* whose job is not known, oldest first."""
    return _found(tx.execute(_UNMATCHED, {"before": before, "limit": limit}))


def about(tx: Connection, provider_job_ids: Sequence[str]) -> list[Delivery]:
    """Every delivery about these provider jobs, oldest first."""
    if not provider_job_ids:
        return []
    return _found(tx.execute(_ABOUT, {"provider_job_ids": list(provider_job_ids)}))


def newest_unmatched(tx: Connection, before: datetime, limit: int) -> list[Delivery]:
    """As `unmatched`, newest first: of many that concern nobody, the old ones have been looked at."""
    return _found(tx.execute(_NEWEST_UNMATCHED, {"before": before, "limit": limit}))


def is_open(tx: Connection, delivery: Delivery) -> bool:
    """Whether nobody has settled it, and nobody will until the transaction ends."""
    key = {"of_provider": delivery.provider, "of_delivery": delivery.delivery_id}
    return bool(tx.execute(_OPEN, key).scalar())


def settle(tx: Connection, delivery: Delivery, outcome: str, job_id: str | None, now: datetime) -> bool:
    """Close an unmatched delivery with *outcome*; False when somebody else did."""
    values = {
        "of_provider": delivery.provider, "of_delivery": delivery.delivery_id, "new_outcome": outcome,
        "new_job_id": job_id, "now": now,
    }  # fmt: skip
    return tx.execute(_SETTLE, values).rowcount == 1


def _found(rows: Iterable[Any]) -> list[Delivery]:
    return [Delivery(**dict(zip(_NAMES, row, strict=True))) for row in rows]
