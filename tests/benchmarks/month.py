"""A month of work in minutes: what grows in the database, what is used again, and what a claim costs late.

`python -m tests.benchmarks.month [--days 30] [--jobs-per-day 4800] [--json]` lives through so many days with
a clock moved by hand, on a PostgreSQL of its own: every hour jobs are taken in, claimed and ended in batches
by the coordinator, and at the day's end the pruner runs. Of a hundred jobs about ninety succeed at once,
three after a retry, three are parked with their provider and looked at later, two die, one is cancelled and
one is delayed. What has succeeded is kept for ten days (`--keep`), its input for a quarter of that, so that
two thirds of the month are steady state.

A day here is as short as the machine makes it, so autovacuum looks round every second (the shortest there is)
and never pauses to spare the disk. Thresholds that are a share of the table need no scaling; fixed ones are
as large as they always are and weigh more on a table so small. Full page images are off, which makes the
bytes of the log nearly the same in every run; so are the buffers, whatever else the machine does.

`--alter SQL` (again and again, if need be) changes the tables before the first day: to try what is not in
the schema yet. `--reads` runs every command that looks at the store afterwards and prints how often each
index was used. `--database sqlite` does the same month in a file.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from aijobs.core.clock import seeded_chance
from aijobs.core.lifecycle import AttemptEnd, Failed, Parked, Succeeded
from aijobs.core.model import ErrorClass, Failure, NewJob, Status
from aijobs.core.payload import dump_json, input_hash
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Ended
from aijobs.services.pruner import BATCH as BATCH_OF_PRUNE
from aijobs.services.pruner import Pruner
from aijobs.store import jobs
from aijobs.store.engine import Store, open_store
from tests.benchmarks.gauges import FileGauge, Gauge, ServerGauge
from tests.benchmarks.reading import look_at_everything
from tests.support.clock import ManualClock
from tests.support.postgres import running_server

SERVER = {
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_cost_delay": "0",
    "max_wal_size": "4GB",
    "shared_preload_libraries": "pg_stat_statements",
}
TYPES = ("summarize", "translate", "embed")
GIVEN = {"text": "x" * 400}
PAYLOAD, HASH = dump_json(GIVEN), input_hash(GIVEN)
RESULT = dump_json({"answer": "y" * 400})
BATCH = 100
USERS = 200
HOUR = timedelta(hours=1)
LEASE = timedelta(minutes=5)
CALL = timedelta(seconds=2)
MILLION = 1_000_000
"""Jobs a day that the month stands for: the pruner's batches are scaled, so that a night has as many."""

OLD_KEYS = timedelta(days=30)
"""A tenth of the keys outlive their jobs' retention, as where that is shorter than `keys.ttl`."""


def settings_with(keep_days: int) -> Settings:
    """Three types, limits that are counted but never reached, and what succeeded kept for *keep_days*."""
    kept = f"{keep_days}d"
    return Settings.model_validate(
        {
            "providers": {"simulator": {"kind": "simulator"}},
            "types": {name: {"provider": "simulator"} for name in TYPES},
            "concurrency": {"global": 100_000, "per_user": 50_000},
            "retry": {"budget": {"ratio": 1.0}},
            "retention": {
                "succeeded": kept, "cancelled": kept, "closed": kept, "inputs": f"{max(1, keep_days // 4)}d",
            },
        }
    )  # fmt: skip


class Month:
    """The life of one store, a day at a time."""

    def __init__(
        self, store: Store, clock: ManualClock, settings: Settings, *, per_day: int, prune_batch: int
    ) -> None:
        self.store = store
        self.clock = clock
        self.coordinator = Coordinator(store, settings, chance=seeded_chance(9))
        self.pruner = Pruner(store, settings, batch=prune_batch)
        self.per_hour = max(1, per_day // 24)
        self.claimed = 0
        self._made = 0

    def day(self, gauge: Gauge) -> None:
        """Twenty-four hours of work, then what `prune` does every night."""
        for hour in range(24):
            self._take_in()
            if hour == 12:
                gauge.noon()
            self._work(f"worker-{hour % 4}")
            self.clock.advance(HOUR)
        self._close_dead_letters()
        gauge.night()
        self.pruner.run()

    def _take_in(self) -> None:
        numbers = range(self._made, self._made + self.per_hour)
        self._made += self.per_hour
        for start in range(0, len(numbers), BATCH):
            batch = [self._new(n) for n in numbers[start : start + BATCH]]
            found = self.coordinator.enqueue_many(batch, actor="month")
            for n, one in zip(numbers[start : start + BATCH], found, strict=True):
                if n % 100 == 98:
                    self.coordinator.cancel(one.job.id, actor="month", reason="changed my mind")  # type: ignore[union-attr]

    def _new(self, n: int) -> NewJob:
        now = self.clock.now()
        return NewJob(
            type=TYPES[n % len(TYPES)],
            payload=PAYLOAD,
            input_hash=HASH,
            user=f"user-{n * 7919 % USERS}",
            key=f"key-{n}" if n % 2 else None,
            key_expires_at=now + (OLD_KEYS if n % 20 == 1 else timedelta(days=1)) if n % 2 else None,
            run_at=now + 5 * HOUR if n % 100 == 99 else None,
            deadline=now + timedelta(days=2) if n % 10 == 0 else None,
        )

    def _work(self, worker: str) -> None:
        request = ClaimRequest(worker=worker, slots=BATCH, lease=LEASE)
        while claims := self.coordinator.claim(request):
            self.claimed += len(claims)
            self.clock.advance(CALL)
            self.coordinator.finish([self._ended(claim, worker) for claim in claims])

    def _ended(self, claim: Claim, worker: str) -> Ended:
        end = self._end(claim, zlib.crc32(claim.job.id.encode()) % 100)
        return Ended(job=claim.job, end=end, started_at=self.clock.now() - CALL, worker=worker)

    def _end(self, claim: Claim, place: int) -> AttemptEnd:
        first = claim.job.attempts == 1 and not claim.resume
        if place < 2:
            return Failed(failure=Failure(error_class=ErrorClass.INVALID_REQUEST, message="no such model"))
        if place < 5 and first:
            return Failed(failure=Failure(error_class=ErrorClass.NETWORK, message="the line broke"))
        if place < 8 and first:
            return Parked(provider_job_id=f"batch-{claim.job.id}", poll_at=self.clock.now() + 2 * HOUR)
        return Succeeded(result=RESULT)

    def _close_dead_letters(self) -> None:
        """A person looks through them every evening."""
        wanted = jobs.Filter(statuses=(Status.DEAD_LETTER,), since=self.clock.now() - timedelta(days=1))
        with self.store.read() as tx:
            dead = jobs.page(tx, wanted, self.per_hour * 24)
        for job in dead:
            self.coordinator.close(job.id, actor="month", reason="looked at")


def live(month: Month, gauge: Gauge, days: int) -> Iterator[dict[str, Any]]:
    """A row a day."""
    for day in range(1, days + 1):
        began, claimed = time.perf_counter(), month.claimed
        gauge.begin()
        month.day(gauge)
        seconds = time.perf_counter() - began
        row = {"day": day, "claimed": month.claimed - claimed, "seconds": round(seconds, 1)}
        yield row | gauge.end(month.claimed - claimed)


@contextlib.contextmanager
def on_postgresql(options: argparse.Namespace, clock: ManualClock) -> Iterator[tuple[Store, Gauge]]:
    """A server with an autovacuum in a hurry, and its gauge."""
    with running_server(None, settings=SERVER) as server:
        server.execute("CREATE EXTENSION pgstattuple", "CREATE EXTENSION pg_stat_statements")
        store = open_store(server.url, clock=clock, create=True)
        server.execute(*options.alter)
        yield store, ServerGauge(store, server)
        store.close()


@contextlib.contextmanager
def in_a_file(options: argparse.Namespace, clock: ManualClock) -> Iterator[tuple[Store, Gauge]]:
    """A SQLite file, and its gauge."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'jobs.db'}", clock=clock, create=True)
        with store.write() as tx:
            for statement in options.alter:
                tx.execute(text(statement))
        yield store, FileGauge(store)
        store.close()


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--jobs-per-day", type=int, default=4_800)
    parser.add_argument("--keep", type=int, default=10, help="days for which what succeeded is kept")
    parser.add_argument(
        "--prune-batch", type=int, help="jobs removed at once; else as many batches a night as a million has"
    )
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--alter", action="append", default=[], metavar="SQL")
    parser.add_argument("--reads", action="store_true", help="run every command that reads, at the end")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main() -> None:
    """Live through it and print."""
    options, clock = parsed(), ManualClock()
    where = on_postgresql if options.database == "postgresql" else in_a_file
    with where(options, clock) as (store, gauge):
        per_day = options.jobs_per_day
        batch = options.prune_batch or max(1, round(BATCH_OF_PRUNE * per_day / MILLION))
        month = Month(store, clock, settings_with(options.keep), per_day=per_day, prune_batch=batch)
        days = []
        for row in live(month, gauge, options.days):
            days.append(row)
            print(gauge.line(row), file=sys.stderr if options.json else sys.stdout, flush=True)
        if options.reads:
            look_at_everything(store.url, TYPES)
        report = {"days": days, **gauge.report()}
    print(json.dumps(report) if options.json else gauge.text(report))


if __name__ == "__main__":
    main()
