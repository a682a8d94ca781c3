"""Background jobs on a simulator, a server that takes its webhooks, and workers that may die."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aijobs.core.clock import system_chance
from aijobs.core.config import load
from aijobs.core.model import Job
from aijobs.http.simulator import TEST_SECRET, RunningSimulator, start_in_thread
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from aijobs.store.engine import Store, open_store
from tests.support.command_line import CommandLine
from tests.support.crashing import run_until
from tests.support.forked import Forked
from tests.support.jobs import new_job
from tests.support.serving import serving
from tests.support.wait import eventually

CONFIG = """\
worker: {{lease: 1s, grace: 20s, poll: 50ms}}
providers:
  sim: {{kind: simulator, base_url: "{url}", webhook_secret: "file:{secret}"}}
types:
  work:
    provider: sim
    model: m
    background: true
    on_unknown_outcome: {on_unknown}
    background_options: {{poll_first: {poll}, poll_cap: {poll}}}
    prompt: "{{{{ n }}}}"
    notify: [log]
notify:
  log: {{kind: log, on: [succeeded, dead_letter, cancelled]}}
retry:
  worker_lost: {{retries: 9, first: immediate, backoff: fixed, delay: 0s}}
"""


class Fleet:
    """A store, a configuration, a simulator; workers are processes."""

    def __init__(self, folder: Path, database: str, simulator: RunningSimulator, **options: Any) -> None:
        self.simulator = simulator
        self.cli = CommandLine(database)
        secret = folder / "secret"
        secret.write_text(TEST_SECRET)
        values = {"on_unknown": "hold", "poll": "1s"} | options
        self.config = folder / "aijobs.yaml"
        self.config.write_text(CONFIG.format(url=simulator.url, secret=secret, **values))
        self.store: Store = open_store(database, create=True)
        self.settings = load(self.config, environ={}, database=database)
        self.coordinator = Coordinator(self.store, self.settings, chance=system_chance())
        self._started: list[Forked] = []

    def enqueue(self, count: int = 1) -> list[str]:
        new = [new_job({"n": n}, type="work") for n in range(count)]
        return [one.job.id for one in self.coordinator.enqueue_many(new, actor="test")]  # type: ignore[union-attr]

    def worker(self, *args: str, crash: str = "") -> Forked:
        """A worker that hurries; with *crash*, until it dies there."""
        words = ("--config", str(self.config), "worker", *args)
        environ = self.cli.process_environ()
        process = Forked(run_until, crash, *words, environ=environ, folder=self.config.parent)
        self._started.append(process)
        return process

    def job(self, job_id: str) -> Job:
        with self.store.read() as tx:
            found = jobs.get(tx, job_id)
        assert found is not None
        return found

    def until_free(self, job_id: str) -> None:
        """Wait for the end of a lease on it: a worker that starts earlier looks again in five seconds."""
        now = self.store.clock.now
        eventually(lambda: (self.job(job_id).locked_until or now()) <= now())

    def end_all(self) -> None:
        """Let the provider end all it works on, whatever the latency."""
        simulator = self.simulator._simulator

        def end() -> None:
            for work in simulator._works:
                work.begin()
                work.end(self.store.clock.now())

        self.simulator._inside(end)

    def statuses(self, ids: list[str]) -> Counter[str]:
        with self.store.read() as tx:
            return Counter(job.status.value for job in jobs.many(tx, ids).values())

    def outcomes(self, job_id: str) -> list[str]:
        with self.store.read() as tx:
            return [one.outcome.value for one in jobs.executions_of(tx, job_id)]

    def told(self, job_id: str) -> int:
        with self.store.read() as tx:
            return len(jobs.notifications_of(tx, job_id))

    def kinds(self, job_id: str) -> list[str]:
        with self.store.read() as tx:
            return [one["kind"] for one in jobs.events_of(tx, job_id)]

    def close(self) -> None:
        for process in self._started:
            process.kill()
        self.store.close()


@contextlib.contextmanager
def fleet(
    folder: Path, database: str, *, webhooks: bool = True, latency: float = 0.2, **options: Any
) -> Iterator[Fleet]:
    """A fleet; with *webhooks* a server takes those of the simulator."""
    with start_in_thread(latency=latency) as simulator, contextlib.ExitStack() as rest:
        one = Fleet(folder, database, simulator, **options)
        rest.callback(one.close)
        if webhooks:
            served = rest.enter_context(serving(one.store, settings=one.settings))
            simulator.set_webhook(f"{served.url}/webhooks/sim")
        yield one
        for process in one._started:  # before the simulator goes away
            process.kill()
