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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aijobs.store.engine import open_store
from tests.benchmarks.drain import fresh
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


def milliseconds(url: str, command: Sequence[str], rounds: int) -> float:
    """The median time of a whole *command*."""
    times = []
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        json.dump(CONFIG, config)  # which is YAML too
        config.flush()
        environ = {**os.environ, "AIJOBS_DATABASE": url, "AIJOBS_CONFIG": config.name}
        for _ in range(rounds + 1):
            began = time.perf_counter()
            done = subprocess.run([*PROGRAM, *command], env=environ, capture_output=True)
            times.append((time.perf_counter() - began) * 1000)
            assert done.returncode in (0, 1), (command, done.stderr)  # 1: an alert fires, a check is bad
            assert not done.stderr, (command, done.stderr)
    return statistics.median(times[1:])


@contextlib.contextmanager
def filled(database: str, count: int) -> Iterator[str]:
    """The URL of a store of *count* jobs."""
    with fresh(database) as url:
        store, began = open_store(url, create=True), time.perf_counter()
        fill(store, count)
        store.close()
        print(f"{database}: {count} jobs in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        yield url


def measure(database: str, count: int, rounds: int) -> list[dict[str, Any]]:
    """A row a command."""
    with filled(database, SMALL) as url:
        small = {name: milliseconds(url, command, rounds) for name, command in LOOKS.items()}
    rows = []
    with filled(database, count) as url:
        for name, command in LOOKS.items():
            rows.append(row(database, name, small[name], milliseconds(url, command, rounds)))
            print(line(rows[-1]), file=sys.stderr)
        dead = count // 20
        preview = ["deadletter", "replay", "--all", "--preview", "--limit"]
        half, whole = (milliseconds(url, [*preview, str(n)], 3) for n in (dead // 2, dead))
        rows.append(row(database, f"preview of {dead} / {dead // 2}", half, whole))
    return rows


def row(database: str, what: str, small: float, large: float) -> dict[str, Any]:
    return {
        "database": database, "what": what, "small": round(small), "large": round(large),
        "ratio": round(large / small, 2),
    }  # fmt: skip


def line(one: dict[str, Any]) -> str:
    times = f"{one['small']:>6} ms {one['large']:>6} ms {one['ratio']:>6} x"
    return f"{one['database']:<10}  {one['what']:<28} {times}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [one for name in options.databases for one in measure(name, options.jobs, options.rounds)]
    if options.json:
        print(json.dumps(rows))
        return
    for one in rows:
        print(line(one))


if __name__ == "__main__":
    main()
