"""What a webhook delivery does: it is written down once, and its job's next look at the provider becomes due.

A delivery never carries a result and never moves a job: it says that looking is worth while now. So copies,
deliveries out of order and deliveries long after the end cannot undo anything.
"""

from datetime import datetime

from aijobs.core.model import Status
from aijobs.core.totals import DELIVERIES, WEBHOOK_DELAY, Totals
from aijobs.services.coordinator.counting import shard_of
from aijobs.services.coordinator.values import Received, Reception
from aijobs.store import deliveries, moves, rollups, wake
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Tx

_ABOUT_A_JOB = frozenset({Reception.ACCEPTED, Reception.UNMATCHED})

COMPLETED = "response.completed"
"""The event that says the work was done, and so was paid for."""


def receive(tx: Tx, delivery: Delivery, now: datetime) -> Received:
    """Record *delivery*, its follow-up and its count in the caller's transaction."""
    received = _receive(tx, delivery, now)
    totals = Totals()
    totals.count(DELIVERIES, provider=delivery.provider, result=received.reception.value)
    if received.reception in _ABOUT_A_JOB and delivery.sent_at:
        totals.observe(WEBHOOK_DELAY, [delivery.received_at - delivery.sent_at], provider=delivery.provider)
    rollups.add(tx, totals, shard_of(delivery.delivery_id), now)
    return received


def _receive(tx: Tx, delivery: Delivery, now: datetime) -> Received:
    if not deliveries.record(tx, delivery):
        first_hash, job_id = deliveries.count_copy(tx, delivery.provider, delivery.delivery_id)
        other = first_hash != delivery.body_hash
        return Received(reception=Reception.DUPLICATE, job_id=job_id, contradicts=other)
    if delivery.outcome == "ignored":
        return Received(reception=Reception.IGNORED)
    assert delivery.provider_job_id is not None
    job_id = _job_of(tx, delivery, now)
    if job_id is None:
        return Received(reception=Reception.UNMATCHED)
    return Received(reception=Reception.ACCEPTED, job_id=job_id)


def _job_of(tx: Tx, delivery: Delivery, now: datetime) -> str | None:
    """The job of a delivery; if it is parked its next look is due now.

    Work said to be complete, of a job that ended otherwise, leaves the delivery open: somebody looks at what
    it cost (`services/orphans.py`).
    """
    provider_job_id = delivery.provider_job_id
    assert provider_job_id is not None
    hastened = moves.hasten(tx, delivery.provider, [provider_job_id], now)
    if hastened:
        wake.notify(tx)
    known = moves.by_provider_job(tx, delivery.provider, [provider_job_id])
    if not known:
        return None
    late = delivery.event_type == COMPLETED and known[0].status in (Status.CANCELLED, Status.DEAD_LETTER)
    if not late:
        deliveries.match(tx, {(delivery.provider, provider_job_id): known[0].id}, now)
    return known[0].id
