"""Scale: what looking costs at a million jobs, beside the same commands on a thousand.

`python -m tests.benchmarks.scale [--json] [--jobs N] [--rounds N]` fills stores of both sizes on SQLite and
on a PostgreSQL of its own and runs whole commands as processes. A twentieth of the jobs are dead letters, and
a fifth have not ended. Milliseconds, medians of the rounds.

A preview stores a plan for each dead letter that it judges, so its time must follow their number and nothing
else: it is taken for the same fifty in both stores, and in the large one for all and for half of them.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aijobs.store.engine import open_store
from tests.benchmarks.places import fresh
from tests.support.large_store import HEAVY, TYPES, fill

SMALL = 1_000
LOOKS: Mapping[str, Sequence[str]] = {
    "inspect": ["inspect"],
    "inspect by status": ["inspect", "--status", "failed"],
    "inspect by user": ["inspect", "--user", "user-7"],
    "inspect of a heavy user": ["inspect", "--user", HEAVY],
    "inspect by type": ["inspect", "--type", TYPES[1]],
    "inspect by several": ["inspect", "--status", "dead_letter", "--type", TYPES[1], "--user", HEAVY],
    "inspect what is not there": ["inspect", "--user", "nobody"],
    "stats": ["stats"],
    "metrics": ["metrics"],
    "alerts": ["alerts"],
    "diagnose": ["diagnose"],
    "deadletter list": ["deadletter", "list"],
    "preview of 50": ["deadletter", "replay", "--all", "--limit", "50", "--preview"],
}
CONFIG = {
    "providers": {"simulator": {"kind": "simulator"}},
    "types": {name: {"provider": "simulator"} for name in TYPES},
}
PROGRAM = [sys.executable, "-c", "from aijobs.cli.main import main; main()", "-q"]


class Command:
    """A whole command on one store, and how long it took each time: by the clock, and of the processor."""

    def __init__(self, url: str, *args: str) -> None:
        self._url = url
        self._args = args
        self._times: list[tuple[float, float]] = []

    def run(self) -> None:
        """Once more."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            json.dump(CONFIG, config)  # which is YAML too
            config.flush()
            environ = {**os.environ, "AIJOBS_DATABASE": self._url, "AIJOBS_CONFIG": config.name}
            began, used = time.perf_counter(), processor()
            done = subprocess.run([*PROGRAM, *self._args], env=environ, capture_output=True, check=False)
            self._times.append((time.perf_counter() - began, processor() - used))
        assert done.returncode in (0, 1), (self._args, done.stderr)  # 1: an alert fires, a check is bad
        assert not done.stderr, (self._args, done.stderr)

    def medians(self) -> tuple[float, float]:
        """In milliseconds, without the first time."""
        clock, cpu = zip(*self._times[1:], strict=True)
        return statistics.median(clock) * 1000, statistics.median(cpu) * 1000


def processor() -> float:
    """Seconds of processor time of the commands so far; what a database server spends is not among them."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


@contextlib.contextmanager
def filled(database: str, count: int) -> Iterator[str]:
    """The URL of a store of *count* jobs."""
    with fresh(database) as url:
        store, began = open_store(url, create=True), time.perf_counter()
        fill(store, count)
        store.close()
        print(f"{database}: {count} jobs in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        yield url


def measure(database: str, count: int, rounds: int) -> Iterator[dict[str, Any]]:
    """A row a command; the stores take turns, so that what else the machine does meets both."""
    with filled(database, SMALL) as small, filled(database, count) as large:
        for name, args in LOOKS.items():
            yield compared(database, name, Command(small, *args), Command(large, *args), rounds)
        dead = count // 20
        preview = ("deadletter", "replay", "--all", "--preview", "--limit")
        half, whole = (Command(large, *preview, str(n)) for n in (dead // 2, dead))
        yield compared(database, f"preview of {dead // 2} and {dead}", half, whole, rounds)


def compared(database: str, what: str, small: Command, large: Command, rounds: int) -> dict[str, Any]:
    for _ in range(rounds + 1):
        small.run()
        large.run()
    (clock_small, cpu_small), (clock_large, cpu_large) = small.medians(), large.medians()
    return {
        "database": database, "what": what, "small": round(clock_small), "large": round(clock_large),
        "ratio": round(clock_large / clock_small, 2), "cpu_ratio": round(cpu_large / cpu_small, 2),
    }  # fmt: skip


def line(one: dict[str, Any]) -> str:
    times = f"{one['small']:>6} ms {one['large']:>6} ms {one['ratio']:>6} x, processor {one['cpu_ratio']} x"
    return f"{one['database']:<10}  {one['what']:<28} {times}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for database in options.databases:
        for one in measure(database, options.jobs, options.rounds):
            rows.append(one)
            print(line(one), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
