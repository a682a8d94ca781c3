"""The limit: loops written by hand, in which jobs do nothing and nothing is promised.

`python -m tests.benchmarks.loops [--json] [--jobs N] [--workers N] [--rounds N]` drains realistic rows in
batches of a hundred, one attempt row and one event a job, two commits a batch: by the drivers themselves and
by SQLAlchemy Core, on SQLite and on a PostgreSQL of its own, both with their default durability.
"""

import argparse
import contextlib
import json
import multiprocessing
import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

import psycopg
import sqlalchemy as sa

from tests.benchmarks.places import fresh
from tests.benchmarks.report import in_turns

BATCH = 100
_JOBS = (
    "CREATE TABLE bare_jobs (id bigint PRIMARY KEY, type text NOT NULL, owner text NOT NULL,"
    " status text NOT NULL, priority integer NOT NULL, attempts integer NOT NULL, run_at text,"
    " locked_by text, locked_until text, result text, input_hash text NOT NULL, payload text NOT NULL,"
    " created_at text NOT NULL, updated_at text NOT NULL, finished_at text)"
)
_ATTEMPTS = (
    "CREATE TABLE bare_attempts (job_id bigint NOT NULL, attempt integer NOT NULL, worker text NOT NULL,"
    " outcome text NOT NULL, started_at text NOT NULL, finished_at text NOT NULL,"
    " PRIMARY KEY (job_id, attempt))"
)
_TABLES = (
    _JOBS,
    _ATTEMPTS,
    "CREATE INDEX bare_ready ON bare_jobs (priority, run_at, id) WHERE status = 'pending'",
    "CREATE INDEX bare_owner ON bare_jobs (owner, id)",
    "CREATE TABLE bare_events (at text NOT NULL, kind text NOT NULL, job_id bigint NOT NULL)",
)
_INSERT = (
    "INSERT INTO bare_jobs (id, type, owner, status, priority, attempts, run_at, input_hash, payload,"
    " created_at, updated_at) VALUES ({}, 'noop', {}, 'pending', 0, 0, {}, 'hash', {}, {}, {})"
)
_CLAIM = (
    "UPDATE bare_jobs SET status = 'processing', attempts = attempts + 1, locked_by = 'w',"
    " locked_until = {}, updated_at = {} WHERE id IN (SELECT id FROM bare_jobs WHERE status = 'pending'"
    " AND run_at <= {} ORDER BY priority, run_at, id LIMIT {}{}) RETURNING id, attempts, payload"
)
_ATTEMPT = "INSERT INTO bare_attempts VALUES ({}, {}, 'w', 'succeeded', {}, {})"
_EVENT = "INSERT INTO bare_events VALUES ({}, 'succeeded', {})"
_FINISH = (
    "UPDATE bare_jobs SET status = 'succeeded', result = 'null', locked_by = NULL, locked_until = NULL,"
    " updated_at = {}, finished_at = {} WHERE id = {} AND attempts = {} AND status = 'processing'"
)

Batch = Callable[[], int]
"""Takes a batch of jobs from first to last statement; how many there were."""


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _lease() -> str:
    return (datetime.now(UTC) + timedelta(seconds=30)).isoformat()


def by_psycopg(url: str) -> tuple[Batch, Callable[[], None]]:
    """The driver of PostgreSQL by itself, one statement for all rows of a batch."""
    connection: Any = psycopg.connect(url)
    claim = _CLAIM.format(*["%s"] * 4, " FOR UPDATE SKIP LOCKED")
    rows = "unnest(%s::bigint[], %s::integer[]) AS ended(id, number)"
    attempts = f"INSERT INTO bare_attempts SELECT id, number, 'w', 'succeeded', %s, %s FROM {rows}"
    events = "INSERT INTO bare_events SELECT %s, 'succeeded', unnest(%s::bigint[])"
    finish = (
        "UPDATE bare_jobs SET status = 'succeeded', result = 'null', locked_by = NULL, locked_until = NULL,"
        f" updated_at = %s, finished_at = %s FROM {rows} WHERE bare_jobs.id = ended.id"
        " AND attempts = ended.number AND status = 'processing'"
    )

    def batch() -> int:
        with connection.transaction():
            now = _now()
            found = connection.execute(claim, (_lease(), now, now, BATCH)).fetchall()
        done = _now()
        ids, numbers = [one[0] for one in found], [one[1] for one in found]
        with connection.transaction():
            connection.execute(attempts, (now, done, ids, numbers))
            connection.execute(events, (done, ids))
            connection.execute(finish, (done, done, ids, numbers))
        return len(found)

    return batch, connection.close


def by_sqlite3(url: str) -> tuple[Batch, Callable[[], None]]:
    """The driver of SQLite by itself."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    connection.execute("PRAGMA synchronous=FULL")
    claim = _CLAIM.format(*["?"] * 4, "")
    attempt, event, finish = (text.format(*["?"] * 4) for text in (_ATTEMPT, _EVENT, _FINISH))

    def batch() -> int:
        now = _now()
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(claim, (_lease(), now, now, BATCH)).fetchall()
        connection.execute("COMMIT")
        done = _now()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(attempt, [(job, number, now, done) for job, number, _ in found])
        connection.executemany(event, [(done, job) for job, _, _ in found])
        connection.executemany(finish, [(done, done, job, number) for job, number, _ in found])
        connection.execute("COMMIT")
        return len(found)

    return batch, connection.close


def by_sqlalchemy(url: str) -> tuple[Batch, Callable[[], None]]:
    """SQLAlchemy Core, on either database; statements built once."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    server = engine.dialect.name == "postgresql"
    metadata = sa.MetaData()
    metadata.reflect(engine, only=["bare_jobs", "bare_attempts", "bare_events"])
    jobs, attempts, events = (metadata.tables[f"bare_{name}"] for name in ("jobs", "attempts", "events"))
    c, p = jobs.c, sa.bindparam
    ready = sa.select(c.id).where(c.status == "pending", c.run_at <= p("now"))
    ready = ready.order_by(c.priority, c.run_at, c.id).limit(p("most"))
    claim = (
        sa.update(jobs)
        .where(c.id.in_(ready.with_for_update(skip_locked=True) if server else ready))
        .values(
            status="processing", attempts=c.attempts + 1, locked_by="w", locked_until=p("until"),
            updated_at=p("now"),
        )
        .returning(c.id, c.attempts, c.payload)
    )  # fmt: skip
    finish = (
        sa.update(jobs)
        .where(sa.tuple_(c.id, c.attempts).in_(p("ended", expanding=True)), c.status == "processing")
        .values(status="succeeded", result="null", locked_by=None, locked_until=None, updated_at=p("done"),
                finished_at=p("done"))
    )  # fmt: skip
    connection = engine.connect()

    def batch() -> int:
        with connection.begin():
            now = _now()
            found = connection.execute(claim, {"now": now, "until": _lease(), "most": BATCH}).all()
        if not found:
            return 0
        done = _now()
        with connection.begin():
            connection.execute(
                sa.insert(attempts),
                [
                    {"job_id": job, "attempt": number, "worker": "w", "outcome": "succeeded",
                     "started_at": now, "finished_at": done}
                    for job, number, _ in found
                ],
            )  # fmt: skip
            connection.execute(
                sa.insert(events), [{"at": done, "kind": "done", "job_id": n} for n, *_ in found]
            )
            connection.execute(finish, {"ended": [(one[0], one[1]) for one in found], "done": done})
        return len(found)

    def close() -> None:
        connection.close()
        engine.dispose()

    return batch, close


LOOPS: dict[str, Callable[[str], tuple[Batch, Callable[[], None]]]] = {
    "psycopg loop": by_psycopg,
    "sqlite3 loop": by_sqlite3,
    "SQLAlchemy loop": by_sqlalchemy,
}


def work(name: str, url: str, said: Connection) -> None:
    """One worker: batches until nothing is left; says when it began and ended."""
    batch, close = LOOPS[name](url)
    said.send(None)
    said.recv()
    began, count = time.time(), 0
    while found := batch():
        count += found
        ended = time.time()
    said.send((began, ended if count else began, count))
    close()


def drain(name: str, database: str, count: int, workers: int) -> float:
    """Jobs a second of one loop on a fresh database."""
    with fresh(database) as url:
        fill(url, count)
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(workers)]
        processes = [context.Process(target=work, args=(name, url, theirs)) for _, theirs in pipes]
        for process in processes:
            process.start()
        for ours, _ in pipes:
            ours.recv()
        for ours, _ in pipes:
            ours.send("go")
        said = [ours.recv() for ours, _ in pipes]
        for process in processes:
            process.join()
    assert sum(one[2] for one in said) == count, said
    return count / (max(one[1] for one in said) - min(one[0] for one in said))


def fill(url: str, count: int) -> None:
    """The tables, and *count* jobs that are due."""
    now, payload = _now(), json.dumps({"text": "x" * 200})
    rows = [(n, f"user-{n % 10}", now, payload, now, now) for n in range(count)]
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute("PRAGMA journal_mode=WAL")
            for table in _TABLES:
                connection.execute(table)
            connection.executemany(_INSERT.format(*["?"] * 6), rows)
        return
    with psycopg.connect(url) as server, server.cursor() as cursor:
        for table in _TABLES:
            cursor.execute(table.encode())
        cursor.executemany(_INSERT.format(*["%s"] * 6).encode(), rows)


def names_for(database: str) -> Sequence[str]:
    """The loops that run on *database*."""
    return ("sqlite3 loop" if database == "sqlite" else "psycopg loop", "SQLAlchemy loop")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {}
    for database in ("sqlite", "postgresql"):
        found[database] = in_turns(
            asked.rounds,
            {
                name: lambda n=name, d=database: drain(n, d, asked.jobs, asked.workers)  # type: ignore[misc]
                for name in names_for(database)
            },
        )
    if asked.json:
        print(json.dumps(found))
        return
    for database, rates in found.items():
        print(database, ", ".join(f"{name} {rate:,.0f} a second" for name, rate in rates.items()))


if __name__ == "__main__":
    main()
