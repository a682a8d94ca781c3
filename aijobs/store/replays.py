"""Stored replay plans: what each would replay, how far it has come, and who is carrying it out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, insert, or_, select, update

from aijobs.store.tables import executions, job_inputs, jobs, replay_items, replays

_r, _i = replays.c, replay_items.c
_CHUNK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A plan and its progress; field order is column order. *owner_token* fences whoever carries it out."""

    id: str
    state: str
    actor: str
    reason: str | None
    filters: str
    options: str | None
    checks: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    owner: str | None
    owner_until: datetime | None
    owner_token: int
    stopped_because: str | None
    finished_at: datetime | None
    leg_from: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One dead letter of a plan: *round* is the one that died, which the compare-and-set names."""

    job_id: str
    position: int
    round: int
    type: str
    error_class: str
    state: str
    reason: str | None = None
    batch: int | None = None
    replayed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many items are in each state, and when the last batch began.

    A *leg* is what was done since the replay was last resumed after it had stopped by itself: what went wrong
    before the repair does not count against what comes after it.
    """

    planned: int = 0
    skipped: int = 0
    replayed: int = 0
    succeeded: int = 0
    failed: int = 0
    batches: int = 0
    last_batch_at: datetime | None = None
    last_batch_size: int = 0
    leg_batches: int = 0
    leg_succeeded: int = 0
    leg_failed: int = 0


_REPLAY_NAMES = tuple(field.name for field in fields(Replay))
_ITEM_NAMES = tuple(field.name for field in fields(Item))
_GET = select(*(_r[name] for name in _REPLAY_NAMES)).where(_r.id == bindparam("of_replay"))
_LIST = select(*(_r[name] for name in _REPLAY_NAMES)).order_by(_r.id.desc()).limit(bindparam("limit"))
_DONE_BATCHES = select(func.coalesce(func.max(_i.batch), 0)).where(_i.replay_id == _r.id).scalar_subquery()
_TAKE = (
    update(replays)
    .where(
        _r.id == bindparam("of_replay"),
        or_(
            _r.state.in_(("planned", "interrupted", "stopped")),
            and_(_r.state == "running", _r.owner_until <= bindparam("now")),
        ),
    )
    .values(
        state="running", owner=bindparam("new_owner"), owner_until=bindparam("until"),
        owner_token=_r.owner_token + 1, stopped_because=None, updated_at=bindparam("now"),
        leg_from=case((_r.state == "stopped", _DONE_BATCHES), else_=_r.leg_from),
    )
)  # fmt: skip
_HELD = (_r.id == bindparam("of_replay"), _r.state == "running", _r.owner_token == bindparam("token"))
_KEEP = update(replays).where(*_HELD).values(owner_until=bindparam("until"), updated_at=bindparam("now"))
_END = (
    update(replays)
    .where(*_HELD)
    .values(
        state=bindparam("new_state"), stopped_because=bindparam("because"), owner=None, owner_until=None,
        finished_at=bindparam("finished"), updated_at=bindparam("now"),
    )
)  # fmt: skip
_AMEND = (
    update(replays)
    .where(*_HELD)
    .values(options=bindparam("new_options"), reason=func.coalesce(bindparam("new_reason"), _r.reason))
)
_ABORT = (
    update(replays)
    .where(_r.id == bindparam("of_replay"), _r.state.in_(("planned", "running", "interrupted", "stopped")))
    .values(
        state="aborted", owner=None, owner_until=None, owner_token=_r.owner_token + 1,
        stopped_because=bindparam("because"), finished_at=bindparam("now"), updated_at=bindparam("now"),
    )
)  # fmt: skip
_OF_REPLAY = _i.replay_id == bindparam("of_replay")
_NEXT = (
    select(*(_i[name] for name in _ITEM_NAMES))
    .where(_OF_REPLAY, _i.state == "planned")
    .order_by(_i.position)
    .limit(bindparam("limit"))
    .with_for_update()
)
_ITEMS = select(*(_i[name] for name in _ITEM_NAMES)).where(_OF_REPLAY).order_by(_i.position)
_KINDS = select(_i.type, _i.error_class).where(_OF_REPLAY, _i.state == "planned").distinct()
_MARK = (
    update(replay_items)
    .where(_OF_REPLAY, _i.job_id == bindparam("of_job"), _i.state == bindparam("from_state"))
    .values(
        state=bindparam("new_state"), reason=bindparam("new_reason"), batch=bindparam("new_batch"),
        replayed_at=bindparam("new_replayed_at"),
    )
)  # fmt: skip
_SETTLED = (
    select(
        *(_i[name] for name in _ITEM_NAMES),
        case((jobs.c.round > _i.round + 1, "replayed again"), else_=jobs.c.status),
        jobs.c.last_error_class,
    )
    .join(jobs, jobs.c.id == _i.job_id)
    .where(
        _OF_REPLAY,
        _i.state == "replayed",
        or_(jobs.c.finished_at.is_not(None), jobs.c.round > _i.round + 1),
    )
    .order_by(_i.position)
)
_COUNTS = select(_i.state, func.count()).where(_OF_REPLAY).group_by(_i.state)
_LEG_COUNTS = (
    select(_i.state, func.count()).where(_OF_REPLAY, _i.batch > bindparam("leg_from")).group_by(_i.state)
)
_LEG_FROM = select(_r.leg_from).where(_r.id == bindparam("of_replay"))
_BATCHES = select(func.max(_i.batch)).where(_OF_REPLAY)
_LAST_BATCH = select(func.min(_i.replayed_at), func.count()).where(
    _OF_REPLAY, _i.batch == bindparam("batch_number")
)
_LAST_CODE = (
    select(executions.c.code_version)
    .where(executions.c.job_id == jobs.c.id, executions.c.shadow.is_(False))
    .order_by(executions.c.fence.desc())
    .limit(1)
    .scalar_subquery()
)
_CODES = (
    select(jobs.c.id, _LAST_CODE, job_inputs.c.job_id.is_not(None))
    .outerjoin(job_inputs, job_inputs.c.job_id == jobs.c.id)
    .where(jobs.c.id.in_(bindparam("job_ids", expanding=True)))
)


def create(tx: Connection, replay: Replay, items: Sequence[Item]) -> None:
    """Store a plan."""
    tx.execute(insert(replays), {name: getattr(replay, name) for name in _REPLAY_NAMES})
    for start in range(0, len(items), _CHUNK):
        rows = [
            {"replay_id": replay.id, **{name: getattr(item, name) for name in _ITEM_NAMES}}
            for item in items[start : start + _CHUNK]
        ]
        tx.execute(insert(replay_items), rows)


def get(tx: Connection, replay_id: str) -> Replay | None:
    """The plan of that id, or None."""
    row = tx.execute(_GET, {"of_replay": replay_id}).first()
    return Replay(**dict(zip(_REPLAY_NAMES, row, strict=True))) if row else None


def newest(tx: Connection, limit: int) -> list[Replay]:
    """The newest plans, newest first."""
    rows: Any = tx.execute(_LIST, {"limit": limit})
    return [Replay(**dict(zip(_REPLAY_NAMES, row, strict=True))) for row in rows]


def take(tx: Connection, replay_id: str, owner: str, now: datetime, until: datetime) -> bool:
    """Become the one that carries it out; False when it has ended or somebody else does."""
    values = {"of_replay": replay_id, "new_owner": owner, "now": now, "until": until}
    return tx.execute(_TAKE, values).rowcount == 1


def ownerless(tx: Connection, now: datetime, limit: int) -> list[str]:
    """Replays that are said to run and whose owner has been silent for longer than its lease."""
    query = select(_r.id).where(_r.state == "running", _r.owner_until <= now).order_by(_r.id).limit(limit)
    return list(tx.execute(query).scalars())


def interrupt(tx: Connection, ids: Sequence[str], now: datetime) -> int:
    """Say of ownerless replays what they are: interrupted, to be resumed by a person."""
    gone = (_r.id.in_(ids), _r.state == "running", _r.owner_until <= now)
    values = {"state": "interrupted", "owner": None, "owner_until": None, "updated_at": now}
    return tx.execute(update(replays).where(*gone).values(values)).rowcount


def keep(tx: Connection, replay: Replay, now: datetime, until: datetime) -> bool:
    """Go on being the one; False when it was aborted or taken over."""
    values = {"of_replay": replay.id, "token": replay.owner_token, "now": now, "until": until}
    return tx.execute(_KEEP, values).rowcount == 1


def amend(tx: Connection, replay: Replay, options: str, reason: str | None) -> bool:
    """Go on by other options, and for *reason* if one is given; False when it was aborted or taken over."""
    values = {
        "of_replay": replay.id, "token": replay.owner_token, "new_options": options, "new_reason": reason,
    }  # fmt: skip
    return tx.execute(_AMEND, values).rowcount == 1


def end(tx: Connection, replay: Replay, state: str, because: str | None, now: datetime) -> bool:
    """Stop carrying it out; False when it was aborted or taken over."""
    finished = now if state in ("done", "aborted") else None
    values = {
        "of_replay": replay.id, "token": replay.owner_token, "new_state": state, "because": because,
        "finished": finished, "now": now,
    }  # fmt: skip
    return tx.execute(_END, values).rowcount == 1


def abort(tx: Connection, replay_id: str, because: str, now: datetime) -> bool:
    """End it for good, whoever carries it out; False when it has ended already."""
    return tx.execute(_ABORT, {"of_replay": replay_id, "because": because, "now": now}).rowcount == 1


def next_items(tx: Connection, replay_id: str, limit: int) -> list[Item]:
    """The next items to replay, locked."""
    return [_item(row) for row in tx.execute(_NEXT, {"of_replay": replay_id, "limit": limit})]


def items(tx: Connection, replay_id: str) -> list[Item]:
    """Every item, in the order of the plan."""
    return [_item(row) for row in tx.execute(_ITEMS, {"of_replay": replay_id})]


def kinds(tx: Connection, replay_id: str) -> set[tuple[str, str]]:
    """The (type, error class) of what is still to be replayed."""
    return {(type_name, error) for type_name, error in tx.execute(_KINDS, {"of_replay": replay_id})}


def mark(
    tx: Connection, replay_id: str, item: Item, state: str, *, reason: str | None, batch: int | None,
    replayed_at: datetime | None,
) -> bool:  # fmt: skip
    """Move one item on; False when it was no longer in the state it was read in."""
    values = {
        "of_replay": replay_id, "of_job": item.job_id, "from_state": item.state, "new_state": state,
        "new_reason": reason, "new_batch": batch, "new_replayed_at": replayed_at,
    }  # fmt: skip
    return tx.execute(_MARK, values).rowcount == 1


def settled(tx: Connection, replay_id: str) -> list[tuple[Item, str, str | None]]:
    """Replayed items whose jobs have ended again, each with the job's status and error class."""
    rows: Any = tx.execute(_SETTLED, {"of_replay": replay_id})
    return [(_item(row[:-2]), row[-2], row[-1]) for row in rows]


def progress(tx: Connection, replay_id: str) -> Progress:
    """How far it has come."""
    given = {"of_replay": replay_id}
    states: dict[str, Any] = dict(tx.execute(_COUNTS, given).all())
    last = tx.execute(_BATCHES, given).scalar()
    if last is None:
        return Progress(**states)
    began, size = tx.execute(_LAST_BATCH, given | {"batch_number": last}).one()
    leg_from = tx.execute(_LEG_FROM, given).scalar_one()
    leg: dict[str, int] = dict(tx.execute(_LEG_COUNTS, given | {"leg_from": leg_from}).all())
    return Progress(
        **states,
        batches=last,
        last_batch_at=began,
        last_batch_size=size,
        leg_batches=last - leg_from,
        leg_succeeded=leg.get("succeeded", 0),
        leg_failed=leg.get("failed", 0),
    )


def facts_of(tx: Connection, job_ids: Sequence[str]) -> dict[str, tuple[str | None, bool]]:
    """For each job: the code version of its last attempt, and whether its input is still kept."""
    rows: Any = tx.execute(_CODES, {"job_ids": list(job_ids)})
    return {job_id: (code, bool(there)) for job_id, code, there in rows}


def to_json(value: Mapping[str, object] | Sequence[object]) -> str:
    """A plan's filters, options or checks as they are kept."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _item(row: Any) -> Item:
    return Item(**dict(zip(_ITEM_NAMES, row, strict=True)))
