"""`/jobs`: put a job in, ask after it, stop it."""

import json
import math
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from aijobs.core.errors import InvalidInput, NotFound, UsageError
from aijobs.core.model import Job, Status
from aijobs.core.payload import parse_object
from aijobs.core.reasons import checked_reason
from aijobs.http.serve.answers import Refused, document
from aijobs.http.serve.door import job_id_of, read_body
from aijobs.http.serve.serving import Serving
from aijobs.services.coordinator import Enqueued
from aijobs.services.job_documents import request_of
from aijobs.services.last_results import LastResult, LastResults
from aijobs.services.shapes import enqueued_shape, job_shape
from aijobs.services.submission import new_job, poll_after
from aijobs.services.waiting import find
from aijobs.store import jobs

ACTOR = "http"
_OVERHEAD = 64 * 1024  # what a body may hold besides the input


async def create(request: Request, serving: Serving) -> Response:
    """Accept a job: 202; 200 when its key was known; never waits for its work."""
    values = await _values(request, serving)
    key = _key(request)
    if key is not None and values.setdefault("key", key) != key:
        raise UsageError("the header Idempotency-Key and key in the body contradict each other")
    if traceparent := request.headers.get("traceparent"):
        values.setdefault("traceparent", traceparent)
    answer, stale = await serving.threads.run(lambda: _accept(values, serving))
    job = answer.job
    wait = poll_after(job, serving.settings, now=serving.clock.now())
    shape = enqueued_shape(
        job, duplicate=answer.duplicate, poll_after=wait, result=answer.result, stale=stale
    )
    location = f"{request.scope.get('root_path', '')}/jobs/{job.id}"
    headers = {"location": location, **_retry_after(wait)}
    return document(shape, 200 if answer.duplicate else 202, headers=headers)


async def show(request: Request, serving: Serving) -> Response:
    """The job as it is now, its result once it has one, and when it is worth asking again."""
    job_id = job_id_of(request)
    job, result = await serving.threads.run(lambda: _look(job_id, serving))
    wait = poll_after(job, serving.settings, now=serving.clock.now())
    seconds = None if wait is None else round(wait.total_seconds(), 3)
    shape = state_of(job) | {
        "poll_after_seconds": seconds,
        "result": None if result is None else json.loads(result),
    }
    return document(shape, headers=_retry_after(wait))


async def cancel(request: Request, serving: Serving) -> Response:
    """Stop it: 200 when it is stopped, 202 when its worker will."""
    job_id = job_id_of(request)
    reason = _reason(await _values(request, serving, optional=True))
    job: Job = await serving.threads.run(
        lambda: serving.coordinator.cancel(job_id, actor=ACTOR, reason=reason)
    )
    return document(state_of(job), 200 if job.status.final else 202)


def state_of(job: Job) -> dict[str, object]:
    """The job as lists have it, and whether it was asked to stop."""
    return job_shape(job) | {"cancel_requested_at": job.cancel_requested_at}


def _reason(values: dict[str, object]) -> str:
    given = values.get("reason")
    if given is None:
        return "cancelled over HTTP"
    if not isinstance(given, str):
        raise UsageError("the reason must be a text")
    return checked_reason(given)


def _key(request: Request) -> str | None:
    """The key in the header: one, and UTF-8 like the keys of every other way in."""
    given = dict.fromkeys(request.headers.getlist("idempotency-key"))
    if len(given) > 1:
        raise UsageError("the header Idempotency-Key stands there twice, with different keys")
    try:
        return next((text.encode("latin-1").decode() for text in given), None)
    except UnicodeDecodeError:
        raise UsageError("the header Idempotency-Key is not UTF-8 text") from None


async def _values(request: Request, serving: Serving, *, optional: bool = False) -> dict[str, object]:
    """The JSON object in the body. Raises Refused: 400 when it is none, 415 when it says it is no JSON."""
    limits = serving.settings.limits
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "unsupported_media_type", "send application/json")
    body = await read_body(request, limit=limits.input_bytes + _OVERHEAD, seconds=serving.bounds.body)
    if optional and not body:
        return {}
    try:
        return parse_object(body, what="the body", max_bytes=len(body) + 1, max_depth=limits.input_depth + 1)
    except InvalidInput as error:
        raise Refused(400, error.kind, error.message) from None


def _accept(values: dict[str, object], serving: Serving) -> tuple[Enqueued, LastResult | None]:
    """The job, and while stale results are on an earlier result that may stand in."""
    answer = _enqueue(values, serving)
    return answer, LastResults(serving.store, serving.settings).stand_in(answer.job)


def _enqueue(values: dict[str, object], serving: Serving) -> Enqueued:
    try:
        new = new_job(request_of(values), serving.settings, now=serving.clock.now())
    except NotFound as error:  # the type is in the body: what is not found is not this address
        raise UsageError(error.message) from None
    return serving.coordinator.enqueue(new, actor=ACTOR)


def _look(job_id: str, serving: Serving) -> tuple[Job, str | None]:
    job = find(serving.store, job_id)
    if job.status is not Status.SUCCEEDED:
        return job, None
    with serving.store.read() as tx:
        return job, jobs.result_of(tx, job_id)


def _retry_after(wait: timedelta | None) -> dict[str, str]:
    return {} if wait is None else {"retry-after": str(max(1, math.ceil(wait.total_seconds())))}
