"""Workers under test: providers that do as they are told, and a worker in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aijobs.core.clock import Chance, seeded_chance
from aijobs.core.log_events import Level, LogEvent
from aijobs.core.model import Done, ErrorClass, Failure, Reply
from aijobs.core.settings import Settings
from aijobs.providers.contract import Adapter, Call, PollFailed
from aijobs.services.coordinator import Coordinator
from aijobs.services.worker import Worker, WorkerOptions, WorkerReport
from aijobs.services.worker.crew import Crew
from aijobs.store.engine import Store
from tests.support.jobs import settings_of
from tests.support.wait import eventually

QUICK: dict[str, Any] = {
    "poll": timedelta(seconds=0.02),
    "repair_every": timedelta(seconds=0.05),
    "renew_every": timedelta(seconds=0.05),
    "grace": timedelta(seconds=5),
}
"""Options with which nothing waits for long; the lease stays at its minute."""

Answer = Reply | PollFailed
Script = Callable[[Call], Any]
"""What a provider answers to a call: an `Answer`, or an awaitable of one."""


class Latch:
    """Closed until a test opens it; whoever waits for it lives in a worker's event loop."""

    def __init__(self) -> None:
        self.open = threading.Event()

    async def passed(self) -> None:
        while not self.open.is_set():  # noqa: ASYNC110  # it is opened from another thread
            await asyncio.sleep(0.002)


def done(call: Call) -> Reply:
    """The answer of a provider that has nothing to complain about."""
    return Done(result='"done"')


class ScriptedProvider:
    """An adapter whose answers a test writes; *asked* holds every request as (verb, job id)."""

    def __init__(
        self, submit: Script = done, *, poll: Script | None = None, cancel: Script | None = None
    ) -> None:
        self.name = "p"
        self.asked: list[tuple[str, str]] = []
        self.calls: list[Call] = []
        self.closed = False
        self._scripts = {"submit": submit, "poll": poll or done, "cancel": cancel or _stopped}
        self._lock = threading.Lock()

    async def submit(self, call: Call) -> Reply:
        answer = await self._answer("submit", call)
        assert not isinstance(answer, PollFailed)
        return answer

    async def poll(self, call: Call, provider_job_id: str) -> Answer:
        return await self._answer("poll", call)

    async def cancel(self, call: Call, provider_job_id: str) -> Answer:
        return await self._answer("cancel", call)

    async def close(self) -> None:
        self.closed = True

    def count(self, verb: str) -> int:
        """How often *verb* was asked of it."""
        return sum(one == verb for one, _ in self.asked)

    async def _answer(self, verb: str, call: Call) -> Answer:
        with self._lock:
            self.asked.append((verb, call.job_id))
            self.calls.append(call)
        answer = self._scripts[verb](call)
        found: Answer = await answer if isinstance(answer, Awaitable) else answer
        return found


def _stopped(call: Call) -> Answer:
    return Failure(error_class=ErrorClass.CANCELLED, code="cancelled", message="stopped")


@dataclass
class Providers:
    """Every provider by name, or one for all."""

    one: Adapter
    closed: bool = False

    def get(self, name: str) -> Adapter:
        return self.one

    def configure(self, settings: Settings) -> None:
        self.settings = settings

    async def close(self) -> None:
        self.closed = True
        await self.one.close()


@dataclass
class Running:
    """A worker in a thread. Leaving the block stops it at once, whatever it does."""

    worker: Worker
    provider: Any
    coordinator: Coordinator
    fault: BaseException | None = None
    report: WorkerReport | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name="worker under test", daemon=True)

    def _run(self) -> None:
        try:
            self.report = self.worker.run()
        except BaseException as fault:
            self.fault = fault

    @property
    def crew(self) -> Crew:
        """What its present run is made of."""
        found = eventually(lambda: self.worker._crew)
        assert found is not None
        return found

    @property
    def so_far(self) -> WorkerReport:
        """What it has done up to now."""
        return self.crew.tally.report()

    def ended(self, timeout: float = 10.0) -> WorkerReport:
        """Wait for its end; what it reported. Raises what it raised."""
        self.thread.join(timeout)
        assert not self.thread.is_alive(), "the worker has not ended"
        if self.fault is not None:
            raise self.fault
        assert self.report is not None
        return self.report


def make_worker(
    store: Store, provider: Adapter | None = None, *, settings: Settings | None = None,
    coordinator: Coordinator | None = None, chance: Chance | None = None, log: Any = None,
    source: Any = None, options_of: Any = None, tracing: Any = None, **options: Any,
) -> Running:  # fmt: skip
    """A worker that has not been started yet."""
    settings = settings or settings_of()
    chance = chance or seeded_chance(7)
    coordinator = coordinator or Coordinator(store, settings, chance=chance, tracing=tracing)
    provider = provider or ScriptedProvider()
    worker = Worker(
        store, coordinator, settings, Providers(provider), options=WorkerOptions(**(QUICK | options)),
        chance=chance, log=log, source=source, options_of=options_of,
    )  # fmt: skip
    return Running(worker, provider, coordinator)


@contextlib.contextmanager
def running(store: Store, provider: Adapter | None = None, **options: Any) -> Iterator[Running]:
    """A worker at work for as long as the block lasts."""
    one = make_worker(store, provider, **options)
    one.thread.start()
    try:
        yield one
    finally:
        one.worker.stop_now("the test is over")
        one.thread.join(10)
        assert not one.thread.is_alive(), "the worker did not stop"


def drain(store: Store, provider: Adapter | None = None, **options: Any) -> WorkerReport:
    """Run a worker until nothing is left."""
    one = make_worker(store, provider, drain=True, **options)
    one.thread.start()
    return one.ended(30)


class Heard:
    """A log that keeps what happened, as (event, fields)."""

    def __init__(self) -> None:
        self.said: list[tuple[LogEvent, dict[str, object]]] = []

    def wants(self, event: LogEvent) -> bool:
        return True

    def emit(self, event: LogEvent, /, *, level: Level | None = None, **fields: object) -> None:
        self.said.append((event, fields))

    def fields_of(self, event: LogEvent) -> list[dict[str, object]]:
        """The fields of every time *event* happened."""
        return [fields for one, fields in self.said if one is event]
