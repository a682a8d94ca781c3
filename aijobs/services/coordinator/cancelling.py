"""Stopping jobs: what waits ends at once, what runs is asked to stop, and its worker carries that out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from aijobs.core.errors import AlreadyFinished, no_job
from aijobs.core.lifecycle import Lost, Move
from aijobs.core.model import Event, Job, Status
from aijobs.services.coordinator.finishing import Finishing
from aijobs.services.coordinator.steps import STEP
from aijobs.services.coordinator.values import Decided, Ended
from aijobs.store import history, moves, wake
from aijobs.store.engine import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """Who cancels many jobs together, why, and which are meant.

    *still*: whether a job as it is now is one of those that are meant; it was when they were looked for.
    """

    actor: str
    reason: str
    still: Callable[[Job], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What one step did: the ids it *cancelled* and *asked* to stop, and how many it left as they were."""

    cancelled: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    asked_already: int = 0
    ended_already: int = 0  # and those that are gone altogether
    changed: int = 0  # have not ended, and are no longer meant


def parts(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """*job_ids* as one step takes them, so that claims and ends go on between two."""
    return (job_ids[start : start + STEP] for start in range(0, len(job_ids), STEP))


def stop_many(
    tx: Tx, finishing: Finishing, job_ids: Sequence[str], now: datetime, cancellation: Cancellation
) -> Stopped:
    """Stop those of *job_ids* that have not ended. All were looked at before, and may have changed since."""
    known = moves.locked(tx, job_ids)
    live = [known[job_id] for job_id in job_ids if job_id in known and not known[job_id].status.final]
    meant = [job for job in live if cancellation.still(job)]
    found = [job for job in meant if not _is_asked(job)]
    if found:
        stop(tx, finishing, found, now, actor=cancellation.actor, reason=cancellation.reason)
    return Stopped(
        cancelled=tuple(job.id for job in found if job.status is not Status.PROCESSING),
        asked=tuple(job.id for job in found if job.status is Status.PROCESSING),
        asked_already=len(meant) - len(found),
        ended_already=len(job_ids) - len(live),
        changed=len(live) - len(meant),
    )


def _is_asked(job: Job) -> bool:
    return job.status is Status.PROCESSING and job.cancel_requested_at is not None


def stop_one(tx: Tx, finishing: Finishing, job_id: str, now: datetime, actor: str, reason: str | None) -> Job:
    """Stop a job that somebody named; how it is then. Raises NotFound and AlreadyFinished."""
    job = moves.locked(tx, [job_id]).get(job_id)
    if job is None:
        raise no_job(job_id)
    if job.status.final:
        raise AlreadyFinished(f"job {job_id} is {job.status} already: nothing was changed")
    stop(tx, finishing, [job], now, actor=actor, reason=reason)
    return moves.locked(tx, [job_id])[job_id]


def stop(
    tx: Tx, finishing: Finishing, found: Sequence[Job], now: datetime, *, actor: str, reason: str | None
) -> None:
    """Cancel those of *found* that wait, and ask those that run to stop. All are locked, none has ended."""
    running = [job for job in found if job.status is Status.PROCESSING]
    waiting = [job for job in found if job.status is not Status.PROCESSING]
    finishing.write(tx, [_cancelled(job, reason) for job in waiting], now)
    if running:
        asked = moves.ask_to_cancel(tx, running, now)
        if asked != len(running):
            raise AssertionError(f"{len(running)} locked jobs were to be asked to stop, {asked} were")
        wake.notify(tx)
    kinds = [("cancelled", job) for job in waiting] + [("cancel_requested", job) for job in running]
    events = [Event(kind=kind, actor=actor, at=now, job_id=job.id, reason=reason) for kind, job in kinds]
    history.add_events(tx, events)


def _cancelled(job: Job, reason: str | None) -> Decided:
    """The end of a job that waits; no attempt of it ends, so nothing is said of one."""
    move = Move(target=Status.CANCELLED, outcome=None, reason=reason or "cancelled")
    return Ended(job=job, end=Lost(), started_at=job.created_at, worker=""), job, move
