"""Taking jobs in: `enqueue --jsonl` of 100,000 keyed lines as a whole process, and one job a call by the API.

`python -m tests.benchmarks.bulk_enqueue [--json] [--rounds N]` runs on SQLite and on a PostgreSQL of its own,
both with their default durability. Beside the single job stands a bare insert and commit by the driver.
"""

import argparse
import contextlib
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from aijobs import Jobs
from aijobs.core.settings import Settings
from tests.benchmarks.places import fresh

SINGLE = 1000


def import_rate(url: str, file: Path, count: int) -> float:
    """Lines a second, from the start of the process to its end."""
    began = time.perf_counter()
    program = [sys.executable, "-c", "from aijobs.cli.main import main; main()"]
    environ = {**os.environ, "AIJOBS_DATABASE": url}
    subprocess.run(
        [*program, "-q", "enqueue", "--jsonl", str(file)], env=environ, check=True, stdout=subprocess.DEVNULL
    )
    return count / (time.perf_counter() - began)


def single_rate(url: str) -> float:
    """Jobs a second, one call and one commit each."""
    with Jobs(Settings(database=url)) as jobs:
        return _rate(lambda n: jobs.enqueue("demo", {"n": n}, key=f"single-{n}"))


def bare_rate(url: str) -> float:
    """Rows a second, one insert and one commit each, without anything around."""
    table = "CREATE TABLE bare (id bigint PRIMARY KEY, key text UNIQUE, payload text)"
    if url.startswith("sqlite"):
        with contextlib.closing(
            sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(table)
            return _rate(lambda n: connection.execute("INSERT INTO bare VALUES (?, ?, '{}')", (n, str(n))))
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(table)
        return _rate(lambda n: server.execute("INSERT INTO bare VALUES (%s, %s, '{}')", (n, str(n))))


def _rate(step: Callable[[int], object]) -> float:
    step(-1)
    began = time.perf_counter()
    for n in range(SINGLE):
        step(n)
    return SINGLE / (time.perf_counter() - began)


def write_lines(file: Path, count: int) -> None:
    """A file of keyed jobs of fifty users."""
    with file.open("w") as stream:
        for n in range(count):
            job = {
                "type": "demo",
                "user": f"user-{n % 50}",
                "key": f"key-{n}",
                "input": {"n": n, "text": "hello"},
            }
            stream.write(json.dumps(job) + "\n")


def measure(database: str, file: Path, count: int, rounds: int) -> dict[str, Any]:
    """Medians of the rounds, each on an empty store."""
    bulk, single, bare = [], [], []
    for _ in range(rounds):
        with fresh(database) as url:
            bulk.append(import_rate(url, file, count))
            single.append(single_rate(url))
            bare.append(bare_rate(url))
    rates = {"bulk": bulk, "single": single, "bare insert and commit": bare}
    return {
        "database": database,
        **{name: round(statistics.median(values)) for name, values in rates.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.jsonl"
        write_lines(file, options.count)
        rows = [measure(name, file, options.count, options.rounds) for name in ("sqlite", "postgresql")]
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    if options.json:
        print(json.dumps({"per_second": rows, "import_resident_mb": memory}))
        return
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()) + " a second")
    print(f"an import of {options.count} lines takes {memory} MB at most")


if __name__ == "__main__":
    main()
