"""Choosing among the dead letters: filters, pages, groups. Closing and replaying are the coordinator's."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from aijobs.store.tables import dead_letters

_c = dead_letters.c


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A reference to a job that died, in one of its rounds; field order is column order."""

    job_id: str
    round: int
    type: str
    user: str
    error_class: str
    error_code: str | None
    attempts: int
    at: datetime
    state: str
    reason: str | None
    actor: str | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters; what is None does not restrict. Text is compared as it stands: no wildcards."""

    job_ids: tuple[str, ...] = ()
    state: str | None = "open"
    type: str | None = None
    user: str | None = None
    error_class: str | None = None
    since: datetime | None = None  # died at or after
    until: datetime | None = None  # died before

    @property
    def empty(self) -> bool:
        """Whether nothing narrows it down: then it means all of them, which has to be said as `--all`."""
        narrowing = (self.type, self.user, self.error_class, self.since, self.until)
        return not self.job_ids and all(value is None for value in narrowing)

    def clauses(self) -> list[ColumnElement[bool]]:
        """The conditions, to be joined by AND."""
        equal = {
            _c.state: self.state,
            _c.type: self.type,
            _c.user: self.user,
            _c.error_class: self.error_class,
        }
        clauses = [column == value for column, value in equal.items() if value is not None]
        if self.job_ids:
            clauses.append(_c.job_id.in_(self.job_ids))
        if self.since is not None:
            clauses.append(_c.at >= self.since)
        if self.until is not None:
            clauses.append(_c.at < self.until)
        return clauses


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one type and error class."""

    type: str
    error_class: str
    count: int
    oldest: datetime
    newest: datetime


_NAMES = tuple(field.name for field in fields(DeadLetter))


def find(
    tx: Connection, wanted: DeadLetterFilter, limit: int, after: tuple[datetime, str] | None = None
) -> list[DeadLetter]:
    """At most *limit* dead letters, those that died last first, behind the cursor (at, job id) *after*."""
    query = select(*(_c[name] for name in _NAMES)).where(*wanted.clauses())
    if after is not None:
        at, job_id = after
        query = query.where(or_(_c.at < at, (_c.at == at) & (_c.job_id < job_id)))
    rows: Any = tx.execute(query.order_by(_c.at.desc(), _c.job_id.desc()).limit(limit))
    return [DeadLetter(**dict(zip(_NAMES, row, strict=True))) for row in rows]


def oldest(tx: Connection, wanted: DeadLetterFilter, limit: int) -> list[DeadLetter]:
    """At most *limit* dead letters, those that died first, first."""
    query = select(*(_c[name] for name in _NAMES)).where(*wanted.clauses())
    rows: Any = tx.execute(query.order_by(_c.at, _c.job_id).limit(limit))
    return [DeadLetter(**dict(zip(_NAMES, row, strict=True))) for row in rows]


def groups(tx: Connection, wanted: DeadLetterFilter) -> list[Group]:
    """The dead letters by type and error class, the largest group first."""
    query = (
        select(_c.type, _c.error_class, func.count(), func.min(_c.at), func.max(_c.at))
        .where(*wanted.clauses())
        .group_by(_c.type, _c.error_class)
        .order_by(func.count().desc(), _c.type, _c.error_class)
    )
    return [Group(*row) for row in tx.execute(query)]


def open_round(tx: Connection, job_ids: Sequence[str]) -> dict[str, int]:
    """The open round of each of *job_ids* that has one."""
    query = select(_c.job_id, _c.round).where(_c.job_id.in_(job_ids), _c.state == "open")
    return dict(tx.execute(query).all())
