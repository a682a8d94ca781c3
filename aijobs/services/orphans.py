"""Deliveries whose job nobody knows: asked after at their provider, whose metadata may name the job.

Three parts, for the store and the provider are reached in different ways: `due` and `settle` are for whoever
owns the store, `look` for whoever owns the event loop. `services/worker/finder.py` puts them together.
"""

from datetime import datetime, timedelta

from aijobs.core.log_events import Log, LogEvent
from aijobs.core.model import Reply
from aijobs.providers.contract import Adapter, Call, PollFailed
from aijobs.services.coordinator import Coordinator, Fate, Rescue, Settled
from aijobs.store import deliveries
from aijobs.store.deliveries import Delivery

PATIENCE = timedelta(seconds=5)
"""Most deliveries without a job are early: the worker is about to save the provider's id."""

KEPT_FOR = timedelta(hours=24)
"""How long a delivery that concerns nobody waits for its job before it is written off."""

LIMIT = 100
_LONGEST_WAIT = timedelta(hours=1)
_TIMEOUT = timedelta(seconds=30)

_Key = tuple[str, str]


class Orphans:
    """Remembers what it has looked at, so that other people's work is not asked after again and again."""

    def __init__(self, coordinator: Coordinator, *, log: Log) -> None:
        self._coordinator = coordinator
        self._log = log
        self._next_look: dict[_Key, datetime] = {}

    def due(self, limit: int = LIMIT) -> list[Delivery]:
        """The deliveries to ask after now, the newest first. Raises StoreError."""
        now = self._coordinator.clock.now()
        with self._coordinator.store.read() as tx:
            found = deliveries.newest_unmatched(tx, now - PATIENCE, limit)
        keys = {_key(one) for one in found}
        self._next_look = {key: at for key, at in self._next_look.items() if key in keys}
        known = self._coordinator.settings.providers
        return [one for one in found if one.provider in known and self._next_look.get(_key(one), now) <= now]

    async def look(self, delivery: Delivery, adapter: Adapter) -> Reply | PollFailed:
        """What the provider says of the work behind *delivery*."""
        return await adapter.poll(_question(delivery), delivery.provider_job_id or "")

    def settle(self, delivery: Delivery, reply: Reply | PollFailed) -> Settled:
        """Do what the answer asks for: adopt, note as late, or wait. Raises StoreError."""
        if isinstance(reply, PollFailed):
            settled = Settled(fate=Fate.OPEN)
        else:
            settled = self._coordinator.settle_delivery(delivery, reply)
        self._remember(delivery, settled)
        self._tell(delivery, settled)
        return settled

    def postpone(self, delivery: Delivery) -> None:
        """Look again later: there was nobody to ask."""
        self._remember(delivery, Settled(fate=Fate.OPEN))

    def expire(self, *, limit: int = LIMIT, preview: bool = False) -> Rescue:
        """Write off the deliveries that no job was found for in a day; ids are those of the deliveries."""
        return expire(self._coordinator, limit=limit, preview=preview)

    def _remember(self, delivery: Delivery, settled: Settled) -> None:
        """What stays open is asked after with waits that double; what is nobody's, not again."""
        now = self._coordinator.clock.now()
        if settled.fate is Fate.OPEN:
            age = max(now - delivery.received_at, PATIENCE)
            self._next_look[_key(delivery)] = now + min(age, _LONGEST_WAIT)
        elif settled.fate is Fate.UNKNOWN:
            self._next_look[_key(delivery)] = delivery.received_at + KEPT_FOR

    def _tell(self, delivery: Delivery, settled: Settled) -> None:
        if settled.fate is Fate.ADOPTED:
            self._log.emit(
                LogEvent.ORPHAN_ADOPTED, job=settled.job_id, provider_job_id=delivery.provider_job_id
            )
        elif settled.fate is Fate.LATE:
            self._log.emit(
                LogEvent.LATE_OUTCOME, job=settled.job_id, provider_job_id=delivery.provider_job_id,
                outcome=delivery.event_type,
            )  # fmt: skip


def expire(coordinator: Coordinator, *, limit: int = LIMIT, preview: bool = False) -> Rescue:
    """Write off the deliveries that no job was found for in a day. Raises StoreError."""
    now = coordinator.clock.now()
    with coordinator.store.read() as tx:
        found = deliveries.unmatched(tx, now - KEPT_FOR, limit)
    ids = tuple(one.delivery_id for one in found)
    if preview or not found:
        return Rescue(found=len(found), ids=ids)
    with coordinator.store.write() as tx:
        gone = [deliveries.settle(tx, one, "expired", one.job_id, now) for one in found]
    return Rescue(found=len(found), repaired=sum(gone), ids=ids)


def _key(delivery: Delivery) -> _Key:
    return (delivery.provider, delivery.delivery_id)


def _question(delivery: Delivery) -> Call:
    """A call that only asks: it has no job yet and carries no input."""
    name = f"aijobs-look-{delivery.delivery_id}"
    return Call(
        job_id="", type="", attempt=0, model=None, prompt=None, input=None, request={}, timeout=_TIMEOUT,
        client_request_id=name, idempotency_key=name,
    )  # fmt: skip
