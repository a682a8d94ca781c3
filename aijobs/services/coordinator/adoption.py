"""Work that a provider did for a job of ours without our knowing its id: taken over, or noted as too late.

A worker that died between its call and the note of what the provider calls the work leaves such an orphan
behind. Its webhook comes all the same, and the provider's metadata names the job.
"""

from datetime import datetime

from aijobs.core.lifecycle import is_legal
from aijobs.core.model import Done, Event, Failure, Job, Outcome, Pending, Reply, Status
from aijobs.services.coordinator.values import Fate, Settled
from aijobs.store import deliveries, history, jobs, moves, wake
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Tx

ACTOR = "system"


def settle(tx: Tx, delivery: Delivery, reply: Reply, now: datetime) -> Settled:
    """Do with *delivery* what the provider's word on its work asks for; in the caller's transaction."""
    owner = reply.facts.owner or _by_its_id(tx, delivery)
    job = moves.locked(tx, [owner]).get(owner) if owner else None
    if job is None:
        return Settled(fate=Fate.UNKNOWN)
    if not deliveries.is_open(tx, delivery):  # another worker asked as well, and was quicker
        return Settled(fate=Fate.KNOWN, job_id=job.id)
    fate = _fate(tx, job, delivery, reply, now)
    if fate is not Fate.OPEN:
        deliveries.settle(tx, delivery, "accepted", job.id, now)
    return Settled(fate=fate, job_id=job.id)


def _by_its_id(tx: Tx, delivery: Delivery) -> str | None:
    """The job that has the provider's id, for work without metadata."""
    known = moves.by_work(tx, [(delivery.provider, delivery.provider_job_id or "")])
    return known[0].id if known else None


def _fate(tx: Tx, job: Job, delivery: Delivery, reply: Reply, now: datetime) -> Fate:
    assert delivery.provider_job_id is not None
    if _is_told(tx, job, delivery.provider_job_id, reply):
        return Fate.KNOWN
    if job.status is Status.PROCESSING or (job.status.final and isinstance(reply, Pending)):
        return Fate.OPEN
    if job.status.final or isinstance(reply, Failure):
        history.add_events(tx, [_late(job, delivery, reply, now)])
        return Fate.LATE
    return _adopted(tx, job, delivery, reply, now)


def _is_told(tx: Tx, job: Job, provider_job_id: str, reply: Reply) -> bool:
    """Whether the job, or one of its attempts, has this work on record already."""
    if job.status is Status.PROCESSING:
        return job.provider_job_id == provider_job_id
    return any(
        one.provider_job_id == provider_job_id
        and (one.outcome is Outcome.SUCCEEDED or isinstance(reply, Failure))
        for one in jobs.executions_of(tx, job.id)
    )


def _adopted(tx: Tx, job: Job, delivery: Delivery, reply: Done | Pending, now: datetime) -> Fate:
    assert delivery.provider_job_id is not None
    if not is_legal(job.status, Status.PROCESSING):
        raise AssertionError(f"illegal move {job.status} -> {Status.PROCESSING}")
    adopted = moves.adopt(
        tx, job, ACTOR, now, provider=delivery.provider, model=job.model or reply.facts.model,
        provider_job_id=delivery.provider_job_id,
    )  # fmt: skip
    if adopted is None:
        raise AssertionError(f"job {job.id} was locked and waited, and could not be adopted")
    detail: dict[str, object] = {
        "provider": delivery.provider,
        "provider_job_id": delivery.provider_job_id,
        "held_because": job.hold_reason,
    }
    reason = "the provider had the work: it is followed instead of sent again"
    history.add_events(
        tx, [Event(kind="adopted", actor=ACTOR, at=now, job_id=job.id, reason=reason, detail=detail)]
    )
    wake.notify(tx)
    return Fate.ADOPTED


def _late(job: Job, delivery: Delivery, reply: Reply, now: datetime) -> Event:
    """What was found after the job had gone another way; unknown tokens stay null."""
    usage = reply.facts.usage
    ended = reply.error_class.value if isinstance(reply, Failure) else "completed"
    return Event(
        kind="late_outcome",
        actor=ACTOR,
        at=now,
        job_id=job.id,
        reason=f"{delivery.provider_job_id} ended as {ended} when the job was {job.status}",
        detail={
            "provider": delivery.provider,
            "provider_job_id": delivery.provider_job_id,
            "outcome": ended,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        },
    )
