"""Growth: whether a drain of 5,000 jobs cares what else is in the store.

`python -m tests.benchmarks.growth [--json] [--scale F] [--rounds N] [--database NAME] [--case NAME...]` fills
one store with a crowd (a million jobs that have ended, a million due next week, 300,000 of a paused type,
300,000 of one user at its cap, 30 each of 10,000 users at a cap of one) and leaves one empty, and drains both
in turns, with the same settings. *F* makes the crowds smaller. Jobs a second, medians of the rounds.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

from sqlalchemy import func, select

from aijobs.core.clock import SystemClock, system_chance
from aijobs.core.settings import Settings
from aijobs.core.switches import Switch, SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.store import switches
from aijobs.store.engine import Tx, open_store
from aijobs.store.tables import executions, jobs
from tests.benchmarks.drain import PROVIDERS
from tests.benchmarks.places import fresh
from tests.benchmarks.report import Row, as_json, in_turns, table
from tests.support import backlogs
from tests.support.jobs import new_job

MILLION, MANY, USERS = 1_000_000, 300_000, 10_000
CONCURRENCY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One crowd: how it is made of *size* jobs, the caps beside it, and the share of the speed to be kept."""

    what: str
    fill: Callable[[Tx, int, datetime], None]
    size: int
    bar: float = 0.8
    limits: Mapping[str, int] = field(default_factory=dict)


def _paused(tx: Tx, count: int, now: datetime) -> None:
    backlogs.in_line(tx, "paused", count, now, users=1000)
    pause = Switch(kind=SwitchKind.PAUSE, scope="paused", value="on", actor="me", reason="test", set_at=now)
    switches.throw(tx, pause)


def _greedy(tx: Tx, count: int, now: datetime) -> None:
    backlogs.in_line(tx, "noop", count, now, users=1)
    backlogs.running(tx, "noop", 5, now, users=1)


def _capped(tx: Tx, count: int, now: datetime) -> None:
    users = max(count // 30, 1)
    backlogs.in_line(tx, "noop", count, now, users=users)
    backlogs.running(tx, "noop", users, now, users=users)


CASES: Mapping[str, Case] = {
    "finished": Case(
        what="have ended", size=MILLION, fill=lambda tx, n, now: backlogs.finished(tx, "noop", n, now)
    ),
    "later": Case(
        what="due next week", size=MILLION, fill=lambda tx, n, now: backlogs.later(tx, "noop", n, now)
    ),
    "paused": Case(what="of a paused type", size=MANY, fill=_paused),
    "greedy": Case(what="of one user at its cap", size=MANY, fill=_greedy, limits={"per_user": 5}),
    "capped": Case(
        what="of users at a cap of 1, 30 each", size=MANY, fill=_capped, limits={"per_user": 1}, bar=0.3
    ),
}


def settings_of(case: Case) -> Settings:
    """The same for the full and for the empty store."""
    return Settings.model_validate(
        {
            "types": {"noop": {"provider": "noop"}, "paused": {"provider": "noop"}},
            "providers": {"noop": PROVIDERS["noop"]},
            "concurrency": {"global": 100_000, "per_user": 50_000} | case.limits,
        }
    )


def work(url: str, name: str, count: int, profile: str | None, said: Connection) -> None:
    """A worker that ends after *count* jobs."""
    from aijobs.providers.registry import Providers
    from aijobs.services.worker import Worker, WorkerOptions
    from tests.benchmarks.drain import profiled

    settings, chance, store = settings_of(CASES[name]), system_chance(), open_store(url)
    coordinator = Coordinator(store, settings, chance=chance)
    providers = Providers(settings, clock=SystemClock())
    options = WorkerOptions(concurrency=CONCURRENCY, max_jobs=count, lease=timedelta(seconds=30))
    with profiled(profile):
        report = Worker(store, coordinator, settings, providers, options=options, chance=chance).run()
    said.send(report.succeeded)


def drain(url: str, name: str, count: int, profile: str | None = None) -> float:
    """Jobs a second of *count* new jobs, each of a user of its own, who is at no cap."""
    store = open_store(url, create=True)
    coordinator = Coordinator(store, settings_of(CASES[name]), chance=system_chance())
    for start in range(0, count, 1000):
        new = [new_job(type="noop", user=f"user-{n}") for n in range(start, min(start + 1000, count))]
        coordinator.enqueue_many(new, actor="benchmark")
    began = store.clock.now()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(url, name, count, profile, theirs)
    )
    process.start()
    succeeded = ours.recv()
    process.join()
    assert succeeded == count, succeeded
    with store.read() as tx:
        starts, ends = executions.c.started_at, jobs.c.finished_at
        first: Any = tx.execute(select(func.min(starts)).where(starts >= began)).scalar_one()
        last: Any = tx.execute(select(func.max(ends)).where(ends >= began)).scalar_one()
    store.close()
    return count / (_instant(last) - _instant(first)).total_seconds()


def _instant(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def measure(
    database: str, name: str, *, jobs: int, rounds: int, scale: float, profile: str | None = None
) -> Row:
    """One crowd, beside an empty store."""
    case = CASES[name]
    size = round(case.size * scale)
    with ExitStack() as stack:
        full, empty = stack.enter_context(fresh(database)), stack.enter_context(fresh(database))
        store, began = open_store(full, create=True), time.perf_counter()
        with store.write() as tx:
            case.fill(tx, size, store.clock.now())
        backlogs.settled(store)
        store.close()
        print(f"  {database}, {name}: {size} in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        found = in_turns(
            rounds,
            {
                "beside them": lambda: drain(full, name, jobs, profile),
                "empty": lambda: drain(empty, name, jobs),
            },
        )
    return Row(
        bar="P5", what=f"drain beside {size:,} {case.what}", database=database, ours=found["beside them"],
        beside="an empty store", theirs=found["empty"], at_least=case.bar,
    )  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--profile", help="write a cProfile of the worker beside the crowd here")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [
        measure(
            database, name, jobs=asked.jobs, rounds=asked.rounds, scale=asked.scale, profile=asked.profile
        )
        for database in asked.database
        for name in asked.case
    ]
    print(json.dumps(as_json(rows)) if asked.json else table(rows))


if __name__ == "__main__":
    main()
