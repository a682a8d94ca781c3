"""Whole jobs over HTTP: claimed, called, saved; 200 calls at once, to a stub that answers immediately.

`python -m tests.benchmarks.http_jobs [--json] [--jobs N] [--rounds N] [--database NAME...]` compares a worker
with bare httpx that makes the same calls and keeps nothing, on its own engine and on aiohttp's. The stub is a
process of its own, and so is the worker. Calls a second, medians of the rounds; beside each round, on stderr,
the processor's time of worker or client for one job, the stub's not included. With `--profile FILE` a worker
alone runs once on each database, slowed down by cProfile, whose last figures are in FILE.
"""

import argparse
import contextlib
import functools
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from aijobs.core.clock import SystemClock, system_chance
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import open_store
from tests.benchmarks import http_calls
from tests.benchmarks.drain import _seconds, profiled
from tests.benchmarks.places import fresh
from tests.benchmarks.report import Row, as_json, in_turns, table
from tests.support.jobs import new_job

CONCURRENCY = 200


def settings_at(url: str) -> Settings:
    """One type, whose provider is the stub."""
    base, _, path = url.partition("/v1")
    provider = {"kind": "http", "base_url": f"{base}/v1", "path": path, "concurrency": CONCURRENCY}
    return Settings.model_validate(
        {
            "types": {"call": {"provider": "stub"}},
            "providers": {"stub": provider},
            "concurrency": {"global": 100_000, "per_user": 50_000},
        }
    )


def work(url: str, stub: str, profile: str | None, said: Connection) -> None:
    """One worker, until nothing is left."""
    from aijobs.providers.registry import Providers
    from aijobs.services.worker import Worker, WorkerOptions

    settings, chance, store = settings_at(stub), system_chance(), open_store(url)
    coordinator = Coordinator(store, settings, chance=chance)
    providers = Providers(settings, clock=SystemClock())
    options = WorkerOptions(concurrency=CONCURRENCY, drain=True)
    began = time.process_time()
    with profiled(profile):
        report = Worker(store, coordinator, settings, providers, options=options, chance=chance).run()
    said.send((report.succeeded, time.process_time() - began))


def ours(database: str, stub: str, count: int, profile: str | None = None) -> float:
    """Jobs a second, from the first claim to the last commit."""
    with fresh(database) as url:
        store = open_store(url, create=True)
        coordinator = Coordinator(store, settings_at(stub), chance=system_chance())
        for start in range(0, count, 1000):
            new = [new_job(http_calls.REQUEST, type="call") for _ in range(min(1000, count - start))]
            coordinator.enqueue_many(new, actor="benchmark")
        store.close()
        mine, theirs = multiprocessing.Pipe()
        worker = multiprocessing.get_context("spawn").Process(target=work, args=(url, stub, profile, theirs))
        worker.start()
        done, spent = mine.recv()
        assert done == count
        worker.join()
        _tell(spent, count)
        return count / _seconds(url)


@contextlib.contextmanager
def stub() -> Iterator[str]:
    """The URL of a stub that answers at once."""
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=http_calls._serve, args=(theirs,), daemon=True
    )
    process.start()
    try:
        yield f"http://127.0.0.1:{mine.recv()}/v1/responses"
    finally:
        process.terminate()
        process.join()


def bare(name: str, url: str, count: int) -> float:
    """Calls a second of one bare client; the slow one makes fewer."""
    few = max(CONCURRENCY, count // 10) if name == "httpx" else count
    run: Any = http_calls._contenders()[name]
    began = time.process_time()
    rate = http_calls._run(run(url, calls=few, concurrency=CONCURRENCY))
    _tell(time.process_time() - began, few + 2 * CONCURRENCY)  # it makes so many to begin with
    return rate


def _tell(spent: float, count: int) -> None:
    print(f"  {spent / count * 1e6:.0f} us of the processor for each of {count:,}", file=sys.stderr)


def measure(database: str, *, jobs: int, rounds: int) -> list[Row]:
    """A worker beside both."""
    known = http_calls._contenders()
    engine = next(name for name in ("httpx-aiohttp", "httpx over our transport") if name in known)
    with stub() as url:
        found = in_turns(
            rounds,
            {
                "worker": lambda: ours(database, url, jobs),
                "httpx": functools.partial(bare, "httpx", url, jobs),
                engine: functools.partial(bare, engine, url, jobs),
            },
        )
    what = f"{jobs:,} whole jobs over HTTP, {CONCURRENCY} at once"
    return [
        Row(
            bar="P6", what=what, database=database, ours=found["worker"], beside=f"bare {name}",
            theirs=found[name], at_least=bar,
        )
        for name, bar in (("httpx", 5.0), (engine, 0.6))
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--profile", help="write a cProfile of a worker here")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.profile:
        with stub() as url:
            for name in asked.database:
                ours(name, url, asked.jobs, asked.profile)
        return
    rows = [row for name in asked.database for row in measure(name, jobs=asked.jobs, rounds=asked.rounds)]
    print(json.dumps(as_json(rows)) if asked.json else table(rows))


if __name__ == "__main__":
    main()
