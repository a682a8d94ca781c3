"""What a claim reads: which jobs are ready, in whose turn, and what runs already.

Only *ready* jobs are in the claim index: `turn` is null until a job is due. A turn is one more than the
user's last waiting turn of that type and priority, and never less than the turn now being served; so a claim
in order of (priority, turn) goes round the users, and its cost does not depend on how many jobs are delayed,
paused or finished.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Connection, Select, Text, bindparam, func, or_, select, true, update

from aijobs.core.limits import Candidate, Running
from aijobs.core.model import Job
from aijobs.store.dialect import is_postgresql
from aijobs.store.jobs import COLUMNS, job_from
from aijobs.store.tables import jobs

LOWEST_PRIORITY = -(2**31)
"""The least that the column takes: no job is below it."""

_c = jobs.c

_DUE = (
    select(_c.id, _c.type, _c.user, _c.priority)
    .where(_c.turn.is_(None), _c.next_run_at <= bindparam("now"))
    .order_by(_c.next_run_at)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_PROMOTE = (
    update(jobs)
    .where(_c.id == bindparam("job_id"), _c.turn.is_(None), _c.next_run_at.is_not(None))
    .values(turn=bindparam("new_turn"))
)
_USERS_LAST = (
    select(func.max(_c.turn))
    .where(
        _c.type == bindparam("type"),
        _c.user == bindparam("user"),
        _c.priority == bindparam("priority"),
        _c.turn.is_not(None),
    )
    .scalar_subquery()
)
_SERVED = (
    select(_c.turn)
    .where(_c.type == bindparam("type"), _c.priority == bindparam("priority"), _c.turn.is_not(None))
    .order_by(_c.turn)
    .limit(1)
    .scalar_subquery()
)
PLACE = select(_USERS_LAST, _SERVED)


def _line(type_name: Any) -> Select[Any]:
    """The first of the line of a type."""
    return (
        select(_c.id, _c.type, _c.user, _c.priority, _c.turn, _c.next_run_at)
        .where(
            _c.type == type_name,
            _c.turn.is_not(None),
            or_(_c.deadline.is_(None), _c.deadline > bindparam("now")),
        )
        .order_by(_c.priority.desc(), _c.turn, _c.id)
        .limit(bindparam("limit"))
    )


_HEAD = _line(bindparam("type")).with_for_update(skip_locked=True)
_FIRST_TYPE = select(func.min(_c.type)).where(_c.turn.is_not(None))
_TYPE_WALK = select(_FIRST_TYPE.scalar_subquery().label("type")).cte("walk", recursive=True)
_TYPE_WALK = _TYPE_WALK.union_all(
    select(_FIRST_TYPE.where(_c.type > _TYPE_WALK.c.type).scalar_subquery()).where(
        _TYPE_WALK.c.type.is_not(None)
    )
)
_READY_TYPES = select(_TYPE_WALK.c.type).where(_TYPE_WALK.c.type.is_not(None))
_FIRST_USER = select(func.min(_c.user)).where(_c.type == bindparam("type"), _c.turn.is_not(None))


def _waiting_users(first: Select[Any]) -> Select[Any]:
    """The users from *first* on: a loose index scan, one probe a user, however many jobs each has."""
    walk = select(first.scalar_subquery().label("user")).cte("walk", recursive=True)
    step = _FIRST_USER.where(_c.user > walk.c.user).scalar_subquery()
    walk = walk.union_all(select(step).where(walk.c.user.is_not(None)))
    return select(walk.c.user).where(walk.c.user.is_not(None)).limit(bindparam("limit"))


_USERS = _waiting_users(_FIRST_USER)
_USERS_AFTER = _waiting_users(_FIRST_USER.where(_c.user > bindparam("after")))
_ABOVE = _HEAD.where(_c.priority >= bindparam("above"))
_HEAD_OF_USER = _ABOVE.where(_c.user == bindparam("user"))
_GIVEN = func.unnest(bindparam("users", type_=ARRAY(Text()))).table_valued("user").render_derived("given")
_OF_GIVEN = _ABOVE.where(_c.user == _GIVEN.c.user).lateral("head")
_HEADS_OF_USERS = select(_OF_GIVEN).select_from(_GIVEN.join(_OF_GIVEN, true()))
_NAMED = func.unnest(bindparam("types", type_=ARRAY(Text()))).table_valued("type").render_derived("named")
_OF_NAMED = _line(_NAMED.c.type).where(_c.priority >= bindparam("above")).lateral("head")
_HEADS = select(_OF_NAMED).select_from(_NAMED.join(_OF_NAMED, true()))
# What runs, said as only `ix_jobs_running` has it. Asked for the status, PostgreSQL may go by
# `ix_jobs_status`, and there walk over an entry of every job that was claimed since the last vacuum.
_RUNS = _c.claimed_at.is_not(None)
_RUNNING = (
    select(_c.type, _c.user, _c.provider, func.count()).where(_RUNS).group_by(_c.type, _c.user, _c.provider)
)
_RUNNING_HERE = _RUNNING.where(_c.parked_at.is_(None))
_IN_FLIGHT = (
    select(_c.provider, func.count())
    .where(_RUNS, _c.parked_at.is_(None), _c.provider.is_not(None))
    .group_by(_c.provider)
)
# Only a job that runs has a lease. Asked for its status as well, SQLite would look at all that run.
_PARKED = (
    select(*COLUMNS)
    .where(
        _c.locked_until <= bindparam("now"),
        _c.provider_job_id.is_not(None),
        _c.type.in_(bindparam("types", expanding=True)),
    )
    .order_by(_c.locked_until)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_EXPIRED = (
    select(*COLUMNS)
    .where(
        _c.locked_until <= bindparam("now"),
        _c.provider_job_id.is_(None),
    )
    .order_by(_c.locked_until)
    .limit(bindparam("limit"))
)
_OVERDUE = (
    select(*COLUMNS)
    .where(_c.deadline <= bindparam("now"), _c.next_run_at.is_not(None))
    .order_by(_c.deadline)
    .limit(bindparam("limit"))
)
_OF_TYPES = _c.type.in_(bindparam("types", expanding=True))
# The claim's statements have an index each. What PostgreSQL knows of a table that has just been filled, or
# of a line that has just grown, makes it read and sort the whole line, or the whole table, all the same.
_BY_INDEX = [
    func.set_config(name, "off", True)
    for name in ("enable_seqscan", "enable_bitmapscan", "enable_sort", "jit")
]
_STEER = select(*_BY_INDEX)
_LOCK = select(
    *_BY_INDEX,
    func.pg_advisory_xact_lock(0x61696A6F6273),  # "aijobs" in ASCII
)
_NEXT_DUE = select(func.min(_c.next_run_at)).where(_c.turn.is_(None), _c.next_run_at.is_not(None))


class Turns:
    """Hands out turns to jobs that become ready in one transaction: one look a (type, user, priority)."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx
        self._last: dict[tuple[str, str, int], int] = {}

    def next(self, type_name: str, user: str, priority: int) -> int:
        """The turn of the next job of this user to become ready."""
        place = (type_name, user, priority)
        last = self._last.get(place)
        if last is None:
            values = {"type": type_name, "user": user, "priority": priority}
            users_last, served = self._tx.execute(PLACE, values).one()
            last = max(users_last or 0, (served or 1) - 1)
        self._last[place] = last + 1
        return last + 1


def promote(tx: Connection, now: datetime, limit: int) -> frozenset[str]:
    """Give a turn to at most *limit* jobs that have become due; which these were."""
    due = tx.execute(_DUE, {"now": now, "limit": limit}).all()
    if due:
        turns = Turns(tx)
        tx.execute(_PROMOTE, [{"job_id": row[0], "new_turn": turns.next(*row[1:])} for row in due])
    return frozenset(row[0] for row in due)


def heads(
    tx: Connection, types: Sequence[str], now: datetime, limit: int, above: int | None
) -> list[Candidate]:
    """The first *limit* jobs of the line of each of *types*, on PostgreSQL. Nothing is locked: others may be
    taking them.
    """
    lowest = LOWEST_PRIORITY if above is None else above
    values = {"types": list(types), "now": now, "limit": limit, "above": lowest}
    return [Candidate(*row) for row in tx.execute(_HEADS, values)]


def head(tx: Connection, type_name: str, now: datetime, limit: int, above: int | None) -> list[Candidate]:
    """The first *limit* ready jobs of a type in the order of their turns, of priority *above* or more.

    They are locked; those that somebody else has locked are passed over.
    """
    values = {"type": type_name, "now": now, "limit": limit}
    if above is None:
        return [Candidate(*row) for row in tx.execute(_HEAD, values).all()]
    return [Candidate(*row) for row in tx.execute(_ABOVE, values | {"above": above}).all()]


def heads_of_users(
    tx: Connection, type_name: str, now: datetime, users: Iterable[str], limit: int, above: int | None
) -> list[Candidate]:
    """The first *limit* ready jobs of each of *users*, of priority *above* or more."""
    lowest = LOWEST_PRIORITY if above is None else above
    values = {"type": type_name, "now": now, "limit": limit, "above": lowest}
    if is_postgresql(tx):
        return [Candidate(*row) for row in tx.execute(_HEADS_OF_USERS, values | {"users": list(users)})]
    found: list[Candidate] = []
    for user in users:  # SQLite knows no LATERAL, and has no server to save a way to
        found += [Candidate(*row) for row in tx.execute(_HEAD_OF_USER, values | {"user": user})]
    return found


def ready_types(tx: Connection) -> frozenset[str]:
    """The types with a ready job: one probe a type, by a loose index scan, however many jobs each has."""
    return frozenset(tx.execute(_READY_TYPES).scalars())


def waiting_users(tx: Connection, type_name: str, after: str | None, limit: int) -> list[str]:
    """The next *limit* users, in text order after *after*, that have a ready job of the type.

    None begins before all of them, with those who named no user.
    """
    values = {"type": type_name, "limit": limit}
    if after is None:
        return list(tx.execute(_USERS, values).scalars())
    return list(tx.execute(_USERS_AFTER, values | {"after": after}).scalars())


def running(tx: Connection, *, parked: bool = True) -> list[Running]:
    """What runs now, by type, user and provider; an expired lease counts until it is found lost.

    Without *parked*, what providers do in the background is left out.
    """
    return [Running(*row) for row in tx.execute(_RUNNING if parked else _RUNNING_HERE)]


def in_flight(tx: Connection) -> dict[str, int]:
    """How many calls to each provider are under way; what it does in the background is not among them."""
    rows: Any = tx.execute(_IN_FLIGHT)
    return dict(rows.all())


def parked_due(tx: Connection, now: datetime, types: Sequence[str], limit: int) -> list[Job]:
    """Jobs that a provider works on and whose next poll is due, the longest overdue first; locked."""
    values = {"now": now, "types": list(types), "limit": limit}
    return [job_from(row) for row in tx.execute(_PARKED, values)]


def expired(
    tx: Connection, now: datetime, limit: int, *, lock: bool, types: Sequence[str] | None = None
) -> list[Job]:
    """Jobs (of *types* only) whose lease ran out with nothing to poll: their worker crashed, hung or lost
    the store.
    """
    return _repairable(tx, _EXPIRED, now, limit, lock=lock, types=types)


def overdue(
    tx: Connection, now: datetime, limit: int, *, lock: bool, types: Sequence[str] | None = None
) -> list[Job]:
    """Jobs (of *types* only) whose deadline passed while they waited."""
    return _repairable(tx, _OVERDUE, now, limit, lock=lock, types=types)


def _repairable(
    tx: Connection, query: Select[Any], now: datetime, limit: int, *, lock: bool, types: Sequence[str] | None
) -> list[Job]:
    values: dict[str, object] = {"now": now, "limit": limit}
    if types is not None:
        query, values = query.where(_OF_TYPES), values | {"types": list(types)}
    if lock:
        query = query.with_for_update(skip_locked=True)
    return [job_from(row) for row in tx.execute(query, values)]


def next_due(tx: Connection) -> datetime | None:
    """When the next delayed job or retry becomes due, of any type; None when none waits for its time."""
    value: Any = tx.execute(_NEXT_DUE).scalar()
    return value if isinstance(value, datetime) or value is None else datetime.fromisoformat(value)


def lock(tx: Connection) -> None:
    """Be the only one to claim until the transaction ends: two workers cannot both take the last slot.

    SQLite has one writer anyway: its transaction began with BEGIN IMMEDIATE. Steers as `steer` does, in the
    same round trip.
    """
    if is_postgresql(tx):
        tx.execute(_LOCK)


def steer(tx: Connection) -> None:
    """For the rest of the transaction, have PostgreSQL go by the indexes of the claim, whatever it knows of
    the tables. SQLite plans by the indexes alone as it is.
    """
    if is_postgresql(tx):
        tx.execute(_STEER)
