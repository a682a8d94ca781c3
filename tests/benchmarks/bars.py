"""The bars: for each, what is measured, beside what, and the ratio that is wanted."""

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks import bulk_enqueue, drain, growth, http_jobs, intake, loops, pick_up, startup
from tests.benchmarks.peers import Peer, rates
from tests.benchmarks.places import fresh
from tests.benchmarks.report import Row, in_turns

BOTH = ("sqlite", "postgresql")
SLOWEST_PICKUP = 30.0  # ms on SQLite
MOST_MEGABYTES = 200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How much of it: rounds, which peers are measured too, databases, and the share of the sizes."""

    rounds: int = 3
    peers: Mapping[str, Peer] = field(default_factory=dict)
    databases: Sequence[str] = BOTH
    scale: float = 1.0

    def size(self, full: int) -> int:
        """*full*, made smaller."""
        return max(round(full * self.scale), 100)


def drains(asked: Asked, database: str) -> list[Row]:
    """P1 and P2: jobs that do nothing, one and two workers."""
    bar = "P1" if database == "postgresql" else "P2"
    rows = []
    for workers in (1, 2):
        ours = f"aijobs, {workers}"
        others = {
            name: functools.partial(_loop, name, asked, database, workers)
            for name in loops.names_for(database)
        }
        peers = {name: _peer(peer, "drain", asked, workers) for name, peer in _peers(asked, database).items()}
        found = in_turns(
            asked.rounds, {ours: functools.partial(_drain, asked, database, workers), **others, **peers}
        )
        rows += [
            Row(
                bar=bar, what=f"drain of {asked.size(10_000):,}, workers: {workers}", database=database,
                ours=found[ours], beside=name, theirs=found[name],
                at_least=DRAINS.get((database, name)),
            )
            for name in (*peers, *others)
        ]  # fmt: skip
    return rows


DRAINS: Mapping[tuple[str, str], float] = {
    ("postgresql", "pgqueuer"): 1.0,
    ("postgresql", "SQLAlchemy loop"): 0.6,
    ("sqlite", "huey"): 5.0,
    ("sqlite", "sqlite3 loop"): 0.4,
}
"""What is wanted of a drain; beside the others it is only told."""


def _drain(asked: Asked, database: str, workers: int) -> float:
    with fresh(database) as url:
        found = drain.drain(
            url, "noop", asked.size(10_000), workers=workers, concurrency=drain.CONCURRENCY, limits=True
        )
    return float(found["per_second"])


def _loop(name: str, asked: Asked, database: str, workers: int) -> float:
    return loops.drain(name, database, asked.size(10_000), workers)


def _peers(asked: Asked, database: str) -> dict[str, Peer]:
    return {name: peer for name, peer in asked.peers.items() if peer.database == database}


def _peer(peer: Peer, what: str, asked: Asked, workers: int) -> Callable[[], float]:
    slow = 1 if peer.name == "pgqueuer" else 5  # the others would take minutes
    return lambda: rates(peer, jobs=asked.size(10_000) // slow, workers=workers)[what]


def enqueues(asked: Asked, database: str) -> list[Row]:
    """P3: a file of keyed jobs as a whole process, and one job a call from Python."""
    count = asked.size(100_000)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.jsonl"
        bulk_enqueue.write_lines(file, count)
        contenders = {
            "bulk": lambda: _on(database, lambda url: bulk_enqueue.import_rate(url, file, count)),
            "single": lambda: _on(database, bulk_enqueue.single_rate),
            "insert and commit": lambda: _on(database, bulk_enqueue.bare_rate),
        }
        bulk = {
            name: _peer(peer, "bulk", asked, 1)
            for name, peer in _peers(asked, database).items()
            if name != "huey"
        }
        found = in_turns(asked.rounds, contenders | bulk)
    bars = {"pgqueuer": 0.6}
    rows = [
        Row(
            bar="P3", what=f"enqueue --jsonl, {count:,} keyed lines", database=database, ours=found["bulk"],
            beside=f"bulk enqueue of {name}", theirs=found[name], at_least=bars.get(name),
        )
        for name in bulk
    ]  # fmt: skip
    single = Row(
        bar="P3", what="one enqueue a call, from Python", database=database, ours=found["single"],
        beside="a bare insert and commit", theirs=found["insert and commit"], at_least=0.5,
    )  # fmt: skip
    return [*rows, single]


def _on(database: str, run: Callable[[str], float]) -> float:
    with fresh(database) as url:
        return run(url)


def pick_ups(asked: Asked, database: str) -> list[Row]:
    """P4: an idle worker, one job, and how long until its call goes out."""
    count = asked.size(200)
    what = f"pick-up by an idle worker, p95 of {count}"
    contenders = {"ours": lambda: _p95(database, pick_up.ours_on, count)}
    if database == "postgresql":
        contenders["a bare LISTEN loop"] = lambda: _p95(database, pick_up.bare_on, count)
    found = in_turns(asked.rounds, contenders)
    beside, theirs, most = "30 ms", SLOWEST_PICKUP, 1.0
    if database == "postgresql":
        beside, theirs, most = "a bare LISTEN loop", found["a bare LISTEN loop"], 2.0
    return [
        Row(
            bar="P4", what=what, database=database, ours=found["ours"], beside=beside, theirs=theirs,
            unit="ms", at_most=most,
        )
    ]  # fmt: skip


def _p95(database: str, run: Callable[[str, int], list[float]], count: int) -> float:
    with fresh(database) as url:
        return float(pick_up.row(database, "", run(url, count))["p95"])


def grown(asked: Asked, database: str) -> list[Row]:
    """P5: drains beside crowds of other jobs."""
    return [
        growth.measure(database, name, jobs=5_000, rounds=asked.rounds, scale=asked.scale)
        for name in growth.CASES
    ]


def over_http(asked: Asked, database: str) -> list[Row]:
    """P6: whole jobs over HTTP."""
    return http_jobs.measure(database, jobs=asked.size(4_000), rounds=asked.rounds)


def slow_calls(asked: Asked, database: str) -> list[Row]:
    """P7: a thousand slow calls in flight in one worker."""
    count = asked.size(1_000)
    megabytes: list[float] = []
    lost: list[float] = []

    def run() -> float:
        with fresh(database) as url:
            found = drain.drain(url, "slow", count, workers=1, concurrency=count, limits=True)
        megabytes.append(found["megabytes"])
        lost.append(found["lost"])
        return float(found["seconds"])

    seconds = in_turns(asked.rounds, {"ours": run})["ours"]
    what = f"{count:,} calls of {drain.SLOW_SECONDS:g} s at once in one worker"
    row = functools.partial(Row, bar="P7", database=database)
    return [
        row(
            what=what, ours=count / seconds, beside="ideal", theirs=count / drain.SLOW_SECONDS, at_least=0.9
        ),
        row(
            what=f"{what}: memory", ours=max(megabytes), unit="MB", beside="200 MB", theirs=MOST_MEGABYTES,
            at_most=1.0,
        ),
        row(
            what=f"{what}: leases lost", ours=max(lost), unit="leases", beside="none", theirs=1.0,
            at_most=0.0,
        ),
    ]  # fmt: skip


def starts(asked: Asked, database: str) -> list[Row]:
    """P8: commands that have next to nothing to do; on SQLite only."""
    return startup.measure(3 * asked.rounds) if database == "sqlite" else []


def intakes(asked: Asked, database: str) -> list[Row]:
    """P10: webhooks."""
    return [intake.measure(database, count=asked.size(500), rounds=asked.rounds)]


BARS: Mapping[str, tuple[str, Callable[[Asked, str], list[Row]], Sequence[str]]] = {
    "P1": ("drain", drains, ("postgresql",)),
    "P2": ("drain", drains, ("sqlite",)),
    "P3": ("enqueue", enqueues, BOTH),
    "P4": ("pick-up", pick_ups, BOTH),
    "P5": ("growth", grown, BOTH),
    "P6": ("http", over_http, BOTH),
    "P7": ("slow-calls", slow_calls, BOTH),
    "P8": ("startup", starts, ("sqlite",)),
    "P10": ("intake", intakes, BOTH),
}
"""By id: another name for it, how it is measured, and on which databases. P9 is `tests.benchmarks.scale`."""
