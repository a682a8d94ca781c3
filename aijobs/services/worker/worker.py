"""A worker: one process that claims jobs, calls their providers, and writes down how it went."""

import asyncio
import contextlib
import gc
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import Interrupted, StoreUnreachable
from aijobs.core.log_events import Log, LogEvent, Unheard
from aijobs.core.settings import Settings
from aijobs.providers.contract import ProvidersByName
from aijobs.services.coordinator import Coordinator
from aijobs.services.worker.crew import LONGEST_LEAVE, Crew
from aijobs.services.worker.options import WorkerOptions, WorkerReport
from aijobs.services.worker.reloading import Reloading, Source
from aijobs.services.worker.shift import UNWIND_SECONDS
from aijobs.services.worker.signals import Signals
from aijobs.store.engine import Store

T = TypeVar("T")

LAST_WRITES_SECONDS = 0.6
"""How long the last ends may take to be written once everything has been handed back."""
_MARGIN_SECONDS = LONGEST_LEAVE + UNWIND_SECONDS + 0.7
"""And to sign off and end by itself: whoever is cut short there cannot say what it could not save."""
_COLLECT_AFTER = 20_000
"""New objects until the garbage collector looks for cycles; a call makes some hundreds."""


class Worker:
    """Runs jobs until it is told to stop, or (drain, max_jobs) has done what there was to do.

    The methods that stop it may be called from any thread.
    """

    def __init__(
        self, store: Store, coordinator: Coordinator, settings: Settings, providers: ProvidersByName, *,
        options: WorkerOptions, chance: Chance, clock: Clock | None = None, log: Log | None = None,
        source: Source | None = None, options_of: Callable[[Settings], WorkerOptions] | None = None,
    ) -> None:  # fmt: skip
        """*source* reads the configuration anew, *options_of* says how to run by it; without, it stays."""
        self.name = options.name or unique_name(chance)
        self.report = WorkerReport(worker=self.name)
        self._store = store
        self._coordinator = coordinator
        self._settings = settings
        self._providers = providers
        self._options = options
        self._chance = chance
        self._clock = clock or store.clock
        self._log = log or Unheard()
        self._source = source
        self._options_of = options_of or (lambda _: self._options)
        self._reloading: Reloading | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crew: Crew | None = None
        self._over: asyncio.Future[None] | None = None
        self._asked: str | None = None
        self._hurried = False
        self._unsaved = 0

    @property
    def settings(self) -> Settings:
        """The configuration in force; it changes when the file is read again."""
        return self._settings

    def run(self) -> WorkerReport:
        """Work in this thread, with an event loop of its own; SIGTERM and SIGINT are obeyed.

        Raises what `run_until_stopped` raises.
        """
        with Signals(self), _seldom_collecting():
            return _run_to_the_end(self.run_until_stopped())

    async def run_until_stopped(self) -> WorkerReport:
        """Work until stopped.

        Raises StoreError when the store is not there at the start, has another schema version, or does not
        come back before the end with results still unsaved; Interrupted after `stop_now`; and what killed a
        side task.
        """
        crew = await self._open()
        try:
            await self._supervise(crew)
        finally:
            self.report = crew.tally.report(stopped_by=self._asked)
            with self._lock:
                self._loop = self._crew = self._over = None
            await crew.leave(self.report)
        if self._hurried:
            raise Interrupted("stopped at once: what was running has been handed back")
        return self.report

    # --- From any thread ---

    @property
    def grace_seconds(self) -> float:
        """How long it takes at most to stop after `stop`."""
        return self._options.grace.total_seconds() + self.leave_seconds

    @property
    def leave_seconds(self) -> float:
        """How long it takes at most to stop after `stop_now`."""
        return UNWIND_SECONDS + LAST_WRITES_SECONDS + _MARGIN_SECONDS

    def stop(self, why: str = "stop") -> None:
        """Claim nothing more; what runs has the grace to end, then it is handed back and costs no attempt."""
        self._asked = self._asked or why
        self._tell(self._close)

    def stop_now(self, why: str = "stop") -> None:
        """Hand back what runs at once."""
        self._asked = self._asked or why
        self._hurried = True
        self._tell(self._hand_back)

    def reload(self, why: str = "reload") -> None:
        """Look at the configuration now."""
        self._tell(lambda: self._reloading.ask(why) if self._reloading else None)

    def release(self) -> bool:
        """Hand back what runs, from outside of a blocked event loop; the last thing a process does.

        False when something is not saved.
        """
        crew = self._crew
        if crew is None:
            return not self._unsaved
        count, saved = crew.shift.unsaved + crew.shift.running, threading.Event()

        def write() -> None:
            if crew.write_everything():
                saved.set()

        threading.Thread(target=write, daemon=True).start()
        if not saved.wait(LAST_WRITES_SECONDS):
            self._log.emit(LogEvent.RESULTS_NOT_SAVED, count=count)
        return saved.is_set()

    def _tell(self, order: Any) -> None:
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(order)

    # --- In the event loop ---

    async def _open(self) -> Crew:
        crew = Crew(
            self.name, store=self._store, coordinator=self._coordinator, settings=self._settings,
            providers=self._providers, options=self._options, clock=self._clock, chance=self._chance,
            log=self._log,
        )  # fmt: skip
        try:
            await crew.begin()
        except BaseException:
            await crew.leave(self.report)
            raise
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._crew, self._over = crew, self._loop.create_future()
        if self._hurried:
            self._hand_back()
        elif self._asked:
            self._close()
        return crew

    async def _supervise(self, crew: Crew) -> None:
        assert self._over is not None
        work = asyncio.create_task(crew.shift.work(), name="shift")
        watch = asyncio.create_task(crew.watch(), name="wake-up")
        reload = asyncio.create_task(self._keep_reloading(), name="reload")
        try:
            await asyncio.wait({work, watch, crew.died, self._over}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await self._wind_up(crew, work, watch)
            if work.done():
                work.result()
        except asyncio.CancelledError:
            self._hand_back()
            await asyncio.wait({work}, timeout=UNWIND_SECONDS + LAST_WRITES_SECONDS)
            raise
        finally:
            work.cancel()
            crew.stop_watching()
            watch.cancel()
            reload.cancel()

    async def _keep_reloading(self) -> None:
        if self._source is None:
            return
        self._reloading = Reloading(self._settings, self._source, log=self._log, apply=self._take)
        await self._reloading.run()

    async def _take(self, settings: Settings, changed: tuple[str, ...], why: str) -> None:
        crew = self._crew
        if crew is None:
            return
        options = replace(
            self._options_of(settings), lease=self._options.lease, renew_every=self._options.renew_every
        )
        await crew.configure(settings, options, changed=changed, why=why)
        self._settings, self._options = settings, options

    async def _wind_up(self, crew: Crew, work: "asyncio.Task[None]", watch: "asyncio.Task[None]") -> None:
        """The loop has not ended by itself: a side task died, or the time to stop is over."""
        for task, name in ((crew.died, "the lease keeper"), (watch, "the wake-up")):
            if task.done():
                fault = task.exception() or RuntimeError("it ended")
                self._log.emit(LogEvent.SIDE_TASK_DIED, task=name, error=type(fault).__name__)
                crew.shift.hand_back(f"{name} died")
                await asyncio.wait({work}, timeout=UNWIND_SECONDS + LAST_WRITES_SECONDS)
                raise fault
        self._unsaved = unsaved = crew.shift.unsaved + crew.shift.running
        if not unsaved:
            return  # a look for work is under way at a store that does not answer: nobody waits for it
        self._log.emit(LogEvent.RESULTS_NOT_SAVED, count=unsaved)
        raise crew.gate.fault or StoreUnreachable(f"{unsaved} finished attempts could not be saved")

    def _close(self) -> None:
        crew, loop = self._crew, self._loop
        if crew is None or loop is None or crew.closing:
            return
        crew.close(self._asked or "stop", grace=self._options.grace)
        loop.call_later(self._options.grace.total_seconds(), self._hand_back)

    def _hand_back(self) -> None:
        crew, loop = self._crew, self._loop
        if crew is None or loop is None or crew.left:
            return
        crew.hand_back(self._asked or "the worker stopped")
        loop.call_later(UNWIND_SECONDS + LAST_WRITES_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


def unique_name(chance: Chance) -> str:
    """`host-pid-random`: two workers never share it, even in containers where every pid is 1."""
    return f"{socket.gethostname()}-{os.getpid()}-{chance.getrandbits(24):06x}"


@contextlib.contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Spare the garbage collector what a worker has loaded, which stays, and its calls under way, which end.

    At Python's own threshold (700) it goes through them again and again, for a fifth of the processor's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def _run_to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, but nothing that refuses to be cancelled can keep the process from ending."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        if rest:
            loop.run_until_complete(asyncio.wait(rest, timeout=UNWIND_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.set_exception_handler(lambda *_: None)  # a task that goes on nevertheless has been handed back
        loop.close()
