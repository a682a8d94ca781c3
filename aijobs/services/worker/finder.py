"""Looks after deliveries without a job, beside the work of a worker or once for a sweep."""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

from aijobs.core.errors import AijobsError, StoreError
from aijobs.core.log_events import Log, LogEvent
from aijobs.providers.contract import PollFailed, ProvidersByName
from aijobs.services.coordinator import Coordinator, Fate, Rescue, Settled
from aijobs.services.orphans import LIMIT, Orphans
from aijobs.services.worker.lane import Lane
from aijobs.store.deliveries import Delivery

EVERY_SECONDS = 5.0
"""Between two looks."""

SLOW_SECONDS = 5.0
"""A provider that failed after so long is asked nothing more in this look, which the others wait for."""


class Finder:
    """Belongs to an event loop. The store is reached over the lane."""

    def __init__(self, coordinator: Coordinator, providers: ProvidersByName, *, lane: Lane, log: Log) -> None:
        self._orphans = Orphans(coordinator, log=log)
        self._providers = providers
        self._lane = lane
        self._log = log
        self._clock = coordinator.clock

    async def run(self) -> None:
        """Look again and again until cancelled; a store that is away is waited for."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            with contextlib.suppress(StoreError):
                await self.look()
                expired = await self._lane.run(self._orphans.expire)
                if expired.repaired:
                    self._log.emit(LogEvent.DELIVERIES_EXPIRED, count=expired.repaired, ids=expired.ids)

    async def look(self, limit: int = LIMIT) -> list[tuple[Delivery, Settled]]:
        """Ask after everything that is due; what became of each. Raises StoreError.

        Each provider is asked one thing at a time, all side by side: one that hangs holds up no other.
        """
        lines: dict[str, list[Delivery]] = {}
        for delivery in await self._lane.run(partial(self._orphans.due, limit)):
            lines.setdefault(delivery.provider, []).append(delivery)
        asking = [asyncio.create_task(self._ask(name, line)) for name, line in lines.items()]
        try:
            return [one for done in await asyncio.gather(*asking) for one in done]
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, provider: str, line: Sequence[Delivery]) -> list[tuple[Delivery, Settled]]:
        try:
            adapter = self._providers.get(provider)
        except AijobsError:
            for delivery in line:
                self._orphans.postpone(delivery)
            return []
        done = []
        for delivery in line:
            began = self._clock.monotonic()
            reply = await self._orphans.look(delivery, adapter)
            done.append((delivery, await self._lane.run(partial(self._orphans.settle, delivery, reply))))
            if isinstance(reply, PollFailed) and self._clock.monotonic() - began >= SLOW_SECONDS:
                break  # it does not answer: the next look asks after the rest
        return done


def look_once(coordinator: Coordinator, providers: ProvidersByName, *, limit: int, log: Log) -> Rescue:
    """One pass, in this thread; the ids are those of the jobs. Raises StoreError."""
    return asyncio.run(_look_once(coordinator, providers, limit=limit, log=log))


async def _look_once(coordinator: Coordinator, providers: ProvidersByName, *, limit: int, log: Log) -> Rescue:
    lane = Lane("aijobs-store")
    try:
        done = await Finder(coordinator, providers, lane=lane, log=log).look(limit)
    finally:
        await providers.close()
        lane.close(timeout=1.0)
    repaired = [s.job_id or "" for _, s in done if s.fate in (Fate.ADOPTED, Fate.LATE)]
    return Rescue(found=len(done), repaired=len(repaired), ids=tuple(repaired))
