"""Jobs that stand in the way of others, put into a store by the database itself: a million in half a minute.

Each function adds one crowd: ended long ago, due later, in line, or in line behind the cap of their user.
"""

from datetime import datetime, timedelta

from sqlalchemy import bindparam, text

from aijobs.store.engine import Store, Tx
from aijobs.store.tables.columns import Instant

LONG = timedelta(days=7)
_NAMES = (
    'id, type, "user", status, attempts, max_attempts, next_run_at, turn, lock_token, locked_until,'
    " locked_by, claimed_at, provider, input_hash, created_at, updated_at, finished_at"
)
_NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count - 1)"
_ID = "'0-' || :name || CAST(1000000000000 + n AS TEXT)"
_NULL, _INT = "CAST(NULL AS {instant})", "CAST(NULL AS BIGINT)"
_TIMES = [bindparam(name, type_=Instant) for name in ("at", "until")]


def finished(tx: Tx, type_name: str, count: int, now: datetime) -> None:
    """*count* jobs of a thousand users that have succeeded a week ago, each with its attempt."""
    user = f"'old-' || CAST(n % {min(count, 1000)} AS TEXT)"
    values = f"'succeeded', 1, 5, {_NULL}, {_INT}, 1, {_NULL}, NULL, {_NULL}, 'p', 'x', :at, :at, :at"
    _add(tx, "done-", type_name, user, values, count, at=now - LONG)
    attempts = (
        f"{_NUMBERS} INSERT INTO executions (job_id, fence, round, attempt, outcome, started_at, finished_at)"
        f" SELECT {_ID}, 1, 1, 1, 'succeeded', :at, :at FROM numbers"
    )
    tx.execute(
        text(attempts).bindparams(_TIMES[0]),
        {"name": f"done-{type_name}-", "count": count, "at": now - LONG},
    )


def later(tx: Tx, type_name: str, count: int, now: datetime) -> None:
    """*count* jobs that are due next week."""
    values = f"'pending', 0, 5, :until, {_INT}, 0, {_NULL}, NULL, {_NULL}, NULL, 'x', :at, :at, {_NULL}"
    user = "'later-' || CAST(n % 1000 AS TEXT)"
    _add(tx, "later-", type_name, user, values, count, at=now, until=now + LONG)


def in_line(tx: Tx, type_name: str, count: int, now: datetime, *, users: int) -> None:
    """*count* jobs that have their turns, in the fair order of so many *users*."""
    values = f"'pending', 0, 5, :at, n / {users} + 1, 0, {_NULL}, NULL, {_NULL}, NULL, 'x', :at, :at, {_NULL}"
    _add(tx, "line-", type_name, _crowd(users), values, count, at=now - LONG)


def running(tx: Tx, type_name: str, count: int, now: datetime, *, users: int) -> None:
    """*count* jobs of so many *users* that run, and will for a week: they hold the slots of their users."""
    values = f"'processing', 1, 5, {_NULL}, {_INT}, 1, :until, 'w', :at, 'p', 'x', :at, :at, {_NULL}"
    _add(tx, "runs-", type_name, _crowd(users), values, count, at=now, until=now + LONG)


def settled(store: Store) -> None:
    """Let a server take its statistics, as its autovacuum will have. One in SQLite has none."""
    if store.dialect == "postgresql":
        with store.at_once() as tx:
            tx.execute(text("VACUUM ANALYZE"))


def _crowd(users: int) -> str:
    return f"'crowd-' || CAST(1000000 + n % {users} AS TEXT)"


def _add(tx: Tx, name: str, type_name: str, user: str, values: str, count: int, **times: datetime) -> None:
    instant = "TIMESTAMPTZ" if tx.dialect.name == "postgresql" else "TEXT"
    statement = (
        f"{_NUMBERS} INSERT INTO jobs ({_NAMES}) SELECT {_ID}, :type, {user}, {values} FROM numbers"
    ).format(instant=instant)
    used = [one for one in _TIMES if one.key in times]
    given = {"name": f"{name}{type_name}-", "type": type_name, "count": count}
    tx.execute(text(statement).bindparams(*used), given | times)
