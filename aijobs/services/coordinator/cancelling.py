"""Stopping jobs: what waits ends at once, what runs is asked to stop, and its worker carries that out."""

from collections.abc import Sequence
from datetime import datetime

from aijobs.core.lifecycle import Lost, Move
from aijobs.core.model import Event, Job, Status
from aijobs.services.coordinator.finishing import Finishing
from aijobs.services.coordinator.values import Decided, Ended
from aijobs.store import history, moves, wake
from aijobs.store.engine import Tx


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
    said = [("cancelled", job) for job in waiting] + [("cancel_requested", job) for job in running]
    events = [Event(kind=kind, actor=actor, at=now, job_id=job.id, reason=reason) for kind, job in said]
    history.add_events(tx, events)


def _cancelled(job: Job, reason: str | None) -> Decided:
    """The end of a job that waits; no attempt of it ends, so nothing is said of one."""
    move = Move(target=Status.CANCELLED, outcome=None, reason=reason or "cancelled")
    return Ended(job=job, end=Lost(), started_at=job.created_at, worker=""), job, move
