"""Draining: how fast workers get through jobs that do nothing, and how many slow calls one worker carries.

`python -m tests.benchmarks.drain [--json]` enqueues 10,000 jobs of kind python that do nothing and drains
them with one worker, then with two, on SQLite and on a PostgreSQL of its own, both with their default
durability; then 1,000 calls of 2 s in one worker at a concurrency of 1,000. Each worker is a process of its
own; the time runs from the first claim to the last commit (the job rows tell). Medians of the rounds.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import resource
import statistics
import sys
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from sqlalchemy import func, select

from aijobs.core.clock import SystemClock, system_chance
from aijobs.core.model import NewJob, Status
from aijobs.core.payload import dump_json, input_hash
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import open_store
from aijobs.store.tables import executions, jobs
from tests.benchmarks.places import fresh

TYPES = {
    "noop": {"provider": "noop"},
    "slow": {"provider": "slow"},
}
PROVIDERS = {
    "noop": {"kind": "python", "callable": "tests.benchmarks.drain:noop"},
    "slow": {"kind": "python", "callable": "tests.benchmarks.drain:slow"},
}
SLOW_SECONDS = 2.0
CONCURRENCY = 200


async def noop(given: object) -> object:
    """A job that does nothing."""
    return None


async def slow(given: object) -> object:
    """A call of two seconds."""
    await asyncio.sleep(SLOW_SECONDS)
    return None


def settings_with(*, limits: bool) -> Settings:
    """The configuration of the benchmark; *limits* are on but never reached."""
    concurrency = {"global": 100_000, "per_user": 50_000} if limits else {}
    return Settings.model_validate({"types": TYPES, "providers": PROVIDERS, "concurrency": concurrency})


def enqueue(url: str, type_name: str, count: int, settings: Settings) -> None:
    """*count* jobs of ten users."""
    store = open_store(url, create=True)
    coordinator = Coordinator(store, settings, chance=system_chance())
    given = {"text": "x" * 200}
    payload, digest = dump_json(given), input_hash(given)
    for start in range(0, count, 1000):
        coordinator.enqueue_many(
            [
                NewJob(type=type_name, payload=payload, input_hash=digest, user=f"user-{n % 10}")
                for n in range(start, min(start + 1000, count))
            ],
            actor="benchmark",
        )
    store.close()


def work(url: str, concurrency: int, limits: bool, profile: str | None, said: Connection) -> None:
    """One worker in a process of its own; says how much memory it took."""
    from aijobs.providers.registry import Providers
    from aijobs.services.worker import Worker, WorkerOptions

    settings, clock, chance = settings_with(limits=limits), SystemClock(), system_chance()
    store = open_store(url)
    options = WorkerOptions(concurrency=concurrency, drain=True, lease=timedelta(seconds=30))
    worker = Worker(
        store, Coordinator(store, settings, chance=chance), settings,
        Providers(settings, clock=clock), options=options, chance=chance,
    )  # fmt: skip
    before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    with profiled(profile):
        report = worker.run()
    said.send(
        {
            "succeeded": report.succeeded,
            "lost": report.lost,
            "cpu": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before,
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )


@contextlib.contextmanager
def profiled(path: str | None) -> Iterator[None]:
    """Write a cProfile of the block to *path*, if there is one."""
    if path is None:
        yield
        return
    import cProfile

    with cProfile.Profile() as profile:
        yield
    profile.dump_stats(path)


def drain(
    url: str, type_name: str, count: int, *, workers: int, concurrency: int, limits: bool,
    profile: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Jobs a second, and what the workers took."""
    enqueue(url, type_name, count, settings_with(limits=limits))
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(workers)]
    processes = [
        context.Process(target=work, args=(url, concurrency, limits, profile, theirs)) for _, theirs in pipes
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    reports = [ours.recv() for ours, _ in pipes]
    assert sum(report["succeeded"] for report in reports) == count, reports
    seconds = _seconds(url)
    return {
        "per_second": round(count / seconds),
        "seconds": round(seconds, 2),
        "cpu_us_per_job": round(sum(report["cpu"] for report in reports) / count * 1e6),
        "megabytes": round(max(report["megabytes"] for report in reports)),
        "lost": sum(report["lost"] for report in reports),
    }


def _seconds(url: str) -> float:
    store = open_store(url)
    with store.read() as tx:
        began = tx.execute(select(func.min(executions.c.started_at))).scalar_one()
        ended = tx.execute(
            select(func.max(jobs.c.finished_at)).where(jobs.c.status == Status.SUCCEEDED.value)
        ).scalar_one()
    store.close()
    return _instant(ended) - _instant(began)


def _instant(value: Any) -> float:
    from datetime import datetime

    return (datetime.fromisoformat(value) if isinstance(value, str) else value).timestamp()


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row a case."""
    cases = [
        (f"noop, {workers} worker(s)", "noop", options.jobs, workers, options.concurrency)
        for workers in options.workers
    ]
    if options.slow:
        cases.append((f"{options.slow} calls of {SLOW_SECONDS:g} s", "slow", options.slow, 1, options.slow))
    rows = []
    for database in options.databases:
        for name, type_name, count, workers, concurrency in cases:
            found = []
            for _ in range(options.rounds):
                with fresh(database) as url:
                    found.append(
                        drain(
                            url,
                            type_name,
                            count,
                            workers=workers,
                            concurrency=concurrency,
                            limits=options.limits,
                            profile=options.profile,
                        )
                    )
            row = {key: statistics.median(one[key] for one in found) for key in found[0]}
            rows.append({"database": database, "case": name, "concurrency": concurrency} | row)
            print(rows[-1], file=sys.stderr)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--slow", type=int, default=1_000, help="0 leaves the slow calls out")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--no-limits", dest="limits", action="store_false")
    parser.add_argument("--profile", help="write a cProfile of the worker here")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options)
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
