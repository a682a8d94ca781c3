"""What is stored of the schedules: one row a name, moved only from the state it was read in."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, case, select, update

from aijobs.core.ticking import State
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import events, jobs, schedules

_RETIRED = "#"
"""Before the fingerprint of a schedule that is out of the file, as if the line were commented out."""

_s = schedules.c
_j = jobs.c
_e = events.c

_STATES = select(_s.name, _s.fingerprint, _s.first_seen_at, _s.last_window, _s.paused_until, _s.updated_at)
_LOCKED = _STATES.where(_s.name == bindparam("wanted")).with_for_update()
_RECORDS = select(_s.name, _s.last_window, _s.last_tick_at, _s.skipped, _s.paused_until)
_BEGIN = PerDialect(
    lambda dialect: (
        dialect.insert(schedules).on_conflict_do_nothing(index_elements=[_s.name]).returning(_s.name)
    )
)
_MOVE = (
    update(schedules)
    .where(
        _s.name == bindparam("wanted"),
        _s.fingerprint == bindparam("old_fingerprint"),
        _s.last_window.is_not_distinct_from(bindparam("old_window")),
    )
    .values(
        fingerprint=bindparam("new_fingerprint"),
        first_seen_at=bindparam("new_seen_at"),
        last_window=bindparam("new_window"),
        last_tick_at=bindparam("now"),
        skipped=_s.skipped + bindparam("more_skipped"),
        updated_at=bindparam("now"),
    )
)
_RETIRE = (
    update(schedules)
    .where(_s.name == bindparam("wanted"), _s.fingerprint == bindparam("old_fingerprint"))
    .values(fingerprint=_RETIRED + _s.fingerprint, updated_at=bindparam("now"))
)
_PAUSE = (
    update(schedules)
    .where(_s.name == bindparam("wanted"))
    .values(
        paused_until=bindparam("until"),
        updated_at=case(  # of one that is out of the file it says since when
            (_s.fingerprint.startswith(_RETIRED), _s.updated_at),
            else_=bindparam("now", type_=_s.updated_at.type),
        ),
    )
)
_LAST_PAUSES = (
    select(_e.at, _e.actor, _e.reason, _e.detail)
    .where(_e.job_id.is_(None), _e.kind == "schedule_paused")
    .order_by(_e.at.desc(), _e.id.desc())
)
_LIVE = (
    select(_j.schedule)
    .where(_j.schedule.in_(bindparam("names", expanding=True)), _j.finished_at.is_(None))
    .distinct()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """For people: what became of a schedule so far. *skipped* only grows."""

    last_window: datetime | None
    last_tick_at: datetime | None
    skipped: int
    paused_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Who paused a schedule last, when and why."""

    at: datetime
    actor: str
    reason: str | None


def states(tx: Connection) -> dict[str, State]:
    """Every schedule that was ever seen, by name."""
    return {row.name: _state(row) for row in tx.execute(_STATES)}


def records(tx: Connection) -> dict[str, Record]:
    """The same, as people want to see it."""
    return {
        row.name: Record(
            last_window=row.last_window,
            last_tick_at=row.last_tick_at,
            skipped=row.skipped,
            paused_until=row.paused_until,
        )
        for row in tx.execute(_RECORDS)
    }


def locked(tx: Connection, name: str) -> State | None:
    """The state of one schedule, which nobody else moves until the transaction ends."""
    row = tx.execute(_LOCKED, {"wanted": name}).one_or_none()
    return None if row is None else _state(row)


def begin(tx: Connection, name: str, state: State, now: datetime, *, skipped: int = 0) -> bool:
    """Store a schedule for the first time. False: another tick was first, and has committed."""
    values = {
        "name": name,
        "fingerprint": state.fingerprint,
        "first_seen_at": state.seen_at,
        "last_window": state.last_window,
        "last_tick_at": now,
        "paused_until": state.paused_until,
        "skipped": skipped,
        "updated_at": now,
    }
    return tx.execute(_BEGIN[tx.dialect.name], values).scalar_one_or_none() is not None


def move(tx: Connection, name: str, state: State, becomes: State, now: datetime, *, skipped: int = 0) -> bool:
    """Replace *state* by *becomes*. False: it is no longer *state*, and nothing was changed."""
    values = {
        "wanted": name,
        "old_fingerprint": _stored(state),
        "old_window": state.last_window,
        "new_fingerprint": becomes.fingerprint,
        "new_seen_at": becomes.seen_at,
        "new_window": becomes.last_window,
        "more_skipped": skipped,
        "now": now,
    }
    return tx.execute(_MOVE, values).rowcount == 1


def retire(tx: Connection, name: str, state: State, now: datetime) -> bool:
    """Note that a schedule is no longer configured. False: it changed in the meantime."""
    values = {"wanted": name, "old_fingerprint": _stored(state), "now": now}
    return tx.execute(_RETIRE, values).rowcount == 1


def pause(tx: Connection, name: str, until: datetime, now: datetime) -> bool:
    """Fire nothing until then; *now* as *until* ends a pause. False: no tick has seen the schedule yet."""
    return tx.execute(_PAUSE, {"wanted": name, "until": until, "now": now}).rowcount == 1


def last_pauses(tx: Connection, names: Collection[str]) -> dict[str, Pause]:
    """The last pause of each of *names* that is on record; what was long ago has been pruned."""
    found: dict[str, Pause] = {}
    for row in tx.execute(_LAST_PAUSES):
        name = json.loads(row.detail)["schedule"]
        if name in names:
            found.setdefault(name, Pause(at=row.at, actor=row.actor, reason=row.reason))
        if len(found) == len(names):
            break
    return found


def live(tx: Connection, names: Iterable[str]) -> frozenset[str]:
    """Those of *names* that have a job which has not ended; one that waits to be tried again has not."""
    return frozenset(tx.execute(_LIVE, {"names": list(names)}).scalars())


def _stored(state: State) -> str:
    return _RETIRED + state.fingerprint if state.retired_at else state.fingerprint


def _state(row: Any) -> State:
    retired = row.fingerprint.startswith(_RETIRED)
    return State(
        fingerprint=row.fingerprint.removeprefix(_RETIRED),
        seen_at=row.first_seen_at,
        last_window=row.last_window,
        paused_until=row.paused_until,
        retired_at=row.updated_at if retired else None,
    )
