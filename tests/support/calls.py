"""Calls with defaults, so that a test shows only what matters to it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aijobs.providers.contract import Call

JOB = "01890000-0000-7000-8000-000000000001"


def make_call(
    *,
    input: object = None,  # noqa: A002
    prompt: str | None = None,
    model: str | None = "m-1",
    request: Mapping[str, object] | None = None,
    seconds: float = 10,
    **others: Any,
) -> Call:
    """A call of job JOB, first attempt."""
    return Call(
        job_id=JOB,
        type="summarize",
        attempt=1,
        model=model,
        prompt=prompt,
        input={} if input is None else input,
        request=request or {},
        timeout=timedelta(seconds=seconds),
        client_request_id=f"aijobs-{JOB}-1",
        idempotency_key=f"{JOB}-1",
        **others,
    )
