"""Where the time of a job goes: claims and ends in one thread, with no worker around them, by statement.

`python -m tests.benchmarks.statements [--jobs N] [--batch N] [--database sqlite|postgresql]` enqueues
jobs, claims them in batches and ends each batch well. It prints microseconds a job: in all, of this process's
processor, of the server's, and of each statement from its sending to its answer (rows that are fetched later
are not in it).
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import event

from aijobs.core.clock import system_chance
from aijobs.core.lifecycle import Succeeded
from aijobs.services.coordinator import ClaimRequest, Coordinator, Ended
from aijobs.store.engine import Store, open_store
from tests.benchmarks.drain import enqueue, settings_with
from tests.benchmarks.places import fresh

_SHOWN = 60  # characters of a statement
_LEASE = timedelta(seconds=60)


def measure(database: str, count: int, batch: int) -> dict[str, Any]:
    """Microseconds a job, of everything and of each statement."""
    with fresh(database) as url:
        settings = settings_with(limits=True)
        enqueue(url, "noop", count, settings)
        with closing(open_store(url)) as store:
            server = _server(store)
            began = (time.perf_counter(), time.process_time(), _processor(server))
            with _timed(store) as spent:
                done = _work_off(Coordinator(store, settings, chance=system_chance()), batch)
            ended = (time.perf_counter(), time.process_time(), _processor(server))
    names = ("all", "processor here", "processor of the server")
    each = {name: now - then for name, then, now in zip(names, began, ended, strict=True)}
    statements = dict(spent.most_common(20))
    return {
        "database": database, "jobs": done, "batch": batch,
        "microseconds": {name: round(took / done * 1e6, 1) for name, took in (each | statements).items()},
    }  # fmt: skip


def _work_off(coordinator: Coordinator, batch: int) -> int:
    """Claim and end until nothing is left; how many jobs there were."""
    done = 0
    request = ClaimRequest(worker="w1", slots=batch, lease=_LEASE)
    while claims := coordinator.claim(request):
        now = coordinator.clock.now()
        end = Succeeded(result="null")
        coordinator.finish([Ended(job=one.job, end=end, started_at=now, worker="w1") for one in claims])
        done += len(claims)
    return done


@contextmanager
def _timed(store: Store) -> Iterator[Counter[str]]:
    spent: Counter[str] = Counter()

    def before(connection: Any, *_: object) -> None:
        connection.info["sent"] = time.perf_counter()

    def after(connection: Any, _cursor: object, statement: str, *_: object) -> None:
        words = " ".join(statement.split())[:_SHOWN]
        spent[words] += time.perf_counter() - connection.info["sent"]

    event.listen(store.engine, "before_cursor_execute", before)
    event.listen(store.engine, "after_cursor_execute", after)
    yield spent


def _server(store: Store) -> int | None:
    """The process that serves our one connection."""
    if store.dialect == "sqlite":
        return None
    with store.read() as tx:
        return int(tx.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


def _processor(process: int | None) -> float:
    """Seconds of processor time of another process so far."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for database in [options.database] if options.database else ["sqlite", "postgresql"]:
        found = measure(database, options.jobs, options.batch)
        if options.json:
            print(json.dumps(found))
            continue
        print(f"{database}: {found['jobs']} jobs, {found['batch']} at a time, microseconds a job")
        for name, took in found["microseconds"].items():
            print(f"{took:8.1f}  {name}")


if __name__ == "__main__":
    main()
