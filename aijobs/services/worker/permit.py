"""May a call go out now? Only while the store can take its result, and under a lease that stands."""

from aijobs.core.errors import SchemaMismatch, StoreError
from aijobs.services.coordinator import Coordinator
from aijobs.services.worker.gate import StoreGate
from aijobs.services.worker.lane import Lane
from aijobs.services.worker.leases import Key, LeaseKeeper


class Permit:
    """Asked before every call to a provider.

    A process cannot know that it was suspended except by asking: when the lease's time has passed by any
    clock, the store is asked whether it is still ours.
    """

    def __init__(self, coordinator: Coordinator, *, lane: Lane, keeper: LeaseKeeper, gate: StoreGate) -> None:
        self._coordinator = coordinator
        self._lane = lane
        self._keeper = keeper
        self._gate = gate

    async def may_call(self, key: Key) -> bool:
        """Wait until a call may go out under this lease; False when the lease is lost."""
        while True:
            if self._gate.away:
                await self._gate.passed()
            if self._keeper.stands(key):
                return True
            held = await self._ask(key)
            if held is not None:
                return held

    async def _ask(self, key: Key) -> bool | None:
        until = self._keeper.until()
        try:
            renewal = await self._lane.run(lambda: self._coordinator.renew(dict([key]), until.store))
        except SchemaMismatch:
            raise
        except StoreError as fault:
            self._gate.lost(fault)
            return None
        if key[0] in renewal.lost:
            return False
        self._keeper.hold([key], until)
        return True
