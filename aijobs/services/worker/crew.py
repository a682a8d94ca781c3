"""What one run of a worker is made of: the shift, the lease keeper, the wake-up, the store's thread."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from aijobs import __version__
from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import StoreError
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.model import Event
from aijobs.core.settings import Settings
from aijobs.providers.contract import ProvidersByName
from aijobs.services.coordinator import Coordinator
from aijobs.services.notifier import Notifier
from aijobs.services.shadowing import Shadowing
from aijobs.services.worker.attempt import Stop
from aijobs.services.worker.attempts import Attempts
from aijobs.services.worker.call_spans import TracedProviders
from aijobs.services.worker.calls import Calls
from aijobs.services.worker.draining import Draining
from aijobs.services.worker.effects import Ledger
from aijobs.services.worker.errands import Errand, Errands
from aijobs.services.worker.finder import Finder
from aijobs.services.worker.gate import StoreGate
from aijobs.services.worker.ids import traceparent_as_given
from aijobs.services.worker.lane import Lane
from aijobs.services.worker.leases import Key, LeaseKeeper
from aijobs.services.worker.messenger import Messenger
from aijobs.services.worker.options import WorkerOptions, WorkerReport
from aijobs.services.worker.permit import Permit
from aijobs.services.worker.python_context import Desk
from aijobs.services.worker.shadows import Shadows
from aijobs.services.worker.shift import Shift
from aijobs.services.worker.tally import Tally
from aijobs.services.worker.time_limits import LEARN_EVERY, TimeLimits
from aijobs.store import history, workers
from aijobs.store.engine import Store
from aijobs.store.wake import Wake

_LEAVE_SECONDS = 0.5
LONGEST_LEAVE = 4 * _LEAVE_SECONDS
"""Seconds that `leave` waits at most: for the keeper, the messenger and the two lanes, one by one."""


class Crew:
    """Made inside the event loop, for one run. Listens to the keeper, whose thread is another one."""

    def __init__(
        self, name: str, *, store: Store, coordinator: Coordinator, settings: Settings,
        providers: ProvidersByName, options: WorkerOptions, clock: Clock, chance: Chance, log: Log,
    ) -> None:  # fmt: skip
        self._name = name
        self._store = store
        tracing = coordinator.tracing
        self._traceparent = tracing.traceparent_of if tracing else traceparent_as_given
        providers = TracedProviders(providers, settings, tracing) if tracing else providers
        self._options = options
        self._clock = clock
        self._log = log
        self._providers = providers
        self._loop = asyncio.get_running_loop()
        self.closing = self.left = self._unwatched = False
        self._finding: asyncio.Task[None] | None = None
        self.died: asyncio.Future[None] = self._loop.create_future()
        self._lane = Lane("aijobs-store")
        self._wake_lane = Lane("aijobs-wake")
        self._wake: Wake | None = None
        self.gate = StoreGate(clock=clock, log=log)
        self.keeper = LeaseKeeper(
            lease=options.lease, every=options.renew_every, clock=clock, chance=chance, listener=self,
            renew=coordinator.renew, beat=self._beat,
        )  # fmt: skip
        self.tally = Tally(name, clock=clock, log=log)
        self._permit = Permit(coordinator, lane=self._lane, keeper=self.keeper, gate=self.gate)
        self._coordinator = coordinator
        self._limits = TimeLimits(settings, store=store)
        self._calls = self._caller(settings, providers, chance)
        self._attempts = attempts = Attempts(
            calls=self._calls, clock=clock, chance=chance, log=log, secrets=settings.secrets(),
            may_call=self._permit.may_call,
        )  # fmt: skip
        self._shadows = Shadows(
            settings, shadowing=Shadowing(store, settings), calls=self._calls, lane=self._lane, clock=clock,
            log=log, worker=name,
        )  # fmt: skip
        self._finder = Finder(coordinator, providers, lane=self._lane, log=log)
        self._messenger = Messenger(Notifier(store, settings, chance=chance, log=log), died=self.keeper_died)
        self._types = types = _types(settings, options)
        draining = Draining(store, settings, types)
        self._errands = Errands(
            coordinator, self.keeper, draining, worker=name, repaired=options.types, log=log
        )
        self.shift = Shift(
            worker=name, options=options, types=types,
            errands=self._errands, lane=self._lane, keeper=self.keeper, gate=self.gate, attempts=attempts,
            tally=self.tally, shadows=self._shadows, clock=clock, chance=chance, log=log,
        )  # fmt: skip

    def _caller(self, settings: Settings, providers: ProvidersByName, chance: Chance) -> Calls:
        """What makes a provider's call of a job, or the context in which code of one's own runs."""
        desk = Desk(
            adapter=providers.get, timeout=self._limits.of, permit=self._permit, keeper=self.keeper,
            ledger=Ledger(self._store, lane=self._lane, gate=self.gate, clock=self._clock), clock=self._clock,
            chance=chance, traceparent=self._traceparent,
        )  # fmt: skip
        return Calls(
            settings, adapter=providers.get, timeout=self._limits.of, context=desk.context,
            traceparent=self._traceparent,
        )  # fmt: skip

    # --- Begin, watch, end ---

    async def begin(self) -> None:
        """Enter the worker in the store and start the side tasks. Raises StoreError."""
        await self._lane.run(self._sign_on)
        await self._lane.run(self._limits.learn)
        self._wake = await self._wake_lane.run(lambda: Wake(self._store))
        self.keeper.start()
        self._messenger.start()
        self._finding = self._loop.create_task(self._finder.run(), name="finder")
        self._finding.add_done_callback(self._finder_ended)
        self._log.emit(
            LogEvent.WORKER_STARTED, worker=self._name, concurrency=self._options.concurrency,
            types=self._options.types, store=self._store.location, pid=os.getpid(), version=__version__,
        )  # fmt: skip

    async def watch(self) -> None:
        """Tell the shift whenever somebody commits something."""
        assert self._wake is not None
        wake, seconds = self._wake, self._options.poll.total_seconds()
        learned_at = self._loop.time()
        while not self._unwatched:
            if await self._wake_lane.run(lambda: wake.wait(seconds)):
                self.shift.look()
            if self._loop.time() - learned_at >= LEARN_EVERY.total_seconds():
                learned_at = self._loop.time()
                await self._learn()

    async def configure(
        self, settings: Settings, options: WorkerOptions, *, changed: Sequence[str], why: str
    ) -> None:
        """Go on by new settings; attempts at work end by the old ones. Raises StoreError, and then nothing
        has changed.
        """
        types = _types(settings, options)
        await self._lane.run(partial(self._note_reload, options, types, changed, why))
        await self._lane.run(partial(self._coordinator.configure, settings))
        self._options, self._types = options, types
        self._errands.draining = Draining(self._store, settings, types)
        self._limits.configure(settings)
        self._providers.configure(settings)
        self._calls.configure(settings)
        self._attempts.secrets = settings.secrets()
        self._shadows.configure(settings)
        self._messenger.configure(settings)
        self.shift.configure(options, types)
        await self._learn()

    async def _learn(self) -> None:
        with contextlib.suppress(StoreError):  # what was learned before, or the tier, serves
            await self._lane.run(self._limits.learn)

    def close(self, why: str, *, grace: timedelta) -> None:
        """Claim nothing more; what runs may go on."""
        self.closing = True
        self._log.emit(LogEvent.WORKER_STOPPING, why=why, running=self.shift.running, grace=grace)
        self.shift.close(f"the worker stopped ({why})")
        self._lane.submit(lambda: self._note_state("stopping"))

    def hand_back(self, why: str) -> None:
        """Stop everything."""
        self.closing = self.left = True
        self.shift.hand_back(f"the worker stopped ({why})")

    def write_everything(self) -> bool:
        """Hand back what runs and write what is unsaved, from any thread, past the event loop; whether all of
        it is written. What an errand is writing right now is written twice: the fence takes it once.
        """
        return self._errands.run(Errand(ends=self.shift.ends_now(), retried=True)).fault is None

    def stop_watching(self) -> None:
        """Let `watch` return."""
        self._unwatched = True
        if self._wake is not None:
            self._wake.interrupt()

    async def leave(self, report: WorkerReport) -> None:
        """End the side tasks, sign off, and close what was opened. Never raises: the work is done."""
        self.stop_watching()
        if self._finding is not None:
            self._finding.cancel()
        self.keeper.stop(timeout=_LEAVE_SECONDS)
        self._messenger.stop(timeout=_LEAVE_SECONDS)
        self._lane.submit(lambda: self._note_state("stopped"))
        if self._wake is not None:
            self._wake_lane.submit(self._wake.close)  # may wait for a server that does not answer
        await self._providers.close()
        self._lane.close(timeout=_LEAVE_SECONDS)
        self._wake_lane.close(timeout=_LEAVE_SECONDS)
        counts = {name: getattr(report, name) for name in report.__slots__}
        self._log.emit(LogEvent.WORKER_STOPPED, **counts)

    def _sign_on(self) -> None:
        with self._store.write() as tx:
            workers.register(
                tx, name=self._name, host=socket.gethostname(), pid=os.getpid(), version=__version__,
                concurrency=self._options.concurrency, types=self._types, now=self._clock.now(),
            )  # fmt: skip

    def _beat(self, now: datetime) -> None:
        with self._store.write() as tx:
            known = workers.heartbeat(tx, self._name, now=now)
        if not known and not self.closing and not self._unwatched:
            self._sign_on()  # a machine that slept for days was forgotten by a sweep meanwhile

    def _note_reload(
        self, options: WorkerOptions, types: Sequence[str], changed: Sequence[str], why: str
    ) -> None:
        event = Event(
            kind="config_reload", actor=self._name, at=self._clock.now(), reason=why,
            detail={"changed": list(changed)},
        )  # fmt: skip
        with self._store.write() as tx:
            history.add_events(tx, [event])
            workers.configure(tx, self._name, concurrency=options.concurrency, types=types)

    def _note_state(self, state: str) -> None:
        with contextlib.suppress(StoreError), self._store.write() as tx:
            workers.set_state(tx, self._name, state, now=self._clock.now())

    # --- From the keeper's thread ---

    def lease_lost(self, key: Key, why: str) -> None:
        """See `Listener`."""
        self._soon(lambda: self.shift.interrupt(key, Stop.LOST, why))

    def cancel_asked(self, key: Key) -> None:
        """See `Listener`."""
        self._soon(lambda: self.shift.interrupt(key, Stop.CANCELLED, "a person asked to cancel it"))

    def store_failed(self, fault: StoreError) -> None:
        """See `Listener`."""
        self._soon(lambda: self.gate.lost(fault))

    def store_answered(self) -> None:
        """See `Listener`."""
        if self.gate.away:
            self._soon(self._store_is_back)

    def keeper_died(self, fault: BaseException) -> None:
        """See `Listener`."""
        self._soon(partial(self._note_death, fault))

    def _note_death(self, fault: BaseException) -> None:
        if not self.died.done():
            self.died.set_exception(fault)

    def _store_is_back(self) -> None:
        if not self.shift.unsaved:  # a disk that takes a renewal may yet be too full for a result
            self.gate.back()
        self.shift.try_again()

    def _finder_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._note_death(fault)

    def _soon(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is over
            self._loop.call_soon_threadsafe(call)


def _types(settings: Settings, options: WorkerOptions) -> tuple[str, ...]:
    """The types to claim."""
    return options.types or tuple(settings.types)
