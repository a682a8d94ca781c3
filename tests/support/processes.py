"""Workers as real processes, on jobs of kind python that a test can watch and hold."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from aijobs.core.clock import system_chance
from aijobs.core.config import load
from aijobs.core.model import Job
from aijobs.services.coordinator import Coordinator
from aijobs.services.sweeper import Sweeper
from aijobs.store import jobs
from aijobs.store.engine import Store, open_store
from tests.support.command_line import CommandLine, Result
from tests.support.forked import Forked, run_aijobs
from tests.support.jobs import new_job
from tests.support.wait import eventually

_IN_TRANSACTION = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
)
MODULE = '''\
"""Jobs that write down that they ran, and wait until they may end."""

import asyncio
import os
import time
from pathlib import Path

HERE = Path(__file__).parent


def note(what, given):
    line = f"{what} {given.get('n', '-')} {os.getpid()}\\n"
    descriptor = os.open(HERE / "ran.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, line.encode())
    os.close(descriptor)


async def held(given):
    note("held", given)
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return {"by": os.getpid()}


def blocking(given):
    note("blocking", given)
    while not (HERE / "go").exists():
        time.sleep(0.01)


async def hogging(given):
    note("hogging", given)
    while not (HERE / "go").exists():
        time.sleep(0.01)  # an async function that never yields


def poison(given):
    note("poison", given)
    os._exit(137)


def quick(given):
    note("quick", given)
    return given


async def two_calls(given, context):
    await context.acall("quick", input={"n": "first"})
    await held(given)
    await context.acall("quick", input={"n": "second"})
'''

CONFIG = """\
worker: {lease: 1s, grace: 20s, poll: 50ms}
providers:
  held: {kind: python, callable: "work:held"}
  blocking: {kind: python, callable: "work:blocking"}
  hogging: {kind: python, callable: "work:hogging"}
  poison: {kind: python, callable: "work:poison"}
  quick: {kind: python, callable: "work:quick"}
  two_calls: {kind: python, callable: "work:two_calls"}
types:
  held: {provider: held, timeout: 10m}
  blocking: {provider: blocking}
  hogging: {provider: hogging}
  poison: {provider: poison}
  quick: {provider: quick}
  two_calls: {provider: two_calls}
retry:
  worker_lost: {retries: 9, first: immediate, backoff: fixed, delay: 0s}
"""


@dataclass(slots=True)
class Process:
    """One program that runs in a site."""

    process: subprocess.Popen[str] | Forked

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def ended(self, timeout: float = 20) -> Result:
        """Wait for its end; what it said."""
        if isinstance(self.process, Forked):
            return self.process.ended(timeout)
        out, err = self.process.communicate(timeout=timeout)
        return Result(self.process.returncode, out, err)


class Site:
    """A folder with a configuration and a store, where workers run."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.cli = CommandLine(database)
        (folder / "work.py").write_text(MODULE)
        self.configure(CONFIG)
        self.store: Store = open_store(database, create=True)
        self._started: list[Process] = []

    def configure(self, yaml: str) -> None:
        """Write the configuration."""
        (self.folder / "aijobs.yaml").write_text(textwrap.dedent(yaml))

    def aijobs(self, *args: str) -> Result:
        """Run one command to its end."""
        return self._forked(*args).ended(60)

    def enqueue(self, type_name: str, n: int = 0, **changes: Any) -> str:
        """The id of a new job."""
        new = new_job({"n": n}, type=type_name, **changes)
        return self._coordinator().enqueue(new, actor="test").job.id

    def sweep(self) -> tuple[str, ...]:
        """The jobs whose expired leases a sweep has repaired."""
        return Sweeper(self._coordinator()).sweep()["expired_leases"].ids

    def _coordinator(self) -> Coordinator:
        path = self.folder / "aijobs.yaml"
        settings = load(path, environ={}, database=None)
        return Coordinator(self.store, settings, chance=system_chance())

    def worker(self, *args: str) -> Process:
        """Start a worker."""
        return self._forked("worker", "--json", *args)

    def _forked(self, *args: str) -> Process:
        words = ("--config", str(self.folder / "aijobs.yaml"), *args)
        environ = self.cli.process_environ()
        self._started.append(Process(Forked(run_aijobs, *words, environ=environ, folder=self.folder)))
        return self._started[-1]

    def worker_of(self, words: list[str]) -> Process:
        """Start the program *words* here; it is killed at the end of the test at the latest."""
        process = subprocess.Popen(
            words, cwd=self.folder, env=self.cli.process_environ(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._started.append(Process(process))
        return self._started[-1]

    def put_to_sleep(self, one: Process) -> None:
        """Stop it at a moment when it holds no lock, which would keep everybody else from writing."""
        while True:
            one.send(signal.SIGSTOP)
            if not self._locked():
                return
            one.send(signal.SIGCONT)

    def _locked(self) -> bool:
        if self.store.path is None:
            with self.store.read() as tx:
                return bool(tx.execute(_IN_TRANSACTION).scalar())
        try:
            with contextlib.closing(sqlite3.connect(self.store.path, timeout=0.2)) as connection:
                connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False

    def ran(self, what: str | None = None) -> list[list[str]]:
        """What ran, in order: [what, n, pid]."""
        path = self.folder / "ran.txt"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if what is None or line[0] == what]

    def until_ran(self, what: str, times: int = 1) -> list[list[str]]:
        """Wait until it ran so often."""
        eventually(lambda: len(self.ran(what)) >= times, 20)
        return self.ran(what)

    def go(self) -> None:
        """Let what is held end."""
        (self.folder / "go").touch()

    def job(self, job_id: str) -> Job:
        """The job as the store has it now."""
        with self.store.read() as tx:
            found = jobs.get(tx, job_id)
        assert found is not None
        return found

    def until_free(self, job_id: str) -> None:
        """Wait for the end of a lease on it: a worker that starts earlier looks again in five seconds."""
        now = self.store.clock.now
        eventually(lambda: (self.job(job_id).locked_until or now()) <= now())

    def outcomes(self, job_id: str) -> list[str]:
        """How its attempts ended."""
        with self.store.read() as tx:
            return [one.outcome.value for one in jobs.executions_of(tx, job_id)]

    def result(self, job_id: str) -> Any:
        """Its result."""
        with self.store.read() as tx:
            text = jobs.result_of(tx, job_id)
        return None if text is None else json.loads(text)

    def close(self) -> None:
        """Kill what still runs."""
        for one in self._started:
            if one.process.poll() is None:
                one.process.kill()
                one.ended()
        self.store.close()


@contextmanager
def site(folder: Path, database: str) -> Iterator[Site]:
    """A site for as long as the block lasts."""
    one = Site(folder, database)
    try:
        yield one
    finally:
        one.close()


def caught_signals(pid: int) -> set[int]:
    """The signals a process has handlers for, as the kernel sees it (Linux)."""
    return _signals(pid, "SigCgt")


def _signals(pid: int, which: str) -> set[int]:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{which}:"):
            mask = int(line.split()[1], 16)
            return {number for number in range(1, 65) if mask >> (number - 1) & 1}
    raise AssertionError(f"no signal mask of {pid} on {os.uname().sysname}")
