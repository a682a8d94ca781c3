"""`GET /jobs/{id}/events`: what happens to a job, as it happens, as server-sent events.

Three kinds: `event` (what people and the system did), `attempt` (one that ended), `job` (its present state).
The id of each is a place in the job's history, so that a client that comes back with `Last-Event-ID` gets
what it missed and nothing twice. The stream ends when the job does.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from aijobs.core.errors import NotFound, StoreError, no_job
from aijobs.core.model import Execution, Job
from aijobs.http.serve.answers import Refused, json_value
from aijobs.http.serve.door import job_id_of
from aijobs.http.serve.job_routes import state_of
from aijobs.http.serve.serving import Serving
from aijobs.store import jobs

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two looks: short after a change, longer and longer while nothing changes."""

_CURSOR = re.compile(r"e(\d{1,18})\.x(\d{1,18})\.s(\d{1,18})")
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a client has come: last event, last attempt's fence, last state (see `_mark`)."""

    event: int = 0
    fence: int = 0
    state: int = 0

    @classmethod
    def read(cls, text: str | None) -> "Cursor":
        """*text* as `Last-Event-ID` brings it; from the beginning when it is none of ours."""
        found = _CURSOR.fullmatch(text or "")
        if found is None:
            return cls()
        event, fence, state = map(int, found.groups())
        return cls(event=event, fence=fence, state=state)

    def __str__(self) -> str:
        return f"e{self.event}.x{self.fence}.s{self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The job and its history at one moment."""

    job: Job
    events: list[dict[str, Any]]
    executions: list[Execution]

    def since(self, cursor: Cursor) -> Iterator[tuple[Cursor, str, dict[str, object]]]:
        """What is new to a client at *cursor*, each with the cursor it leads to."""
        for row in self.events:
            if row["id"] > cursor.event:
                cursor = replace(cursor, event=row["id"])
                yield cursor, "event", {name: row[name] for name in ("at", "kind", "actor", "reason")}
        for one in self.executions:
            if one.fence > cursor.fence and not one.shadow:
                cursor = replace(cursor, fence=one.fence)
                yield cursor, "attempt", _attempt(one)
        state = _mark(self.job)
        if state != cursor.state:
            yield replace(cursor, state=state), "job", state_of(self.job)


def _mark(job: Job) -> int:
    """Another number for each state of a job, but no order of them: the clock may step back, and a change
    that waited for the job's row bears the time from before it. The last bit is the end's, which may come
    within the same microsecond as the change before.
    """
    return int(job.updated_at.timestamp() * 1_000_000) * 2 + job.status.final


async def events(request: Request, serving: Serving) -> Response:
    """The stream; 204 tells a client that has seen the end not to come back."""
    cursor = Cursor.read(request.headers.get("last-event-id"))
    job_id = job_id_of(request)
    look = await serving.threads.run(lambda: _look(job_id, serving))
    if look.job.status.final and not list(look.since(cursor)):
        return Response(status_code=204, headers=_HEADERS)
    if request.method == "HEAD":
        return Response(headers=_HEADERS, media_type="text/event-stream")
    if serving.streams >= serving.bounds.streams:
        headers = {"retry-after": str(serving.bounds.retry_after)}
        raise Refused(503, "busy", "too many event streams are open", headers=headers)
    return StreamingResponse(_stream(look, cursor, serving), headers=_HEADERS, media_type="text/event-stream")


async def _stream(look: Look, cursor: Cursor, serving: Serving) -> AsyncIterator[str]:
    serving.streams += 1
    try:
        yield "retry: 2000\n\n"
        pause, quiet = FIRST_PAUSE, 0.0
        while True:
            for cursor, kind, value in look.since(cursor):  # noqa: B020  # each leads on to the next
                pause, quiet = FIRST_PAUSE, 0.0
                yield _event(cursor, kind, value)
            if look.job.status.final or serving.stopping.is_set():
                return
            await _wait(serving, min(pause, serving.bounds.heartbeat))
            quiet, pause = quiet + pause, min(pause * 1.5, LONGEST_PAUSE)
            if quiet >= serving.bounds.heartbeat:
                quiet = 0.0
                yield ": alive\n\n"
            job_id = look.job.id
            look = await serving.threads.run(lambda: _look(job_id, serving))  # noqa: B023
    except (StoreError, NotFound):
        return  # the client comes back, and is told then
    finally:
        serving.streams -= 1


async def _wait(serving: Serving, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await serving.stopping.wait()


def _look(job_id: str, serving: Serving) -> Look:
    with serving.store.read() as tx:
        job = jobs.get(tx, job_id)
        if job is None:
            raise no_job(job_id)
        return Look(job=job, events=jobs.events_of(tx, job_id), executions=jobs.executions_of(tx, job_id))


def _attempt(one: Execution) -> dict[str, object]:
    names = ("round", "attempt", "outcome", "error_class", "error_code", "started_at", "finished_at")
    return {name: getattr(one, name) for name in names}


def _event(cursor: Cursor, kind: str, value: dict[str, object]) -> str:
    data = json.dumps(value, separators=(",", ":"), default=json_value, allow_nan=False)
    return f"id: {cursor}\nevent: {kind}\ndata: {data}\n\n"
