"""`python -m tests.replay_kills --seeds 20 --database both`: kill -9 a replay at a random moment, resume it.

Each round makes a store with dead letters, a worker that runs all the time, and `aijobs deadletter replay`
as a process of its own, which is killed at a moment that the seed chooses, resumed, killed again at another
moment, and resumed to its end. What every job has been through is read from the history, which nothing
rewrites.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from aijobs.core.clock import seeded_chance
from aijobs.core.model import ErrorClass
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs, replays
from aijobs.store.engine import Store, open_store
from tests.support.command_line import ROOT, CommandLine
from tests.support.jobs import claim_some, fail, new_job, settings_of
from tests.support.postgres import running_server
from tests.support.wait import eventually
from tests.support.workers import running

JOBS = 60
WHOLE_RUN = 2.5
"""Seconds within which a kill falls, counted from the start of the replay, which takes about as long."""

CONFIG = 'providers: {p: {kind: python, callable: "builtins:str"}}\ntypes: {t: {provider: p}}\n'
_WORDS = ("deadletter", "replay", "--yes", "--json")
_PACE = ("--all", "--rate", "40/s", "--batch-size", "5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one seed did, and what was found afterwards. *killed* are (seconds, replayed until then)."""

    seed: int
    killed: tuple[tuple[float, int], ...]
    succeeded: int
    twice: tuple[str, ...]
    forgotten: tuple[str, ...]

    @property
    def well(self) -> bool:
        """Whether every job was replayed once and only once."""
        return not self.twice and not self.forgotten and self.succeeded == JOBS


def play(seed: int, database: str, folder: Path) -> Round:
    """One round, on an empty database."""
    dice = random.Random(seed)
    (folder / "aijobs.yaml").write_text(CONFIG)
    store = open_store(database, create=True)
    try:
        dead = _die(store)
        with running(store):
            killed = [_killed(folder, database, store, _PACE, after=dice.uniform(0, WHOLE_RUN))]
            resume = ("--resume", _plan(store))
            killed.append(_killed(folder, database, store, resume, after=dice.uniform(0, WHOLE_RUN / 2)))
            _finish(folder, database, resume)
            eventually(lambda: _counts(store)["replayed"] == 0, 30)
        return _accounted(seed, store, dead, tuple(killed))
    finally:
        store.close()


def _die(store: Store) -> list[str]:
    coordinator = Coordinator(store, settings_of(), chance=seeded_chance(1))
    new = [new_job({"n": n}, max_attempts=1) for n in range(JOBS)]
    made = [one.job.id for one in coordinator.enqueue_many(new, actor="t")]  # type: ignore[union-attr]
    for claim in claim_some(coordinator, JOBS):
        fail(coordinator, claim.job, ErrorClass.BAD_RESPONSE)
    return made


def _killed(
    folder: Path, database: str, store: Store, words: tuple[str, ...], *, after: float
) -> tuple[float, int]:
    """Start a replay and kill it so many seconds after it has begun to act; it may have ended before."""
    before = _begun(store)
    process = _start(folder, database, words)
    eventually(lambda: _begun(store) > before or process.poll() is not None, 60)
    time.sleep(after)
    process.kill()
    process.wait()
    return after, _round_twos(store)


def _finish(folder: Path, database: str, words: tuple[str, ...]) -> None:
    """Resume it until it has ended; refused as long as the dead one's lease lasts."""

    def over() -> bool:
        code = _start(folder, database, words).wait()
        assert code in (0, 4), code
        store = open_store(database)
        try:
            with store.read() as tx:
                return replays.newest(tx, 1)[0].state == "done"
        finally:
            store.close()

    eventually(over, 60)


def _start(folder: Path, database: str, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "tests.replay_kills", "--as-child", *_WORDS, *words]
    config = {"AIJOBS_CONFIG": str(folder / "aijobs.yaml")}
    return subprocess.Popen(
        line, cwd=ROOT, env=CommandLine(database).process_environ(config), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _plan(store: Store) -> str:
    with store.read() as tx:
        return replays.newest(tx, 1)[0].id


def _begun(store: Store) -> int:
    """How often a replay has been taken up."""
    with store.read() as tx:
        return sum(one.owner_token for one in replays.newest(tx, 10))


def _counts(store: Store) -> Counter[str]:
    with store.read() as tx:
        return Counter(item.state for item in replays.items(tx, _plan(store)))


def _round_twos(store: Store) -> int:
    counts = _counts(store)
    return counts["replayed"] + counts["succeeded"] + counts["failed"]


def _accounted(seed: int, store: Store, dead: list[str], killed: tuple[tuple[float, int], ...]) -> Round:
    twice, forgotten, well = [], [], 0
    with store.read() as tx:
        for job_id in dead:
            job = jobs.get(tx, job_id)
            runs = [one.round for one in jobs.executions_of(tx, job_id)]
            replayed = [one for one in jobs.events_of(tx, job_id) if one["kind"] == "replayed"]
            if len(replayed) > 1 or runs.count(2) > 1 or (job and job.round > 2):
                twice.append(job_id)
            if not replayed or 2 not in runs:
                forgotten.append(job_id)
            well += job is not None and job.status.value == "succeeded"
    return Round(seed=seed, killed=killed, succeeded=well, twice=tuple(twice), forgotten=tuple(forgotten))


# --- As a program -----------------------------------------------------------------------------------


@contextmanager
def databases(kind: str) -> Iterator[Callable[[Path], str]]:
    """What gives a round an empty database of *kind*."""
    if kind == "sqlite":
        yield lambda folder: f"sqlite:///{folder / 'jobs.db'}"
        return
    with running_server(None) as server, ExitStack() as schemas:
        yield lambda _: schemas.enter_context(server.new_schema())


def as_child(words: list[str]) -> None:
    """`aijobs`, with a replay whose lease is so short that a dead one need not be waited for."""
    from aijobs.cli.main import main
    from aijobs.services.replay import runner

    runner.LEASE = timedelta(seconds=0.5)
    runner.LOOK_EVERY = 0.02
    sys.argv = ["aijobs", *words]
    main()


def main() -> int:
    """Play every seed on every database; print a table; 1 when a job was replayed twice or forgotten."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay_kills")
    parser.add_argument("--seeds", type=int, default=20, help="how many, from 1 on")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    given = parser.parse_args()
    kinds = ("sqlite", "postgresql") if given.database == "both" else (given.database,)
    print("| database | seed | killed after, having replayed | and again | succeeded | twice | forgotten |")
    print("|---|---|---|---|---|---|---|")
    good = True
    for kind in kinds:
        with databases(kind) as fresh:
            for seed in range(given.first, given.first + given.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    one = play(seed, fresh(Path(folder)), Path(folder))
                print(_row(kind, one), flush=True)
                good = good and one.well
    return 0 if good else 1


def _row(kind: str, one: Round) -> str:
    kills = [f"{seconds:.2f} s, {count} of {JOBS}" for seconds, count in one.killed]
    cells = (kind, one.seed, *kills, f"{one.succeeded} of {JOBS}", len(one.twice), len(one.forgotten))
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-child"]:
        as_child(sys.argv[2:])
    else:
        sys.exit(main())
