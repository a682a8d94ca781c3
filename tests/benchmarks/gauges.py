"""What is read off a database while jobs go through it: sizes, dead rows, HOT updates, buffers, log, room.

Nothing here is a duration: what a day costs is told in pages, bytes and processor time of the server, which
other work on the machine disturbs little or not at all.
"""

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, event, text

from aijobs.store import claims
from aijobs.store.engine import Store
from tests.support.postgres import Server

HOT_TABLES = ("jobs", "rollups", "minutes", "providers", "provider_calls", "workers", "usage_days")
HEAD = 150
"""Rows a claim of a hundred looks at: its slots, and fifty to choose from."""

_TABLES = """
    SELECT relname, n_live_tup, n_dead_tup, n_tup_upd, n_tup_hot_upd, autovacuum_count, idx_scan, seq_scan,
           pg_table_size(relid), pg_indexes_size(relid)
    FROM pg_stat_user_tables WHERE schemaname = current_schema() ORDER BY pg_total_relation_size(relid) DESC
"""
_INDEXES = """
    SELECT indexrelname, idx_scan, pg_relation_size(indexrelid), relname
    FROM pg_stat_user_indexes WHERE schemaname = current_schema() ORDER BY relname, indexrelname
"""
_BLOAT = "SELECT dead_tuple_percent, free_percent FROM pgstattuple('jobs')"
_INDEX_BLOAT = "SELECT avg_leaf_density FROM pgstatindex(:name)"
_BUFFERS = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
_LOG = "SELECT pg_current_wal_insert_lsn() - '0/0'"
_DEAREST = """
    SELECT round((shared_blks_hit + shared_blks_read) / 1000.0), calls, wal_bytes, query
    FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY shared_blks_hit + shared_blks_read DESC LIMIT 16
"""
_DUE = """
    SELECT id FROM jobs WHERE turn IS NULL AND next_run_at <= %(now)s ORDER BY next_run_at LIMIT 1000
    FOR UPDATE SKIP LOCKED
"""
_MEGABYTE = 1024 * 1024


class Gauge(Protocol):
    """One way to look at a store that is at work."""

    def begin(self) -> None:
        """The day begins."""

    def noon(self) -> None:
        """The busiest time, with jobs in line."""

    def night(self) -> None:
        """The work is done, and what is old is going to be removed."""

    def end(self, claimed: int) -> dict[str, Any]:
        """The day is over; so many jobs were claimed in it."""

    def report(self) -> dict[str, Any]:
        """What only the end of the month tells."""

    def line(self, row: Mapping[str, Any]) -> str:
        """A day for people."""

    def text(self, report: Mapping[str, Any]) -> str:
        """The end for people."""


class ServerGauge:
    """PostgreSQL, asked for its own statistics."""

    def __init__(self, store: Store, server: Server) -> None:
        self._store = store
        self._pid = server.pid
        self._began: dict[str, float] = {}
        self._night: dict[str, float] = {}
        self._noon: dict[str, Any] = {}
        self._head = _statement_of_the_head(store)

    def begin(self) -> None:
        self._began = self._meters()

    def noon(self) -> None:
        """Pages that the statement at the head of a claim reads, for one job of those that it finds."""
        statement, values = self._head
        with _undone(self._store) as tx:
            values = values | {"now": self._store.clock.now(), "type": "summarize"}
            plan = _explained(tx, statement, values)
            due = _explained(tx, _DUE, {"now": values["now"]})
        found = max(1, plan["Actual Rows"])
        self._noon = {
            "head_pages": round(_pages(plan) / found, 2),
            "head_rows": round(plan["Actual Rows"]),
            "due_pages": _pages(due),
        }

    def night(self) -> None:
        self._night = self._meters()

    def end(self, claimed: int) -> dict[str, Any]:
        spent = {name: value - self._began[name] for name, value in self._night.items()}
        pruning = self._meters()["buffers"] - self._night["buffers"]
        row: dict[str, Any] = self._noon | {
            "prune_buffers_per_job": round(pruning / claimed),
            "wal_per_job": round(spent["wal"] / claimed),
            "buffers_per_job": round(spent["buffers"] / claimed),
            "cpu_us_per_job": round(spent["cpu"] / claimed * 1e6),
        }  # fmt: skip
        with self._store.read() as tx:
            tables, indexes = _tables(tx), _indexes(tx)
            dead, free = tx.execute(text(_BLOAT)).one()
        jobs = tables["jobs"]
        row |= {
            "total_mb": round(sum(one["size"] + one["indexes"] for one in tables.values()) / _MEGABYTE, 1),
            "jobs_mb": round(jobs["size"] / _MEGABYTE, 1),
            "jobs_indexes_mb": round(jobs["indexes"] / _MEGABYTE, 1),
            "live": jobs["live"], "dead": jobs["dead"], "vacuums": jobs["vacuums"],
            "free_percent": round(free), "dead_percent": round(dead),
            "hot": {name: _share(tables[name]) for name in HOT_TABLES if tables[name]["updates"]},
            "sizes": {name: one["size"] + one["indexes"] for name, one in tables.items()},
            "indexes": {name: one["size"] for name, one in indexes.items() if one["table"] == "jobs"},
        }  # fmt: skip
        return row

    def report(self) -> dict[str, Any]:
        """Every table and index as they are at the end, and what the indexes of jobs are when made anew."""
        self._meters()
        with self._store.read() as tx:
            tables, indexes = _tables(tx), _indexes(tx)
            for name, one in indexes.items():
                if one["table"] == "jobs":
                    density = tx.execute(text(_INDEX_BLOAT), {"name": name}).scalar_one()
                    one["density"] = None if density != density else round(density)  # of an empty one: NaN
            dearest = [tuple(row) for row in tx.execute(text(_DEAREST))]
        with self._store.write() as tx:
            tx.execute(text("REINDEX TABLE jobs"))
            reindexed = tx.execute(text("SELECT pg_indexes_size('jobs')")).scalar_one()
        names = ("kilobuffers", "calls", "wal", "statement")
        return {
            "tables": tables, "all_indexes": indexes, "reindexed": reindexed,
            "dearest": [dict(zip(names, map(_plain, row), strict=True)) for row in dearest],
        }  # fmt: skip

    def line(self, row: Mapping[str, Any]) -> str:
        hot = " ".join(f"{name} {share}%" for name, share in row["hot"].items())
        return (
            f"day {row['day']:>2}: {row['total_mb']:>6} MB, jobs {row['jobs_mb']} + {row['jobs_indexes_mb']},"
            f" live {row['live']} dead {row['dead']} free {row['free_percent']}%, vacuums {row['vacuums']};"
            f" head {row['head_pages']} pages a job, due {row['due_pages']}; {row['wal_per_job']} B log,"
            f" {row['buffers_per_job']} + {row['prune_buffers_per_job']} buffers,"
            f" {row['cpu_us_per_job']} us; HOT {hot}; {row['seconds']} s"
        )

    def text(self, report: Mapping[str, Any]) -> str:
        lines = [f"{'table':<18} {'rows':>8} {'table kB':>9} {'index kB':>9} {'HOT':>5} {'vacuums':>8}"]
        for name, one in report["tables"].items():
            lines.append(
                f"{name:<18} {one['live']:>8} {one['size'] // 1024:>9} {one['indexes'] // 1024:>9}"
                f" {_share(one) if one['updates'] else '-':>5} {one['vacuums']:>8}"
            )
        lines.append(f"{'index':<36} {'kB':>8} {'full %':>7} {'scans':>9}")
        for name, one in report["all_indexes"].items():
            density = one.get("density") or "-"
            lines.append(f"{name:<36} {one['size'] // 1024:>8} {density:>7} {one['scans']:>9}")
        lines.append(f"the indexes of jobs written anew: {report['reindexed'] // 1024} kB")
        lines.append(f"{'1000 buffers':>12} {'calls':>8} {'log kB':>9}  statement")
        for one in report["dearest"]:
            words = " ".join(one["statement"].split())[:150]
            lines.append(f"{one['kilobuffers']:>12} {one['calls']:>8} {one['wal'] // 1024:>9}  {words}")
        return "\n".join(lines)

    def _meters(self) -> dict[str, float]:
        with self._store.write() as tx:  # the one connection there is tells what it has counted so far
            tx.execute(text("SELECT pg_stat_force_next_flush()"))
        with self._store.read() as tx:
            buffers, log = (float(tx.execute(text(query)).scalar_one()) for query in (_BUFFERS, _LOG))
        return {"buffers": buffers, "wal": log, "cpu": _processor(self._pid)}


class FileGauge:
    """SQLite: the file, and how much of it is free to be used again."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self) -> None:
        pass

    def noon(self) -> None:
        pass

    def night(self) -> None:
        pass

    def end(self, claimed: int) -> dict[str, Any]:
        with self._store.read() as tx:
            pages, free, size = (
                int(tx.execute(text(f"PRAGMA {name}")).scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            )
            kept = tx.execute(text("SELECT count(*) FROM jobs")).scalar_one()
        return {
            "file_mb": round(pages * size / _MEGABYTE, 1),
            "free_mb": round(free * size / _MEGABYTE, 1),
            "jobs": kept,
        }

    def report(self) -> dict[str, Any]:
        """What VACUUM makes of the file."""
        before = self.end(1)
        assert self._store.path
        with closing(sqlite3.connect(self._store.path)) as alone:
            alone.execute("VACUUM")
        return {"before": before, "after_vacuum": self.end(1)}

    def line(self, row: Mapping[str, Any]) -> str:
        sizes = f"{row['file_mb']:>6} MB, of them free {row['free_mb']} MB, {row['jobs']} jobs"
        return f"day {row['day']:>2}: {sizes}; {row['seconds']} s"

    def text(self, report: Mapping[str, Any]) -> str:
        return f"before VACUUM {report['before']}, after {report['after_vacuum']}"


def _tables(tx: Connection) -> dict[str, dict[str, Any]]:
    names = ("live", "dead", "updates", "hot", "vacuums", "idx_scan", "seq_scan", "size", "indexes")
    return {name: dict(zip(names, rest, strict=True)) for name, *rest in tx.execute(text(_TABLES))}


def _indexes(tx: Connection) -> dict[str, dict[str, Any]]:
    rows = tx.execute(text(_INDEXES))
    return {name: {"scans": scans, "size": size, "table": table} for name, scans, size, table in rows}


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


def _share(table: Mapping[str, Any]) -> int:
    return round(100 * int(table["hot"]) / int(table["updates"]))


def _explained(tx: Connection, statement: str, values: Mapping[str, Any]) -> dict[str, Any]:
    found = tx.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", dict(values))
    plan: dict[str, Any] = found.scalar_one()[0]["Plan"]
    return plan


def _pages(plan: Mapping[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _statement_of_the_head(store: Store) -> tuple[str, dict[str, Any]]:
    """The statement as the driver gets it: the very one that claims run."""
    seen: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, values: Any, *___: object) -> None:
        if re.search(r"\bjobs\b", statement):
            seen.append((statement, dict(values)))

    event.listen(store.engine, "before_cursor_execute", note)
    with store.write() as tx:
        claims.head(tx, "summarize", store.clock.now(), HEAD, None)
    event.remove(store.engine, "before_cursor_execute", note)
    return seen[-1]


@contextmanager
def _undone(store: Store) -> Iterator[Connection]:
    with store.engine.connect() as tx, tx.begin() as whole:
        yield tx
        whole.rollback()


def _processor(pid: int | None) -> float:
    """Seconds of processor time of a server and all its processes, ended ones too; 0: it is not ours."""
    if pid is None:
        return 0.0
    own = _times(pid)
    found = [_times(int(one.name)) for one in Path("/proc").iterdir() if one.name.isdigit()]
    ticks = sum(own[1:]) + sum(sum(times[1:3]) for times in found if times[0] == pid)
    return ticks / os.sysconf("SC_CLK_TCK")


def _times(pid: int) -> tuple[int, ...]:
    """(parent, user, system, user and system of ended children), times in ticks; zeros: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return (0,) * 5
    return (int(fields[1]), *(int(value) for value in fields[11:15]))
