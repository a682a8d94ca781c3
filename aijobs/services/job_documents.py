"""A job asked for as a JSON object, a line of a file or the body of a request, named as in `enqueue`."""

from collections.abc import Callable, Mapping
from typing import Any

from aijobs.core.durations import parse_duration, parse_duration_or_instant, parse_instant
from aijobs.core.errors import InvalidInput, UsageError
from aijobs.services.submission import Request

_TEXTS = frozenset({"type", "user", "key", "delay", "at", "deadline", "request_id", "traceparent"})
NAMES = _TEXTS | {"input", "priority", "max_attempts"}
"""What such an object may name; only the type is needed."""
_LONGEST_SHOWN = 60


def request_of(values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Request:
    """The request that *values* are; *defaults* stand in for names that are left out, null or not there.

    Raises InvalidInput for unknown names, wrong types and no type, UsageError for times that are none.
    """
    given = {name.replace("-", "_"): value for name, value in values.items() if value is not None}
    if not given.keys() <= NAMES:
        unknown = min(given.keys() - NAMES)[:_LONGEST_SHOWN]
        raise InvalidInput(f"unknown name {unknown!r}", hint=f"names are {', '.join(sorted(NAMES))}")
    for name in _TEXTS & given.keys():
        if not isinstance(given[name], str):
            raise InvalidInput(f"{name} must be a text")
    for name, read in _READERS.items():
        if name in given:
            given[name] = _read(read, given[name], name)
    wanted = {**(defaults or {}), **given}
    if "at" in given or "delay" in given:  # one that says when overrules a default of either kind
        wanted |= {"at": given.get("at"), "delay": given.get("delay")}
    if "type" not in wanted:
        raise InvalidInput("the type is missing", hint='give each line a "type", or name one: enqueue TYPE')
    return Request(**wanted)


def _read(read: Callable[[str], object], text: str, name: str) -> object:
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


_READERS: Mapping[str, Callable[[str], object]] = {
    "delay": parse_duration,
    "at": parse_instant,
    "deadline": parse_duration_or_instant,
}
