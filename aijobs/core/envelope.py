"""What a response body says went wrong, whatever envelope it comes in: read leniently, never raising.

A body is read once. It may be JSON, a stream of events nobody asked for, a proxy's page, or nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

_TEXT_CHARS = 4096  # of a body that is no JSON, kept for people
_MESSAGE_CHARS = 8192
_MOST_EVENTS = 100_000
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NOTHING = frozenset({"", "none", "null"})
_STATUSES = range(100, 600)


class Form(StrEnum):
    """What a body turned out to be."""

    JSON = "json"
    EVENTS = "events"  # server-sent events, though no stream was asked for
    HTML = "html"
    TEXT = "text"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A response body: its *form*, the JSON *value* (None unless JSON), and the beginning of its *text*.

    Of events the value is the one that tells of an error, if any does.
    """

    form: Form
    value: object = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An error in one normal form.

    *codes* are the specific words for it, most specific first, in lower case; *type* the general one.
    *status* is what the body gives as HTTP status, which a gateway may hide behind a 200. *error* is the
    object itself, for the details that only one provider has.
    """

    message: str = ""
    codes: tuple[str, ...] = ()
    type: str | None = None
    status: int | None = None
    error: Mapping[str, object]

    @property
    def code(self) -> str | None:
        """The one word that names it best."""
        return self.codes[0] if self.codes else self.type

    def at(self, *names: str) -> object:
        """What stands at the path *names* inside the error object; None if nothing does."""
        return at(self.error, *names)


def at(value: object, *names: str) -> object:
    """What stands at the path *names* inside nested objects; None if nothing does."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def read_body(data: bytes) -> Body:
    """Read *data* as UTF-8 with replacements, and as JSON if it is; an unreadable one is text."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    if not text:
        return Body(form=Form.EMPTY)
    try:
        return Body(form=Form.JSON, value=json.loads(text), text=text[:_TEXT_CHARS])
    except (ValueError, RecursionError):  # also an integer too long to read, and a nest too deep
        pass
    if text.startswith(("event:", "data:", ":")):
        return Body(form=Form.EVENTS, value=_error_event(text), text=text[:_TEXT_CHARS])
    form = (
        Form.HTML
        if re.match(r"\s*<(?:!doctype|html|head|body|\?xml)", text[:200], re.IGNORECASE)
        else Form.TEXT
    )
    return Body(form=form, text=text[:_TEXT_CHARS])


def _error_event(text: str) -> object:
    for line in text.splitlines()[:_MOST_EVENTS]:
        if line.startswith("data:") and '"error"' in line:
            try:
                value = json.loads(line.removeprefix("data:"))
            except (ValueError, RecursionError):
                continue
            if find_error(value, failed=False):
                return value
    return None


def find_error(value: object, *, failed: bool) -> Envelope | None:
    """The error inside a parsed body, or None.

    With an error status (*failed*) everything in the body is about it. Behind a 200 only what names itself an
    error is one: other answers have a `message` or a `detail` too.
    """
    if isinstance(value, list) and value:
        value = value[0]  # Gemini wraps its error in a list
    if not isinstance(value, Mapping):
        return None
    error = _inner(value, failed=failed)
    if error is None and failed:
        error = value
    return None if error is None else _normal(error, value)


def _inner(body: Mapping[str, object], *, failed: bool) -> Mapping[str, object] | None:
    """The object that is the error: at the top, one deeper, or where a stream's event has it."""
    for holder in (body, body.get("response")):
        error = at(holder, "error")
        if isinstance(error, Mapping) and error:
            deeper = error.get("error")
            return deeper if isinstance(deeper, Mapping) and deeper else error
        if isinstance(error, str) and error.strip():
            return _named(error, body)
    if body.get("type") == "error" or body.get("object") == "error":
        return body
    errors = body.get("errors") if failed or not body.get("data") else None  # GraphQL may have both
    if isinstance(errors, list) and errors and isinstance(errors[0], Mapping) and "message" in errors[0]:
        return errors[0]
    return None


def _named(error: str, body: Mapping[str, object]) -> Mapping[str, object]:
    """An envelope whose `error` is a text: a code if it is spelled like one, else a part of the message."""
    said = body.get("message") or body.get("error_description") or body.get("detail")
    rest = {name: value for name, value in body.items() if name not in ("error", "message")}
    if _CODE.fullmatch(error) and isinstance(said, str):
        return {**rest, "code": body.get("code") or error, "message": said}
    return {**rest, "message": f"{error}: {said}" if isinstance(said, str) else error}


def _normal(error: Mapping[str, object], body: Mapping[str, object]) -> Envelope:
    words = [*_specific(error), error.get("code"), *(() if error is body else (body.get("code"),))]
    numbers = [_status(word) for word in (error.get("code"), error.get("status"), body.get("status"))]
    codes = dict.fromkeys(code for word in words if (code := _word(word)) and _status(code) is None)
    kind = _word(error.get("type")) or _word(error.get("status"))
    return Envelope(
        message=_message(error)[:_MESSAGE_CHARS],
        codes=tuple(codes),
        type=None if kind in ("error", None) or _status(kind) else kind,
        status=next((number for number in numbers if number is not None), None),
        error=error,
    )


def _specific(error: Mapping[str, object]) -> Iterator[object]:
    """Where a provider puts its stable discriminator, beside or below a general code."""
    yield at(error, "details", "error_code")  # Anthropic
    yield at(error, "innererror", "code")  # Azure
    yield at(error, "metadata", "error_type")
    details = error.get("details")
    for detail in details[:20] if isinstance(details, list) else []:
        yield at(detail, "reason")  # Google's ErrorInfo


def _word(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**12 else None
    if not isinstance(value, str) or not _CODE.fullmatch(value) or value.lower() in _NOTHING:
        return None
    return value.lower()


def _status(value: object) -> int | None:
    """The HTTP status that *value* is, as a number or as digits."""
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    is_status = isinstance(value, int) and not isinstance(value, bool) and value in _STATUSES
    return value if is_status and isinstance(value, int) else None


def _message(error: Mapping[str, object]) -> str:
    for name in ("message", "detail", "msg", "error_description", "title", "reason"):
        said = error.get(name)
        if isinstance(said, str) and said.strip():
            title = error.get("title") if name == "detail" else None  # RFC 9457
            return f"{title}: {said}" if isinstance(title, str) and title else said
        if name == "detail" and isinstance(said, list):  # FastAPI
            return "; ".join(_place(item) for item in said[:5])
    return ""


def _place(item: object) -> str:
    where = at(item, "loc")
    path = ".".join(str(step) for step in where) if isinstance(where, list) else ""
    said = at(item, "msg")
    return f"{path}: {said}" if path else str(said)
