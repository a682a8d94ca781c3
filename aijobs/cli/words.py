"""What people type as times and durations, turned into values; errors name the option or the line."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from aijobs.core.durations import parse_duration, parse_duration_or_instant, parse_instant, parse_time
from aijobs.core.errors import UsageError

T = TypeVar("T")


def duration(text: str | None, what: str) -> timedelta | None:
    """`90s`, `1h30m`; None stays None. Raises UsageError."""
    return _read(parse_duration, text, what)


def positive_duration(text: str | None, what: str) -> timedelta | None:
    """As `duration`, and longer than nothing."""
    value = duration(text, what)
    if value is not None and not value:
        raise UsageError(f"{what}: must be longer than 0s")
    return value


def instant(text: str | None, what: str) -> datetime | None:
    """ISO 8601, UTC if no zone is named; None stays None. Raises UsageError."""
    return _read(parse_instant, text, what)


def duration_or_instant(text: str | None, what: str) -> timedelta | datetime | None:
    """`1h30m` or ISO 8601."""
    return _read(parse_duration_or_instant, text, what)


def past(text: str | None, what: str, *, now: datetime) -> datetime | None:
    """ISO 8601 or a duration ago, as --since takes it."""
    return _read(lambda given: parse_time(given, now=now), text, what)


def time_range(
    since: str | None, until: str | None, *, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """--since and --until; a range that ends before it begins is refused rather than found empty."""
    begin, end = past(since, "--since", now=now), past(until, "--until", now=now)
    if begin and end and begin >= end:
        raise UsageError("--since is not before --until", hint="swap them")
    return begin, end


def _read(parse: Callable[[str], T], text: str | None, what: str) -> T | None:
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from None
