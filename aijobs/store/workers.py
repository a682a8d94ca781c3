"""The register of workers: who runs where, and when each was last heard of.

It is for people and alerts. Whether a worker still owns a job is decided by the job's lease and nothing here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Connection, bindparam, delete, select, update

from aijobs.store.dialect import PerDialect
from aijobs.store.tables import workers


class WorkerState(StrEnum):
    """What a worker last said of itself."""

    RUNNING = "running"
    STOPPING = "stopping"  # finishes what it has, claims nothing new
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """One worker. *types* None means that it takes every type, whichever there are."""

    name: str
    host: str
    pid: int
    version: str
    concurrency: int
    types: tuple[str, ...] | None
    state: WorkerState
    started_at: datetime
    heartbeat_at: datetime


_c = workers.c
_FIELDS = ("host", "pid", "version", "concurrency", "types", "state", "started_at", "heartbeat_at")
_REGISTER = PerDialect(
    lambda dialect: (new := dialect.insert(workers)).on_conflict_do_update(
        index_elements=[_c.name], set_={field: new.excluded[field] for field in _FIELDS}
    )
)
_MINE = _c.name == bindparam("worker")
_BEAT = update(workers).where(_MINE, _c.state != WorkerState.STOPPED).values(heartbeat_at=bindparam("now"))
_SET_STATE = update(workers).where(_MINE).values(state=bindparam("to"), heartbeat_at=bindparam("now"))
_CONFIGURE = update(workers).where(_MINE).values(concurrency=bindparam("calls"), types=bindparam("taken"))
_LIST = select(workers).order_by(_c.started_at, _c.name)
_FORGET = delete(workers).where(_c.heartbeat_at < bindparam("before"))


def register(
    tx: Connection,
    *,
    name: str,
    host: str,
    pid: int,
    version: str,
    concurrency: int,
    types: Sequence[str] | None,
    now: datetime,
) -> None:
    """Note that worker *name* runs from *now* on; a worker that had the name before is replaced."""
    row = {
        "name": name, "host": host, "pid": pid, "version": version, "concurrency": concurrency,
        "types": _types(types), "state": WorkerState.RUNNING, "started_at": now,
        "heartbeat_at": now,
    }  # fmt: skip
    tx.execute(_REGISTER[tx.dialect.name], row)


def configure(tx: Connection, name: str, *, concurrency: int, types: Sequence[str] | None) -> bool:
    """Note what the worker goes on with; False when it is not in the register."""
    values = {"worker": name, "calls": concurrency, "taken": _types(types)}
    return tx.execute(_CONFIGURE, values).rowcount == 1


def heartbeat(tx: Connection, name: str, *, now: datetime) -> bool:
    """Note that the worker is alive; False when it is not in the register, or has stopped."""
    return tx.execute(_BEAT, {"worker": name, "now": now}).rowcount == 1


def set_state(tx: Connection, name: str, state: str, *, now: datetime) -> bool:
    """Note what the worker is about to do (a `WorkerState`); False when it is not in the register."""
    return tx.execute(_SET_STATE, {"worker": name, "to": WorkerState(state), "now": now}).rowcount == 1


def listed(tx: Connection) -> list[WorkerRecord]:
    """Every worker in the register, the one that runs longest first."""
    return [_record(row._asdict()) for row in tx.execute(_LIST)]


def forget(tx: Connection, *, before: datetime) -> int:
    """Remove the workers last heard of before *before*, and tell how many they were."""
    return tx.execute(_FORGET, {"before": before}).rowcount


def _types(types: Sequence[str] | None) -> str | None:
    return None if types is None else json.dumps(list(types), ensure_ascii=False)


def _record(row: dict[str, object]) -> WorkerRecord:
    types = row["types"]
    row["types"] = None if types is None else tuple(json.loads(str(types)))
    row["state"] = WorkerState(str(row["state"]))
    return WorkerRecord(**row)  # type: ignore[arg-type]  # the columns are the fields
