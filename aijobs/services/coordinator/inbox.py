"""What a webhook delivery does: it is written down once, and its job's next look at the provider becomes due.

A delivery never carries a result and never moves a job: it says that looking is worth while now. So copies,
deliveries out of order and deliveries long after the end cannot undo anything.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from aijobs.core.model import Job, Status
from aijobs.core.totals import DELIVERIES, WEBHOOK_DELAY, Totals
from aijobs.services.coordinator.counting import shard_of
from aijobs.services.coordinator.values import Received, Reception
from aijobs.store import deliveries, moves, rollups, wake
from aijobs.store.deliveries import Delivery, Key, Work
from aijobs.store.engine import Tx

_ABOUT_A_JOB = frozenset({Reception.ACCEPTED, Reception.UNMATCHED})

COMPLETED = "response.completed"
"""The event that says the work was done, and so was paid for."""


def receive(tx: Tx, found: Sequence[Delivery], now: datetime) -> list[Received]:
    """Record *found* with follow-ups and counts in the caller's transaction; one answer each, in order."""
    answers = _receive(tx, found, now)
    totals = Totals()
    for delivery, received in zip(found, answers, strict=True):
        totals.count(DELIVERIES, provider=delivery.provider, result=received.reception.value)
        if received.reception in _ABOUT_A_JOB and delivery.sent_at:
            waited = delivery.received_at - delivery.sent_at
            totals.observe(WEBHOOK_DELAY, [waited], provider=delivery.provider)
    rollups.add(tx, totals, shard_of(found[0].delivery_id), now)
    return answers


def _receive(tx: Tx, found: Sequence[Delivery], now: datetime) -> list[Received]:
    """The first of each key is the delivery, unless the store has it already; the others are copies."""
    firsts: dict[Key, Delivery] = {}
    for delivery in found:
        firsts.setdefault(delivery.key, delivery)
    recorded = deliveries.record(tx, firsts.values())
    new = [one for key, one in firsts.items() if key in recorded]
    jobs = _jobs_of(tx, [one for one in new if one.outcome != "ignored"], now)
    copies = Counter(one.key for one in found)
    copies.subtract(recorded)
    known = deliveries.count_copies(tx, +copies)
    return [
        _taken(one, jobs) if one.key in recorded and one is firsts[one.key] else _copy(one, *known[one.key])
        for one in found
    ]


def _taken(delivery: Delivery, jobs: Mapping[Work, str]) -> Received:
    if delivery.outcome == "ignored":
        return Received(reception=Reception.IGNORED)
    job_id = jobs.get(_work(delivery))
    return Received(reception=Reception.ACCEPTED if job_id else Reception.UNMATCHED, job_id=job_id)


def _copy(delivery: Delivery, first_hash: str | None, job_id: str | None) -> Received:
    other = first_hash not in (None, delivery.body_hash)
    return Received(reception=Reception.DUPLICATE, job_id=job_id, contradicts=other)


def _jobs_of(tx: Tx, new: Sequence[Delivery], now: datetime) -> dict[Work, str]:
    """The jobs of new deliveries; of those that are parked the next look is due now.

    Work said to be complete, of a job that ended otherwise, leaves the delivery open: somebody looks at what
    it cost (`services/orphans.py`).
    """
    # Locked: whoever parks one of them at this moment either sees the deliveries or is seen.
    found = moves.by_work(tx, set(map(_work, new))) if new else []
    known: dict[Work, Job] = {}
    for job in found:
        known.setdefault((job.provider or "", job.provider_job_id or ""), job)
    parked = [job.id for job in found if job.parked_at]
    if parked and moves.hasten(tx, parked, now):
        wake.notify(tx)
    jobs = {work: job.id for work, job in known.items()}
    in_time = {_work(one) for one in new if not _is_late(one, known.get(_work(one)))}
    deliveries.match(tx, {work: job_id for work, job_id in jobs.items() if work in in_time}, now)
    return jobs


def _is_late(delivery: Delivery, job: Job | None) -> bool:
    ended_otherwise = job is not None and job.status in (Status.CANCELLED, Status.DEAD_LETTER)
    return ended_otherwise and delivery.event_type == COMPLETED


def _work(delivery: Delivery) -> Work:
    assert delivery.provider_job_id is not None
    return delivery.provider, delivery.provider_job_id
