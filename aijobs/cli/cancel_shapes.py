"""What both ways of `aijobs cancel`, by name and by filters, are told and print."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aijobs.core.model import Job, Status
from aijobs.services.shapes import job_shape
from aijobs.store.jobs import Unfinished

PREVIEWED = ("job_id", "type", "user", "status", "would")
PREVIEW_COLUMNS = ("ID", "TYPE", "USER", "STATUS", "WOULD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who cancels, why, and whether it goes without a question."""

    actor: str
    reason: str
    yes: bool


def preview_row(job: Job | Unfinished) -> tuple[object, ...]:
    """A job, and what would become of it."""
    return job.id, job.type, job.user, job.status, would(job.status)


def would(status: Status) -> str:
    """What would become of a job of that status."""
    if status.final:
        return "be refused: it has ended"
    return "be asked to stop" if status is Status.PROCESSING else "be cancelled"


def named_rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """*rows* for JSON; nobody's user is null, as everything unknown."""
    return [dict(zip(names, row, strict=True)) | {"user": row[names.index("user")] or None} for row in rows]


def cancelled_shape(job: Job) -> dict[str, Any]:
    """A job that was cancelled or asked to stop."""
    return job_shape(job) | {"cancel_requested_at": job.cancel_requested_at}
