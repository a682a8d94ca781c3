"""A large sweep beside work: 100,000 leases run out at once, and other workers want to go on meanwhile.

`python -m tests.benchmarks.lease_sweep [--json] [--jobs N] [--workers N] [--database NAME...]` lets so many
jobs be claimed by a worker that is never heard of again and sweeps them in steps, one after the other without
a rest, while worker processes take in, claim and finish jobs of another type, ten at a time. On SQLite and on
a PostgreSQL of its own, with their default durability. Latencies of these workers' claims before the sweep
and during it, and how long a step of the sweep and each of its transactions take, are in milliseconds.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from sqlalchemy import event

from aijobs.core.clock import system_chance
from aijobs.core.lifecycle import Succeeded
from aijobs.core.settings import Settings
from aijobs.services.coordinator import ClaimRequest, Coordinator, Ended
from aijobs.services.sweeper import LIMIT, Sweeper
from aijobs.store.engine import Store, open_store
from tests.benchmarks.places import fresh
from tests.support.jobs import new_job

SETTINGS = Settings.model_validate(
    {
        "providers": {"p": {"kind": "python", "callable": "builtins:str"}},
        "types": {"lost": {"provider": "p"}, "live": {"provider": "p"}},
    }
)
AT_ONCE = 10
REST = 0.02
"""Seconds a worker takes for its ten jobs."""
BEFORE = 5.0
"""Seconds of work before the sweep begins."""
_MOMENT = timedelta(milliseconds=1)

Latencies = list[tuple[float, float]]
"""When each claim began, on the monotonic clock that processes share, and how many seconds it took."""


def lose(store: Store, count: int) -> None:
    """Let *count* leases run out."""
    coordinator = Coordinator(store, SETTINGS, chance=system_chance())
    for start in range(0, count, 1000):
        batch = range(start, min(start + 1000, count))
        coordinator.enqueue_many(
            [new_job({"n": n}, type="lost", user=f"user-{n % 10}") for n in batch], actor="benchmark"
        )
    claimed = 0
    while claimed < count:
        request = ClaimRequest(worker="gone", slots=1000, lease=_MOMENT, types=("lost",))
        claimed += len(coordinator.claim(request))


def work(url: str, name: str, said: Connection) -> None:
    """A worker in a process of its own: goes on until it is told to stop, and says what its claims took."""
    store, found = open_store(url), []
    coordinator = Coordinator(store, SETTINGS, chance=system_chance())
    request = ClaimRequest(worker=name, slots=AT_ONCE, lease=timedelta(minutes=5), types=("live",))
    said.send("ready")
    while not said.poll():
        coordinator.enqueue_many([new_job(type="live") for _ in range(AT_ONCE)], actor="benchmark")
        began = time.monotonic()
        claims = coordinator.claim(request)
        found.append((began, time.monotonic() - began))
        time.sleep(REST)
        coordinator.finish(
            [
                Ended(job=claim.job, end=Succeeded(result="1"), started_at=store.clock.now(), worker=name)
                for claim in claims
            ]
        )
    said.send(found)
    store.close()


@contextmanager
def working(url: str, count: int) -> Iterator[Latencies]:
    """So many workers; what their claims took is in the list after the block."""
    context, latencies = multiprocessing.get_context("spawn"), Latencies()
    pipes = [context.Pipe() for _ in range(count)]
    processes = [
        context.Process(target=work, args=(url, f"worker-{n}", theirs), daemon=True)
        for n, (_, theirs) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for ours, _ in pipes:
        assert ours.recv() == "ready"
    yield latencies
    for ours, _ in pipes:
        ours.send("stop")
    for ours, _ in pipes:
        latencies += ours.recv()
    for process in processes:
        process.join()


@contextmanager
def transactions(store: Store) -> Iterator[list[float]]:
    """How many seconds each transaction of *store* takes, while the block runs."""
    taken: list[float] = []
    began: list[float] = []

    def begin(_: object) -> None:
        began[:] = [time.monotonic()]

    def commit(_: object) -> None:
        taken.append(time.monotonic() - began[0])

    event.listen(store.engine, "begin", begin)  # after the store's own, which waits for the lock
    event.listen(store.engine, "commit", commit)
    yield taken
    event.remove(store.engine, "begin", begin)
    event.remove(store.engine, "commit", commit)


def sweep(store: Store, step: int) -> tuple[int, list[float]]:
    """Sweep until nothing is found: how many leases, and the seconds of each step."""
    sweeper = Sweeper(Coordinator(store, SETTINGS, chance=system_chance()))
    swept, steps = 0, []
    while True:
        began = time.monotonic()
        found = sweeper.sweep(limit=step)["expired_leases"]
        if not found.found:
            return swept, steps
        steps.append(time.monotonic() - began)
        swept += found.repaired


def measure(database: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row."""
    with fresh(database) as url:
        store = open_store(url, create=True)
        lose(store, options.jobs)
        with working(url, options.workers) as latencies, transactions(store) as taken:
            time.sleep(BEFORE)
            began = time.monotonic()
            swept, steps = sweep(store, options.step)
            end = time.monotonic()
        store.close()
    assert swept == options.jobs, swept
    before = [seconds for at, seconds in latencies if at + seconds < began]
    meanwhile = [seconds for at, seconds in latencies if at < end and at + seconds >= began]
    return {
        "database": database, "leases": swept, "seconds": round(end - began, 1), "steps": len(steps),
        "step": cuts(steps), "transactions": len(taken), "transaction": cuts(taken),
        "claims_before": len(before), "claim_before": cuts(before),
        "claims_meanwhile": len(meanwhile), "claim_meanwhile": cuts(meanwhile),
    }  # fmt: skip


def cuts(seconds: Sequence[float]) -> dict[str, float]:
    """The middle, the 95th of a hundred and the largest, in milliseconds."""
    p95 = statistics.quantiles(seconds, n=20)[18] if len(seconds) > 1 else seconds[0]
    found = {"p50": statistics.median(seconds), "p95": p95, "max": max(seconds)}
    return {name: round(value * 1000, 1) for name, value in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step", type=int, default=LIMIT, help="leases a sweep repairs")
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for database in options.database:
        rows.append(measure(database, options))
        print(rows[-1], file=sys.stderr)
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("\n".join(f"{name}: {value}" for name, value in row.items()), end="\n\n")


if __name__ == "__main__":
    from tests.benchmarks import lease_sweep

    lease_sweep.main()  # the workers' processes must find the same module under the same name
