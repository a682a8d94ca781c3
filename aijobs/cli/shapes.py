"""The JSON shapes that scripts rely on. They may grow; nothing in them is ever renamed."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from aijobs.core.model import Execution, Job
from aijobs.services.shapes import JOB_FIELDS, named_shape

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

_DETAIL = attrgetter(*JOB_FIELDS, *DETAIL_FIELDS)
_EXECUTION = attrgetter(*EXECUTION_FIELDS)


def job_detail_shape(job: Job) -> dict[str, Any]:
    """A job that is looked at by itself."""
    return named_shape((*JOB_FIELDS, *DETAIL_FIELDS), _DETAIL(job))


def execution_shape(execution: Execution) -> dict[str, Any]:
    """One attempt."""
    return dict(zip(EXECUTION_FIELDS, _EXECUTION(execution), strict=True))


def row_shape(row: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A row of a side table (notifications) as it is, but for the named columns."""
    return {name: value for name, value in row.items() if name not in without}
