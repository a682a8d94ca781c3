"""What somebody asks for becomes a job to be created: the rules for types, inputs, keys, users and times.

The command line, the Python API and the HTTP API all come through here, so a job that one of them refuses the
others refuse with the same words.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from aijobs.core.errors import InvalidInput, UsageError
from aijobs.core.model import Job, NewJob
from aijobs.core.payload import check_schema, dump_json, input_hash, kind_of, parse_json
from aijobs.core.trace_context import is_traceparent

if TYPE_CHECKING:
    from aijobs.core.settings import Settings, TypeSettings

LONGEST_NAME = 255
"""Characters of a key, a user or a request id (PostgreSQL indexes 2704 bytes of user, type and key)."""

HIGHEST_PRIORITY = 1_000
MOST_ATTEMPTS = 1_000
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONGEST_POLL = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job as it is asked for; None leaves the choice to the type's settings.

    *delay* counts from now, *at* is an instant (give one of them); *deadline* is either, counted from now.
    """

    type: str
    input: object = field(default_factory=dict)
    user: str | None = None
    key: str | None = None
    priority: int | None = None
    delay: timedelta | None = None
    at: datetime | None = None
    deadline: timedelta | datetime | None = None
    max_attempts: int | None = None
    request_id: str | None = None
    traceparent: str | None = None


def new_job(request: Request, settings: "Settings", *, now: datetime) -> NewJob:
    """*request* checked and completed. Raises NotFound for an unknown type, InvalidInput and UsageError."""
    kind = settings.type(request.type)
    value = _checked_input(request.input, kind)
    payload = dump_json(value)
    _check_size(payload, settings)
    key = clean_key(request.key)
    run_at = _run_at(request, now)
    return NewJob(
        type=request.type,
        payload=payload,
        input_hash=input_hash(value),
        user=clean_name(request.user, "user") if request.user is not None else "",
        key=key,
        priority=_whole(
            _first(request.priority, kind.priority), "priority", -HIGHEST_PRIORITY, HIGHEST_PRIORITY
        ),
        run_at=run_at,
        deadline=_deadline(request, kind, run_at, now),
        max_attempts=_whole(
            _first(request.max_attempts, kind.max_attempts), "max-attempts", 1, MOST_ATTEMPTS
        ),
        request_id=None if request.request_id is None else clean_name(request.request_id, "request id"),
        traceparent=_traceparent(request.traceparent),
        key_expires_at=now + settings.key_ttl(request.type) if key is not None else None,
    )


def clean_key(key: str | None) -> str | None:
    """The idempotency key as it is compared: surrounding white space gone, Unicode NFC, case kept.

    Raises UsageError when nothing is left, above 255 characters, or for a control character inside: an empty
    key is a lost variable in somebody's script, and cutting a long one could make two keys one.
    """
    return None if key is None else clean_name(key, "key")


def clean_name(text: str, what: str) -> str:
    """The same rule for anything that names: users, request ids."""
    name = text.strip()
    if not name.isascii():
        name = unicodedata.normalize("NFC", name)
    if not name:
        raise UsageError(f"the {what} is empty", hint=f"leave it out if there is no {what}")
    if len(name) > LONGEST_NAME:
        raise UsageError(f"the {what} is {len(name)} characters long; {LONGEST_NAME} are allowed")
    if not name.isprintable() and (bad := _CONTROL.search(name)):
        raise UsageError(f"the {what} has a character that is not text (U+{ord(bad.group()):04X})")
    return name


def poll_after(job: Job, settings: "Settings", *, now: datetime) -> timedelta | None:
    """When it is worth asking about *job* again: an estimate, not a promise. None once it has ended.

    The wait until it may run, and a tenth of the time its type is given, from one second to one minute.
    """
    if job.status.final:
        return None
    known = job.type in settings.types
    share = settings.tier_timeout(job.type) / 10 if known else timedelta(seconds=1)
    wait = max((job.next_run_at or now) - now, timedelta(0))
    return wait + min(max(share, timedelta(seconds=1)), _LONGEST_POLL)


# --- The rules --------------------------------------------------------------------------------------


def _checked_input(value: object, kind: "TypeSettings") -> object:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"the input must be a JSON object, such as {{}}, and is {kind_of(value)}")
    if kind.input_schema:
        faults = check_schema(value, kind.input_schema)
        if faults:
            raise InvalidInput(f"the input is off its schema: {'; '.join(faults)}")
    return value


def _check_size(payload: str, settings: "Settings") -> None:
    """A caller's own value, which no parser has measured, obeys the limits of the text it becomes."""
    limits = settings.limits
    fits = len(payload) * 4 <= limits.input_bytes
    if not fits or payload.count("[") + payload.count("{") > limits.input_depth:
        parse_json(payload, what="input", max_bytes=limits.input_bytes, max_depth=limits.input_depth)


def _run_at(request: Request, now: datetime) -> datetime | None:
    if request.delay is not None and request.at is not None:
        raise UsageError("delay and at contradict each other", hint="give one of them")
    if request.delay is not None:
        return now + request.delay
    return _aware(request.at, "at") if request.at is not None else None


def _deadline(
    request: Request, kind: "TypeSettings", run_at: datetime | None, now: datetime
) -> datetime | None:
    """A deadline that is asked for counts from now; the type's own from when the job may first run."""
    if request.deadline is None:
        return (run_at or now) + kind.deadline if kind.deadline else None
    if isinstance(request.deadline, timedelta):
        deadline = now + request.deadline
    else:
        deadline = _aware(request.deadline, "deadline")
    if deadline <= max(run_at or now, now):
        raise UsageError("the deadline is over before the job may run", hint="give a later deadline")
    return deadline


def _aware(value: datetime, what: str) -> datetime:
    if value.tzinfo is None:
        raise UsageError(f"{what} has no time zone", hint="give an aware datetime, such as one in UTC")
    return value


def _whole(value: object, what: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UsageError(f"{what} must be a whole number from {low} to {high}")
    return value


def _first(value: int | None, default: int) -> int:
    return default if value is None else value


def _traceparent(text: str | None) -> str | None:
    """W3C trace context; one that is malformed is dropped, as its specification asks."""
    return text if text and is_traceparent(text) else None
