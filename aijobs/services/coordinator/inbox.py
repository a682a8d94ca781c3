"""What a webhook delivery does: it is written down once, and its job's next look at the provider becomes due.

A delivery never carries a result and never moves a job: it says that looking is worth while now. So copies,
deliveries out of order and deliveries long after the end cannot undo anything.
"""

from datetime import datetime

from aijobs.core.totals import DELIVERIES, WEBHOOK_DELAY, Totals
from aijobs.services.coordinator.counting import shard_of
from aijobs.services.coordinator.values import Received, Reception
from aijobs.store import deliveries, moves, rollups, wake
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Tx

_ABOUT_A_JOB = frozenset({Reception.ACCEPTED, Reception.UNMATCHED})


def receive(tx: Tx, delivery: Delivery, now: datetime) -> Received:
    """Record *delivery*, its follow-up and its count in the caller's transaction."""
    received = _receive(tx, delivery, now)
    totals = Totals()
    totals.count(DELIVERIES, provider=delivery.provider, result=received.reception.value)
    if received.reception in _ABOUT_A_JOB and delivery.sent_at:
        totals.observe(WEBHOOK_DELAY, delivery.received_at - delivery.sent_at, provider=delivery.provider)
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
    job_id = _job_of(tx, delivery.provider_job_id, now)
    if job_id is None:
        return Received(reception=Reception.UNMATCHED)
    deliveries.match(tx, delivery.provider_job_id, job_id, now)
    return Received(reception=Reception.ACCEPTED, job_id=job_id)


def _job_of(tx: Tx, provider_job_id: str, now: datetime) -> str | None:
    """The job of a provider's id; if it is parked its next look is due now."""
    hastened = moves.hasten(tx, provider_job_id, now)
    if hastened:
        wake.notify(tx)
        return hastened[0]
    known = moves.by_provider_job(tx, provider_job_id)
    return known[0].id if known else None
