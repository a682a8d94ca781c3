"""Latency against load: jobs arrive at a rate that nothing slows down, and how long each waits for its call.

`python -m tests.benchmarks.load_curve [--rates 250 500 1000 ...] [--workers 2] [--seconds 8] [--json]` offers
jobs that do nothing at one rate after another to workers that are processes of their own, on a PostgreSQL
with its default durability. Each job carries the moment at which it should have arrived: when the enqueueing
itself falls behind, that is waiting too. The first second of each rate does not count. Milliseconds; *bent*:
at the end more than a second's worth of jobs stood in line, so the wait grows with the time one waits.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import func, select

from aijobs.core.clock import SystemClock, system_chance
from aijobs.core.model import NewJob, Status
from aijobs.core.payload import dump_json, input_hash
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import job_results, jobs
from tests.benchmarks.places import fresh

SETTINGS = Settings.model_validate(
    {
        "types": {"arrive": {"provider": "arrive"}},
        "providers": {"arrive": {"kind": "python", "callable": "tests.benchmarks.load_curve:arrive"}},
        "concurrency": {"global": 100_000, "per_user": 50_000},
    }
)
RATES = (250, 500, 1000, 1500, 2000, 3000, 4000)
TICK = 0.01
"""Seconds between two transactions of the side that enqueues; each takes what has arrived since."""

WARM_UP = 1.0
CONCURRENCY = 200


async def arrive(given: Any) -> dict[str, float]:
    """The call: when it went out, beside when the job was to arrive."""
    return {"rate": given["rate"], "at": given["at"], "wait": time.time() - given["at"]}


def worker(url: str) -> None:
    """One worker in a process of its own; it ends when it is terminated."""
    from aijobs.providers.registry import Providers
    from aijobs.services.worker import Worker, WorkerOptions

    chance, store = system_chance(), open_store(url)
    providers = Providers(SETTINGS, clock=SystemClock())
    coordinator = Coordinator(store, SETTINGS, chance=chance)
    options = WorkerOptions(concurrency=CONCURRENCY)
    Worker(store, coordinator, SETTINGS, providers, options=options, chance=chance).run()


@contextmanager
def running(url: str, count: int) -> Iterator[None]:
    """So many workers at work."""
    context = multiprocessing.get_context("spawn")
    found = [context.Process(target=worker, args=(url,), daemon=True) for _ in range(count)]
    for one in found:
        one.start()
    try:
        yield
    finally:
        for one in found:
            one.terminate()
        for one in found:
            one.join()


def offer(coordinator: Coordinator, rate: int, seconds: float) -> float:
    """Enqueue *rate* jobs a second, each with its moment; how many a second it came to."""
    began, sent, total = time.time(), 0, round(rate * seconds)
    while sent < total:
        due = min(total, int((time.time() - began) * rate))
        if due > sent:
            coordinator.enqueue_many([_job(rate, began + n / rate) for n in range(sent, due)], actor="load")
            sent = due
        time.sleep(TICK)
    return total / (time.time() - began)


def _job(rate: int, at: float) -> NewJob:
    given = {"rate": rate, "at": at}
    return NewJob(type="arrive", payload=dump_json(given), input_hash=input_hash(given), user=f"{at % 1:.1f}")


def in_line(store: Store) -> int:
    """Jobs that have not ended."""
    with store.read() as tx:
        query = select(func.count()).select_from(jobs).where(jobs.c.status != Status.SUCCEEDED.value)
        return tx.execute(query).scalar_one()


def drained(store: Store, seconds: float) -> None:
    """Wait until nothing is in line."""
    deadline = time.monotonic() + seconds
    while in_line(store) and time.monotonic() < deadline:
        time.sleep(0.2)


def waits_of(store: Store, rate: int) -> list[float]:
    """Milliseconds each job of that rate waited, without those of the warm-up."""
    with store.read() as tx:
        found = [json.loads(one) for one in tx.execute(select(job_results.c.result)).scalars()]
    mine = [one for one in found if one["rate"] == rate]
    began = min(one["at"] for one in mine) + WARM_UP
    return [one["wait"] * 1000 for one in mine if one["at"] >= began]


def measure(rates: Sequence[int], workers: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A row a rate, until it bends; each on an empty database."""
    for rate in rates:
        with fresh("postgresql") as url:
            store = open_store(url, create=True)
            coordinator = Coordinator(store, SETTINGS, chance=system_chance())
            with running(url, workers):
                offer(coordinator, 50, 1 + WARM_UP)  # until they are there
                drained(store, 30)
                offered = offer(coordinator, rate, seconds + WARM_UP)
                left = in_line(store)
                drained(store, 60)
            cuts = statistics.quantiles(waits_of(store, rate), n=20)
            store.close()
        bent = left > rate
        yield {
            "rate": rate, "offered": round(offered), "workers": workers, "p50": round(cuts[9], 1),
            "p95": round(cuts[18], 1), "left": left, "bent": bent,
        }  # fmt: skip
        if bent:
            return


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for row in measure(options.rates, options.workers, options.seconds):
        rows.append(row)
        words = "  ".join(f"{name} {value}" for name, value in row.items())
        print(words, file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    from tests.benchmarks import load_curve

    load_curve.main()  # the workers' processes must find the same module under the same name
