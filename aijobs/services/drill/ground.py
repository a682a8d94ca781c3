"""The ground of one drill: names of its own, a configuration, a provider, processes; all of it goes again."""

import contextlib
import json
import signal
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aijobs.core.clock import Chance
from aijobs.core.config import load
from aijobs.core.errors import StoreError
from aijobs.core.model import Execution, Job, NewJob
from aijobs.core.settings import Settings
from aijobs.core.signing_key import PREFIX
from aijobs.services.coordinator import Coordinator, Enqueued
from aijobs.services.drill.names import name_of, new_name
from aijobs.services.drill.processes import Process, environ_for
from aijobs.services.drill.provider import Provider, StartProvider
from aijobs.services.drill.report import Check
from aijobs.services.submission import Request, new_job
from aijobs.store import jobs, locks, traces, workers
from aijobs.store.engine import Store

PATIENCE = 45.0
"""Seconds a drill waits for something to happen before it says that it did not."""

ACTOR = "drill"
_LOOK_EVERY = 0.05
_FREE_WITHIN = 0.3
_MODEL = "drill-model"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What drills are given: a store that is there, its URL as it was written, a folder of their own."""

    store: Store
    url: str
    folder: Path
    environ: Mapping[str, str]
    chance: Chance
    start_provider: StartProvider


class Ground:
    """Where one drill happens. On a store that others use, nothing of theirs is touched."""

    def __init__(self, around: Surroundings, provider: Provider) -> None:
        self.name = new_name(around.chance)
        self.store = around.store
        self.provider = provider
        self.chance = around.chance
        self.secret = around.chance.getrandbits(256).to_bytes(32, "big")
        self.patience = PATIENCE
        self.settings: Settings
        self.coordinator: Coordinator
        self._folder = around.folder / self.name
        self._environ = environ_for(around.environ, around.url)
        self._never = threading.Event()
        self._processes: dict[str, Process] = {}
        self._folder.mkdir(mode=0o700)
        with self.store.read() as tx:
            self._last_event = traces.last_event(tx)

    # --- Names and configuration ---

    def type(self, what: str) -> str:
        """The job type called *what* here."""
        return name_of(self.name, what)

    def user(self, who: str) -> str:
        """The user called *who* here."""
        return name_of(self.name, who)

    def configure(
        self, types: Mapping[str, Mapping[str, object]], *, provider: Mapping[str, object] | None = None,
        retry: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        """Write the configuration that everybody here goes by."""
        secret = self._folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(PREFIX + b64encode(self.secret).decode(), encoding="ascii")
        at = {"kind": "simulator", "base_url": self.provider.url}
        plain = {"provider": self.name, "model": _MODEL, "tier": "medium", "notify": [self.name]}
        document = {
            "worker": {"lease": "30s", "grace": "2s", "poll": "50ms"},
            # The built-in provider is named so that no worker starts one of its own.
            "providers": {
                "simulator": at,
                self.name: at | {"webhook_secret": f"file:{secret}"} | dict(provider or {}),
            },
            "types": {self.type(what): plain | dict(kind) for what, kind in types.items()},
            "notify": {self.name: {"kind": "log", "on": ["succeeded", "dead_letter", "cancelled"]}},
            "retry": dict(retry or {}) | {"budget": {"floor": 1000}},
        }
        self._config.write_text(json.dumps(document, indent=2), encoding="utf-8")
        self.settings = load(self._config, environ={}, database=self.store.url)
        self.coordinator = Coordinator(self.store, self.settings, chance=self.chance)

    @property
    def _config(self) -> Path:
        return self._folder / "aijobs.yaml"

    # --- Processes ---

    def worker(self, *whats: str, args: Sequence[str] = ()) -> Process:
        """A worker for these types and no others: on a shared store it leaves foreign jobs alone."""
        name = name_of(self.name, str(len(self._processes) + 1))
        types = [word for what in whats for word in ("--type", self.type(what))]
        return self._start(name, "worker", "--name", name, *types, *args, "--json")

    def ready(self, *started: Process) -> None:
        """Wait until each of these workers is at work."""
        wanted = {name for name, process in self._processes.items() if process in started}

        def signed_on() -> bool:
            with self.store.read() as tx:
                there = {one.name for one in workers.listed(tx)}
            return wanted <= there or any(process.code is not None for process in started)

        self.until(signed_on)

    def serve(self) -> str:
        """A server for webhooks; its URL, or nothing when it does not come up."""
        process = self._start(name_of(self.name, "serve"), "serve", "--port", "0", "--json")
        self.until(lambda: process.code is not None or process.document())
        return str(process.document().get("url", ""))

    def run(self, *args: str) -> Process:
        """Any other command, to its end."""
        process = self._start(name_of(self.name, f"command{len(self._processes)}"), *args)
        process.ended(self.patience)
        return process

    def _start(self, name: str, *args: str) -> Process:
        process = Process(["--config", str(self._config), *args], self._environ, self._folder / name)
        self._processes[name] = process
        return process

    def troubles(self) -> Iterator[Check]:
        """Processes that ended in a way no drill asks for; none in a good run."""
        for name, process in self._processes.items():
            well = process.code in (None, 0) or (process.code == 1 and process.document())
            if not well and not process.killed:
                saw = f"{name} ended with exit code {process.code}: {process.last_words()}"
                yield Check(expected="every process does its work", saw=saw, ok=False)

    # --- Jobs ---

    def enqueue(self, what: str, given: object, *, who: str = "ana", key: str | None = None) -> Job:
        """Accept one job. Raises Conflict, StoreError."""
        return self.coordinator.enqueue(self._new(what, given, who, key), actor=ACTOR).job

    def enqueue_all(self, what: str, wishes: Sequence[tuple[object, str]]) -> list[str]:
        """Accept many at one instant, each as (input, who); their ids. Raises StoreError."""
        new = [self._new(what, given, who, None) for given, who in wishes]
        answers = self.coordinator.enqueue_many(new, actor=ACTOR)
        return [answer.job.id for answer in answers if isinstance(answer, Enqueued)]

    def _new(self, what: str, given: object, who: str, key: str | None) -> NewJob:
        request = Request(type=self.type(what), input=given, user=self.user(who), key=key)
        return new_job(request, self.settings, now=self.store.clock.now())

    def job(self, job_id: str) -> Job:
        """The job as it is now."""
        return self.jobs([job_id])[0]

    def jobs(self, ids: Sequence[str]) -> list[Job]:
        """Several, in that order."""
        with self.store.read() as tx:
            found = jobs.many(tx, ids)
        return [found[job_id] for job_id in ids]

    def final(self, ids: Sequence[str]) -> bool:
        """Whether all of them have ended."""
        return all(job.status.final for job in self.jobs(ids))

    def attempts(self, job_id: str) -> list[Execution]:
        """Its attempts, in the order they were begun."""
        with self.store.read() as tx:
            return jobs.executions_of(tx, job_id)

    def told(self, job_id: str) -> int:
        """How many notifications of it there are."""
        with self.store.read() as tx:
            return len(jobs.notifications_of(tx, job_id))

    def put_to_sleep(self, process: Process, ids: Sequence[str]) -> None:
        """Stop it at a moment when it holds no lock, which would keep everybody else from writing."""
        process.sleep()
        while not locks.are_free(self.store, ids, wait=_FREE_WITHIN) and process.code is None:
            process.wake()
            self._never.wait(_LOOK_EVERY)
            process.sleep()

    # --- Time ---

    def until(self, look: Callable[[], T], *, patience: float | None = None) -> T:
        """What *look* gives once it is true, or gives last when patience is at its end."""
        clock = self.store.clock
        end = clock.monotonic() + (self.patience if patience is None else patience)
        while not (found := look()) and clock.monotonic() < end:
            self._never.wait(_LOOK_EVERY)
        return found

    # --- The end ---

    def close(self) -> None:
        """End every process and remove everything from the store. Raises StoreError."""
        with _undisturbed():
            for process in self._processes.values():
                process.kill()
            with self.store.write() as tx:
                traces.remove(tx, self._names())

    def _names(self) -> traces.Names:
        types = [name for name in self.settings.types if name.startswith(self.name)]
        return traces.Names(
            types=types, providers=[self.name], workers=list(self._processes), after_event=self._last_event
        )


@contextlib.contextmanager
def ground(around: Surroundings) -> Iterator[Ground]:
    """A ground with a provider. Whatever happens in the block, nothing is left at its end.

    Raises StoreError, with a hint at what is left, when the store went away for good: see `leftovers`.
    """
    with around.start_provider() as provider:
        one = Ground(around, provider)
        one.configure({})
        try:
            yield one
        finally:
            try:
                one.close()
            except StoreError as error:
                error.hint = f"what {one.name} put into the store is still there; a later drill removes it"
                raise


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no second Ctrl-C keep us from clearing up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept: dict[signal.Signals, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        kept[number] = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
