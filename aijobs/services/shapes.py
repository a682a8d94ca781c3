"""The JSON shapes of jobs that scripts and HTTP clients rely on. They may grow; nothing is ever renamed."""

import json
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from aijobs.core.model import Job

if TYPE_CHECKING:
    from aijobs.services.last_results import LastResult

JOB_FIELDS = (
    "id", "type", "user", "key", "status", "priority", "attempts", "max_attempts", "round", "next_run_at",
    "locked_until", "locked_by", "provider", "provider_job_id", "last_error_class", "last_error_code",
    "deadline", "created_at", "updated_at", "finished_at",
)  # fmt: skip
"""Of a job in a list."""

_JOB = attrgetter(*JOB_FIELDS)


def job_shape(job: Job) -> dict[str, Any]:
    """A job of a list; nobody's user is null, as everything unknown."""
    return named_shape(JOB_FIELDS, _JOB(job))


def enqueued_shape(
    job: Job, *, duplicate: bool, poll_after: timedelta | None, result: str | None,
    stale: "LastResult | None" = None,
) -> dict[str, Any]:  # fmt: skip
    """What `enqueue` answers; *result* is JSON text and is shown as the value it is.

    *stale* is an earlier result that may stand in meanwhile; it has a name of its own, with its age.
    """
    return {
        "id": job.id,
        "status": job.status,
        "type": job.type,
        "user": job.user or None,
        "key": job.key,
        "duplicate": duplicate,
        "poll_after_seconds": None if poll_after is None else round(poll_after.total_seconds(), 3),
        "result": None if result is None else json.loads(result),
        "key_expires_at": job.key_expires_at,
        "stale_result": None if stale is None else last_result_shape(stale),
    }


def last_result_shape(found: "LastResult") -> dict[str, Any]:
    """An earlier result, marked with its age."""
    return {
        "job_id": found.job_id,
        "finished_at": found.finished_at,
        "age_seconds": round(found.age.total_seconds(), 3),
        "stale": found.stale,
        "result": json.loads(found.result),
    }


def named_shape(names: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    """*values* of a job under *names*; nobody's user is null."""
    shape = dict(zip(names, values, strict=True))
    shape["user"] = shape["user"] or None
    return shape
