"""How long calls took: what `timeout: auto` learns from."""

from sqlalchemy import Connection, bindparam, select

from aijobs.core.model import Outcome, Status
from aijobs.store.tables import executions, jobs

_LOOK_BACK = 5000
"""So many of the latest successes, of whatever type, are looked through: a rare type costs no scan."""

_latest = (
    select(jobs.c.id, jobs.c.type, jobs.c.lock_token, jobs.c.finished_at)
    .where(jobs.c.status == Status.SUCCEEDED.value)
    .order_by(jobs.c.finished_at.desc())
    .limit(_LOOK_BACK)
    .subquery()
)
_SECONDS = (
    select(executions.c.elapsed_seconds)
    .join(_latest, (executions.c.job_id == _latest.c.id) & (executions.c.fence == _latest.c.lock_token))
    .where(
        _latest.c.type == bindparam("type"),
        executions.c.outcome == Outcome.SUCCEEDED.value,
        executions.c.elapsed_seconds.is_not(None),
        executions.c.shadow.is_(False),
    )
    .order_by(_latest.c.finished_at.desc())
    .limit(bindparam("limit"))
)


def latest(tx: Connection, type_name: str, limit: int) -> list[float]:
    """Seconds of the latest successful calls of a type, the newest first."""
    return list(tx.execute(_SECONDS, {"type": type_name, "limit": limit}).scalars())
