"""The JSON shapes that scripts rely on. They may grow; nothing in them is ever renamed."""

import json
from collections.abc import Mapping
from datetime import timedelta
from operator import attrgetter
from typing import Any

from aijobs.core.model import Execution, Job

JOB_FIELDS = (
    "id", "type", "user", "key", "status", "priority", "attempts", "max_attempts", "round", "next_run_at",
    "locked_until", "locked_by", "provider", "provider_job_id", "last_error_class", "last_error_code",
    "deadline", "created_at", "updated_at", "finished_at",
)  # fmt: skip
"""Of a job in a list."""

DETAIL_FIELDS = (
    "last_error_message", "input_hash", "request_id", "traceparent", "model", "deferrals", "lock_token",
    "claimed_at", "parked_at", "hold_reason", "cancel_requested_at", "schedule", "key_expires_at",
    "code_version", "created_by",
)  # fmt: skip
"""Besides, of one job that is looked at."""

EXECUTION_FIELDS = (
    "round", "attempt", "worker", "provider", "model", "outcome", "error_class", "error_code", "http_status",
    "message", "provider_job_id", "provider_request_id", "client_request_id", "started_at", "finished_at",
    "maybe_billed", "input_tokens", "output_tokens", "shadow", "fence", "counted", "phase", "elapsed_seconds",
    "retry_at", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost", "fallback",
    "code_version",
)  # fmt: skip

_JOB = attrgetter(*JOB_FIELDS)
_DETAIL = attrgetter(*JOB_FIELDS, *DETAIL_FIELDS)
_EXECUTION = attrgetter(*EXECUTION_FIELDS)


def job_shape(job: Job) -> dict[str, Any]:
    """A job of a list; nobody's user is null, as everything unknown."""
    return _shape(JOB_FIELDS, _JOB(job))


def job_detail_shape(job: Job) -> dict[str, Any]:
    """A job that is looked at by itself."""
    return _shape((*JOB_FIELDS, *DETAIL_FIELDS), _DETAIL(job))


def execution_shape(execution: Execution) -> dict[str, Any]:
    """One attempt."""
    return dict(zip(EXECUTION_FIELDS, _EXECUTION(execution), strict=True))


def enqueued_shape(
    job: Job, *, duplicate: bool, poll_after: timedelta | None, result: str | None
) -> dict[str, Any]:
    """What `enqueue` answers; *result* is JSON text and is shown as the value it is."""
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
    }


def row_shape(row: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A row of a side table (notifications) as it is, but for the named columns."""
    return {name: value for name, value in row.items() if name not in without}


def _shape(names: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    shape = dict(zip(names, values, strict=True))
    shape["user"] = shape["user"] or None
    return shape
