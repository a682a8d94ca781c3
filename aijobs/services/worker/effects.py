"""The ledger of side effects as a python job sees it: each of them once, over all attempts of the job."""

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from aijobs.core.clock import Clock
from aijobs.core.errors import LeaseLost, StoreLocked, StoreUnreachable
from aijobs.core.payload import dump_json
from aijobs.services.worker.attempt import Attempt
from aijobs.services.worker.gate import StoreGate
from aijobs.services.worker.lane import Lane
from aijobs.store import effects
from aijobs.store.engine import Store

T = TypeVar("T")

_PATIENCE_SECONDS = 0.5


class Ledger:
    """Opens entries for the jobs of one worker, on the thread that belongs to the store."""

    def __init__(self, store: Store, *, lane: Lane, gate: StoreGate, clock: Clock) -> None:
        self._store = store
        self._lane = lane
        self._gate = gate
        self._clock = clock
        self.loop = asyncio.get_running_loop()

    def effect(self, attempt: Attempt, name: str) -> "Effect":
        """The entry *name* of the attempt's job."""
        return Effect(self, attempt, name)

    def opening(self, attempt: Attempt, name: str) -> Callable[[], effects.Found]:
        """What opens an entry; it may be called until it answers. Raises LeaseLost and StoreError.

        When the answer to a commit was lost, it finds the entry as it left it itself, begun by this attempt:
        then what it found the first time is the answer.
        """
        job, before = attempt.claim.job, list[effects.Found]()

        def begin() -> effects.Found:
            with self._store.write() as tx:
                found = effects.begin(tx, job.id, name=name, fence=job.lock_token, now=self._clock.now())
                ours = isinstance(found, effects.Unfinished) and found.fence == job.lock_token
                if not (ours and before):
                    before[:] = [found]
            return before[0]

        return begin

    def done(self, attempt: Attempt, name: str, value: str | None) -> None:
        """Close it. Raises LeaseLost and StoreError."""
        job = attempt.claim.job
        with self._store.write() as tx:
            effects.done(tx, job.id, name=name, fence=job.lock_token, value=value, now=self._clock.now())

    async def write(self, attempt: Attempt, work: Callable[[], T]) -> T:
        """Do *work* as soon as the store is there; LeaseLost once the attempt has been told to stop."""
        while True:
            try:
                return await self._lane.run(work)
            except (StoreUnreachable, StoreLocked) as fault:
                self._gate.lost(fault)
            while self._gate.away:
                if attempt.stop is not None:
                    raise LeaseLost("the attempt was told to stop while the store was away")
                await self._gate.passed_within(_PATIENCE_SECONDS)

    def write_from_a_thread(self, attempt: Attempt, work: Callable[[], T]) -> T:
        """The same for a plain function. On the event loop's own thread it cannot wait for the store."""
        if _on(self.loop):
            return self._lane.submit(work).result()
        return asyncio.run_coroutine_threadsafe(self.write(attempt, work), self.loop).result()


class Effect:
    """One entry, around the effect: plain functions write `with`, coroutines `async with`.

    When the block ends without an exception the effect counts as done, and no later attempt does it again.
    """

    def __init__(self, ledger: Ledger, attempt: Attempt, name: str) -> None:
        self._ledger = ledger
        self._attempt = attempt
        self._name = name
        self._found: effects.Found | None = None
        self._value: object = None

    @property
    def done(self) -> bool:
        """Whether an earlier attempt finished it."""
        return isinstance(self._found, effects.Done)

    @property
    def uncertain(self) -> bool:
        """Whether an earlier attempt began it and was cut off: it may have happened; the receiver knows."""
        return isinstance(self._found, effects.Unfinished)

    @property
    def value(self) -> object:
        """What was recorded with it."""
        return self._value

    def record(self, value: object) -> None:
        """Keep *value* with it. Raises InvalidInput when that is not JSON."""
        dump_json(value)
        self._value = value

    def __enter__(self) -> Self:
        return self._opened(self._ledger.write_from_a_thread(self._attempt, self._opening()))

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.done:
            self._ledger.write_from_a_thread(self._attempt, self._close)

    async def __aenter__(self) -> Self:
        return self._opened(await self._ledger.write(self._attempt, self._opening()))

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.done:
            # It has happened: a cancel that comes now must not keep that from being written.
            await asyncio.shield(self._ledger.write(self._attempt, self._close))

    def _opening(self) -> Callable[[], effects.Found]:
        return self._ledger.opening(self._attempt, self._name)

    def _close(self) -> None:
        text = None if self._value is None else dump_json(self._value)
        self._ledger.done(self._attempt, self._name, text)

    def _opened(self, found: effects.Found) -> Self:
        self._found = found
        if isinstance(found, effects.Done) and found.value is not None:
            self._value = json.loads(found.value)
        return self


def _on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
