"""Pick-up: an idle worker, one job enqueued, and how long until its call goes out.

`python -m tests.benchmarks.pick_up [--json]` does that 200 times on each database, a random moment apart, and
on PostgreSQL beside it with a bare loop that listens, takes a row with SKIP LOCKED and commits. The clock is
the machine's monotonic one, which processes share. Milliseconds.
"""

import argparse
import json
import multiprocessing
import random
import select
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, Protocol

import psycopg

from aijobs.core.clock import SystemClock, system_chance
from aijobs.core.model import NewJob
from aijobs.core.payload import input_hash
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import open_store
from tests.benchmarks.places import fresh

SETTINGS = Settings.model_validate(
    {
        "types": {"ping": {"provider": "ping"}},
        "providers": {"ping": {"kind": "python", "callable": "tests.benchmarks.pick_up:ping"}},
    }
)
_said: list["Says"] = []


async def ping(given: object) -> None:
    """The call: says when it went out."""
    _said[0].send(time.monotonic())


class Says(Protocol):
    """Where to say that a call has gone out, and when."""

    def send(self, at: float, /) -> None: ...


def worker(url: str, said: Says, made: type[Coordinator] = Coordinator) -> None:
    """An idle worker in a process of its own."""
    from aijobs.providers.registry import Providers
    from aijobs.services.worker import Worker, WorkerOptions

    _said.append(said)
    chance, store = system_chance(), open_store(url)
    providers = Providers(SETTINGS, clock=SystemClock())
    options = WorkerOptions(poll=timedelta(hours=1))
    coordinator = made(store, SETTINGS, chance=chance)
    Worker(store, coordinator, SETTINGS, providers, options=options, chance=chance).run()


def bare_loop(url: str, said: Connection) -> None:
    """The least that can be done on PostgreSQL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN bare")
        while True:
            for _ in connection.notifies(timeout=None, stop_after=1):
                pass
            with connection.transaction():
                connection.execute(
                    "DELETE FROM bare WHERE id IN (SELECT id FROM bare LIMIT 1 FOR UPDATE SKIP LOCKED)"
                )
            said.send(time.monotonic())


def measure(
    target: Callable[[str, Connection], None], url: str, enqueue: Callable[[int], None], count: int
) -> list[float]:
    """Milliseconds from the call of *enqueue* until *target* says it has begun."""
    return [(said - began) * 1000 for began, said in answers(target, url, enqueue, count)]


def answers(
    target: Callable[[str, Connection], None], url: str, enqueue: Callable[[int], None], count: int
) -> list[tuple[float, Any]]:
    """When *enqueue* was called each time, and what *target* said then; without the first few."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(url, theirs), daemon=True)
    process.start()
    found = []
    for n in range(count + 5):
        time.sleep(3 if n == 0 else random.uniform(0.02, 0.06))
        began = time.monotonic()
        enqueue(n)
        while not select.select([ours], [], [], 1)[0]:
            pass
        found.append((began, ours.recv()))
    process.terminate()
    process.join()
    return found[5:]


def ours_on(url: str, count: int) -> list[float]:
    """Our worker."""
    with enqueuing(url) as enqueue:
        return measure(worker, url, enqueue, count)


@contextmanager
def enqueuing(url: str) -> Iterator[Callable[[int], None]]:
    """What enqueues one job there."""
    store = open_store(url, create=True)
    coordinator = Coordinator(store, SETTINGS, chance=system_chance())

    def enqueue(n: int) -> None:
        coordinator.enqueue(NewJob(type="ping", payload=f"{n}", input_hash=input_hash(n)), actor="benchmark")

    yield enqueue
    store.close()


def bare_on(url: str, count: int) -> list[float]:
    """The bare loop."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (id bigint PRIMARY KEY, payload text)")

        def enqueue(n: int) -> None:
            with connection.transaction():
                connection.execute("INSERT INTO bare VALUES (%s, '{}')", (n,))
                connection.execute("NOTIFY bare")

        return measure(bare_loop, url, enqueue, count)


def row(database: str, who: str, waits: list[float]) -> dict[str, Any]:
    cuts = statistics.quantiles(waits, n=20)
    p50, p95 = round(statistics.median(waits), 2), round(cuts[18], 2)
    return {"database": database, "who": who, "p50": p50, "p95": p95}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with fresh("sqlite") as url:
        rows.append(row("sqlite", "aijobs", ours_on(url, options.count)))
    with fresh("postgresql") as url:
        rows.append(row("postgresql", "aijobs", ours_on(url, options.count)))
        rows.append(row("postgresql", "bare loop", bare_on(url, options.count)))
    if options.json:
        print(json.dumps(rows))
    else:
        for one in rows:
            print("  ".join(f"{name} {value}" for name, value in one.items()))


if __name__ == "__main__":
    from tests.benchmarks import pick_up

    pick_up.main()  # the worker's process must find the same module under the same name
