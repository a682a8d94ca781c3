"""What the statements of the hot path read beside crowds of other jobs: an index, and only its beginning.

Every statement is caught while the real work runs and explained as it stands, so a new one is looked at too.
On PostgreSQL the plan tells how many rows it came to; for SQLite it is told from the steps of its machine.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from aijobs.core.clock import seeded_chance
from aijobs.core.model import Status
from aijobs.core.switches import Switch, SwitchKind
from aijobs.services.coordinator import ClaimRequest, Coordinator
from aijobs.services.coordinator.cancelling import Cancellation
from aijobs.store import claims, jobs, line, retention, switches
from aijobs.store.engine import Store, Tx, open_store
from tests.support import backlogs
from tests.support.clock import START, ManualClock
from tests.support.jobs import new_job, settings_of, succeed
from tests.support.postgres import Server

CROWD = 12_000
USERS = 1_200
"""Of the crowded type; each is at its cap of one."""

MOST = 4_000
"""Rows of `jobs` that one statement may look at: the users of a walk, the jobs that run, a batch."""

A_ROW = 12
"""Steps of SQLite's machine that reading a row takes at least: it does not count rows."""

WHOLE = {"ix_jobs_running"}
"""Indexes that may be read from end to end: what runs is bounded by what workers can carry."""

_seeds = itertools.count()
SETTINGS = settings_of(
    types={
        "t": {"provider": "p"},
        "paused": {"provider": "p"},
        "greedy": {"provider": "p", "per_user": 5},
        "crowded": {"provider": "p", "per_user": 1},
    },
    concurrency={"global": 50_000, "per_user": 10_000},
)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def crowded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store in which the jobs that may run stand behind crowds of every kind that may not."""
    if request.param == "sqlite":
        with closing(_filled(f"sqlite:///{_file(tmp_path_factory)}")) as store:
            yield store
        return
    server: Server = request.getfixturevalue("postgres_server")
    with server.new_schema() as url, closing(_filled(url)) as store:
        yield store


def _file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans") / "jobs.db"


def _filled(url: str) -> Store:
    store = open_store(url, clock=ManualClock(), create=True)
    coordinator = _coordinator(store)
    with store.write() as tx:
        backlogs.finished(tx, "t", CROWD, START)
        backlogs.later(tx, "t", CROWD, START)
        backlogs.in_line(tx, "paused", CROWD, START, users=10)
        backlogs.in_line(tx, "greedy", CROWD, START, users=1)
        backlogs.running(tx, "greedy", 5, START, users=1)
        backlogs.in_line(tx, "crowded", CROWD, START, users=USERS)
        backlogs.running(tx, "crowded", USERS, START, users=USERS)
        switches.throw(tx, _pause("paused"))
    for kind in ("t", "greedy", "crowded"):
        coordinator.enqueue_many([new_job(type=kind, user=f"user-{n}") for n in range(150)], actor="test")
    soon = [
        new_job(run_at=START + timedelta(seconds=1), deadline=START + timedelta(seconds=60))
        for _ in range(50)
    ]
    coordinator.enqueue_many(soon, actor="test")
    backlogs.settled(store)
    return store


def _pause(scope: str) -> Switch:
    return Switch(kind=SwitchKind.PAUSE, scope=scope, value="on", actor="test", reason="a test", set_at=START)


def _coordinator(store: Store) -> Coordinator:
    return Coordinator(store, SETTINGS, chance=seeded_chance(next(_seeds)))


@dataclass(frozen=True, slots=True)
class Plan:
    """How a statement is carried out: does it go over all jobs, and how many of them it looks at."""

    statement: str
    reads_all_jobs: bool
    rows: int = 0


@contextmanager
def _explained(store: Store) -> Iterator[list[Plan]]:
    """The plans of the statements about jobs that are carried out meanwhile, each explained just before."""
    plans: list[Plan] = []
    explain = _by_sqlite if store.dialect == "sqlite" else _by_postgresql

    def note(tx: Connection, _: object, statement: str, values: Any, __: object, many: bool) -> None:
        if re.search(r"\bjobs\b", statement) and not statement.startswith("INSERT"):
            cursor = tx.connection.driver_connection.cursor()
            plans.append(explain(cursor, statement, values[0] if many else values))
            cursor.close()

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield plans
    finally:
        event.remove(store.engine, "before_cursor_execute", note)


def _by_sqlite(cursor: Any, statement: str, values: Any) -> Plan:
    steps = [row[3] for row in cursor.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()]
    scans = {step.rpartition(" ")[2] for step in steps if step.startswith("SCAN jobs")}
    page = {"sqlite_autoindex_jobs_1"} if "LIMIT" in statement and "WHERE" not in statement else set()
    reads = statement.startswith(("SELECT", "WITH"))  # what is written goes by ids, which the plan tells
    rows = _instructions(cursor, statement, values) // A_ROW if reads else 0
    return Plan(statement, not scans <= WHOLE | page, rows)


def _instructions(cursor: Any, statement: str, values: Any) -> int:
    """How many steps SQLite's machine takes for it, in hundreds."""
    ticks = itertools.count()
    cursor.execute("SAVEPOINT explained")
    cursor.connection.set_progress_handler(lambda: next(ticks) < 0, 100)
    cursor.execute(statement, values).fetchall()
    cursor.connection.set_progress_handler(None, 100)
    cursor.execute("ROLLBACK TO explained")
    return next(ticks) * 100


def _by_postgresql(cursor: Any, statement: str, values: Any) -> Plan:
    cursor.execute("SAVEPOINT explained")
    (top,) = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values).fetchone()[0]
    cursor.execute("ROLLBACK TO explained")
    nodes = [node for node in _nodes(top["Plan"]) if node.get("Relation Name") == "jobs"]
    scans = [node for node in nodes if node["Node Type"].endswith("Scan")]
    rows = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans
    )
    return Plan(statement, any(node["Node Type"] == "Seq Scan" for node in scans), round(rows))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


@contextmanager
def _undone(store: Store) -> Iterator[None]:
    """Take back what the block writes: its transactions are savepoints of one that never commits."""
    with store.engine.connect() as tx, tx.begin() as whole, pytest.MonkeyPatch.context() as patch:

        @contextmanager
        def inside() -> Iterator[Tx]:
            with tx.begin_nested():
                yield tx

        for door in ("write", "write_unbounded", "read", "at_once"):
            patch.setattr(store, door, inside)
        yield
        whole.rollback()
    store.clock.set(START)


def _claim(store: Store) -> None:
    store.clock.set(START + timedelta(seconds=2))  # jobs have become due, and are promoted
    assert len(_coordinator(store).claim(_request(slots=200))) == 200


def _claim_one(store: Store) -> None:
    assert len(_coordinator(store).claim(_request(slots=1))) == 1


def _claim_beside_others(store: Store) -> None:
    """Without limits, several lines."""
    settings = settings_of(types={name: {"provider": "p"} for name in ("t", "greedy", "crowded", "none")})
    coordinator = Coordinator(store, settings, chance=seeded_chance(next(_seeds)))
    assert len(coordinator.claim(_request(slots=20))) == 20


def _claim_behind_a_crowd(store: Store) -> None:
    """The walk goes past the whole crowd to those behind it."""
    assert len(_coordinator(store).claim(_request(slots=100, types=("crowded",)))) == 100


def _request(**given: Any) -> ClaimRequest:
    return ClaimRequest(worker="w1", lease=timedelta(seconds=30), **given)


def _finish(store: Store) -> None:
    coordinator = _coordinator(store)
    (claim,) = coordinator.claim(_request(slots=1))
    succeed(coordinator, claim.job)


def _renew(store: Store) -> None:
    coordinator = _coordinator(store)
    leases = {claim.job.id: claim.job.lock_token for claim in coordinator.claim(_request(slots=50))}
    assert not coordinator.renew(leases, START + timedelta(seconds=90)).lost


def _rescue(store: Store) -> None:
    coordinator = _coordinator(store)
    coordinator.claim(_request(slots=20))
    store.clock.set(START + timedelta(hours=1))
    assert coordinator.rescue(limit=1000).repaired >= 20


def _expire(store: Store) -> None:
    store.clock.set(START + timedelta(hours=1))
    assert _coordinator(store).expire(limit=1000).repaired == 50


def _cancel(store: Store) -> None:
    """A user's jobs and what runs: looked for, and stopped."""
    whose = jobs.Filter(user="crowd-1000000", type="crowded")
    for wanted, least in ((whose, 10), (jobs.Filter(statuses=(Status.PROCESSING,)), USERS)):
        with store.read() as tx:
            found = [job.id for job in jobs.unfinished(tx, wanted)]
        cancellation = Cancellation(actor="test", reason="test", still=wanted.still)
        (*_, last) = _coordinator(store).cancel_many(found, cancellation)
        assert len(found) >= least
        assert last.cancelled or last.asked


def _prune(store: Store) -> None:
    with store.write() as tx:
        before = START - timedelta(days=1)
        found = retention.ended_jobs(tx, Status.SUCCEEDED, before, START, 500, since=None)
        assert retention.remove_jobs(tx, [row.id for row in found]) == 500


def _enqueue(store: Store) -> None:
    _coordinator(store).enqueue(new_job(type="greedy", user="crowd-1000000", key="k"), actor="test")
    _coordinator(store).enqueue(new_job(type="greedy", user="crowd-1000000", key="k"), actor="test")


def _read(look: Callable[[Tx], Any]) -> Callable[[Store], None]:
    def work(store: Store) -> None:
        with store.read() as tx:
            look(tx)

    return work


WORK: dict[str, Callable[[Store], None]] = {
    "claim": _claim,
    "claim of one": _claim_one,
    "claim beside others": _claim_beside_others,
    "claim behind a crowd": _claim_behind_a_crowd,
    "finish": _finish,
    "renew": _renew,
    "rescue": _rescue,
    "expire": _expire,
    "cancel": _cancel,
    "prune": _prune,
    "enqueue": _enqueue,
    "next start": lambda store: _coordinator(store).next_start(store.clock.now()) and None,
    "length of the line": _read(lambda tx: line.length(tx, "greedy", None, 500)),
    "length of a user's line": _read(lambda tx: line.length(tx, "greedy", "crowd-1000000", 500)),
    "newest jobs": _read(lambda tx: jobs.page(tx, jobs.Filter(), 50)),
    "a later page": _read(lambda tx: jobs.page(tx, jobs.Filter(), 50, after="0-m")),
    "newest of a status": _read(lambda tx: jobs.page(tx, jobs.Filter(statuses=(Status.SUCCEEDED,)), 50)),
    "newest of a user": _read(lambda tx: jobs.page(tx, jobs.Filter(user="crowd-1000000"), 50)),
    "waiting users": _read(lambda tx: claims.waiting_users(tx, "crowded", None, 1000)),
}


@pytest.mark.parametrize("work", WORK)
def test_what_is_done_all_day_reads_a_bounded_part_of_the_jobs(crowded: Store, work: str) -> None:
    with _undone(crowded), _explained(crowded) as plans:
        WORK[work](crowded)

    assert plans
    assert [plan for plan in plans if plan.reads_all_jobs] == []
    assert [plan for plan in plans if plan.rows > MOST] == []


@pytest.mark.postgres
@pytest.mark.parametrize("work", ["claim of one", "claim beside others", "finish", "renew"])
def test_a_claim_and_an_end_read_little_of_a_table_that_was_filled_a_moment_ago(
    postgres_server: Server, work: str
) -> None:
    opened = partial(open_store, clock=ManualClock(), create=True)
    with postgres_server.new_schema() as url, closing(opened(url)) as store:
        with store.write() as tx:
            backlogs.in_line(tx, "t", CROWD, START, users=10)
            backlogs.running(tx, "greedy", CROWD, START, users=10)

        with _explained(store) as plans:
            WORK[work](store)

    few = [plan for plan in plans if "count(*)" not in plan.statement]  # what runs is counted, all of it
    assert [plan for plan in plans if plan.reads_all_jobs] == []
    assert [plan for plan in few if plan.rows > 100] == []
