"""What is answered: JSON, and for each kind of failure one status and one body."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import Response

from aijobs.core.errors import (
    AijobsError,
    BacklogFull,
    Conflict,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StoreError,
    UsageError,
)


class Refused(HTTPException):
    """An answer that is a refusal: *kind* for machines, *message* for people; neither says what came in."""

    def __init__(
        self, status: int, kind: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, dict(headers) if headers else None)
        self.kind = kind


def document(
    value: Mapping[str, object], status: int = 200, *, headers: Mapping[str, str] | None = None
) -> Response:
    """*value* as JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=json_value, allow_nan=False)
    # Lone surrogates, which JSON may escape and UTF-8 cannot hold, stay escapes.
    body = text.encode("utf-8", "backslashreplace")
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/json")


def failure(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The body of everything that is not done."""
    return document({"error": {"kind": kind, "message": message}}, status, headers=headers)


def http_failure(error: HTTPException) -> Response:
    """Refusals of ours, and what the router says: no such route, wrong method."""
    if isinstance(error, Refused):
        return failure(error.status_code, error.kind, error.detail, error.headers)
    phrase = HTTPStatus(error.status_code).phrase
    return failure(error.status_code, phrase.lower().replace(" ", "_"), phrase.lower(), error.headers)


def own_failure(error: AijobsError, *, retry_after: int) -> Response:
    """The services' errors. What ails the store is for our log, not for the caller."""
    match error:
        case SchemaMismatch():  # until a person replaces this server: nobody knows when to try again
            return failure(503, error.kind, "the store is not of this server's version")
        case StoreError():
            headers = {"retry-after": str(retry_after)}
            return failure(503, error.kind, "the store cannot serve now: try again", headers)
        case NotFound():
            return failure(404, error.kind, error.message)
        case BacklogFull():
            return failure(429, error.kind, error.message, {"retry-after": str(retry_after)})
        case Conflict():
            return failure(409, error.kind, error.message)
        case InvalidInput() | UsageError():
            return failure(422, error.kind, error.message)
        case _:
            return failure(500, "internal", "internal error")


def json_value(value: object) -> object:
    """Times as ISO 8601 with `Z`, durations as seconds."""
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case _:
            raise TypeError(f"{type(value).__name__} has no place in JSON")
