"""Cancelling by filters: a whole `aijobs cancel --user ... --yes` of 50,000 waiting jobs.

`python -m tests.benchmarks.cancel_many [--jobs N] [--rounds N]` runs on SQLite and on a PostgreSQL of its
own, beside as many jobs that ended long ago. Meanwhile somebody enqueues a job every 20 ms, whose longest
waits say for how long a step keeps others from writing.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from aijobs import Jobs
from aijobs.core.settings import Settings
from aijobs.store.engine import open_store
from tests.benchmarks.places import fresh
from tests.support import backlogs
from tests.support.clock import START

USER = "crowd-1000000"
_PROGRAM = [sys.executable, "-c", "from aijobs.cli.main import main; main()"]


def fill(url: str, count: int) -> None:
    """*count* jobs of one user in line, and as many of others that have succeeded."""
    with contextlib.closing(open_store(url, create=True)) as store:
        with store.write() as tx:
            backlogs.finished(tx, "demo", count, START)
            backlogs.in_line(tx, "demo", count, START, users=1)
        backlogs.settled(store)


def seconds(url: str, *more: str) -> float:
    """From the start of the process to its end."""
    args = ["-q", "cancel", "--user", USER, "--reason", "a benchmark", "--yes", *more]
    began = time.perf_counter()
    subprocess.run(
        [*_PROGRAM, *args], env={**os.environ, "AIJOBS_DATABASE": url}, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began


@contextlib.contextmanager
def enqueuing(url: str) -> Iterator[list[float]]:
    """Enqueue beside it; the milliseconds that each took."""
    over, took = threading.Event(), [0.0]

    def work() -> None:
        with Jobs(Settings(database=url)) as jobs:
            while not over.wait(0.02):
                began = time.perf_counter()
                jobs.enqueue("demo", {"n": 1}, user="somebody else")
                took.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for database in ("sqlite", "postgresql"):
        for more in ((), ("--json",)):
            found, waits = [], []
            for _ in range(asked.rounds):
                with fresh(database) as url:
                    fill(url, asked.jobs)
                    with enqueuing(url) as took:
                        found.append(seconds(url, *more))
                    waits += took
            waits.sort()
            print(
                f"{database}{' '.join(('', *more))}: {asked.jobs:,} jobs in {statistics.median(found):.1f} s;"
                f" an enqueue beside it took {statistics.median(waits):.0f} ms,"
                f" one in a hundred {waits[int(len(waits) * 0.99)]:.0f} ms, at most {waits[-1]:.0f} ms"
            )


if __name__ == "__main__":
    main()
