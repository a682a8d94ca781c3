"""Durations, rates and instants as people type them, the same on the command line and in the file.

A duration always names its units (`90s`, `5m`, `1h30m`, `2d`, `250ms`); `m` is minutes. A rate is a count
over one unit (`500/m`). An instant is ISO 8601; without a zone it is UTC. Everything else is refused with the
reason, because a guess here means a job that runs at the wrong time.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
LONGEST = timedelta(days=36_500)
"""No duration may be longer (a hundred years), so that `now + duration` is always a date."""

_DURATION = re.compile(
    r"(?:(?P<d>[0-9]{1,15})d)?(?:(?P<h>[0-9]{1,15})h)?(?:(?P<m>[0-9]{1,15})m)?"
    r"(?:(?P<s>[0-9]{1,15})s)?(?:(?P<ms>[0-9]{1,15})ms)?"
)
_RATE = re.compile(r"([0-9]{1,9})/([smhd])")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:[Zz]|[+-](?P<hours>[0-9]{2}):?[0-5][0-9])?)?"
)
_AGO = re.compile(r"-?(?P<duration>[0-9][0-9a-z]*)(?: +ago)?")
_HOURS = 24
_LONGEST_SHOWN = 200
_EPOCH_DIGITS = {9: "seconds", 10: "seconds", 12: "milliseconds", 13: "milliseconds"}


def parse_duration(text: str) -> timedelta:
    """*text* as a duration of zero or more. ValueError says what is wrong and how to write it."""
    text = text.strip()
    match = _DURATION.fullmatch(text) if text else None
    if match is None:
        raise ValueError(_duration_fault(text))
    parts = {unit: int(number) for unit, number in match.groupdict().items() if number}
    if any(number > LONGEST // _UNITS[unit] for unit, number in parts.items()):
        raise ValueError(f"{_shown(text)} is too long: at most {LONGEST.days}d")
    total = sum((_UNITS[unit] * number for unit, number in parts.items()), timedelta(0))
    if total > LONGEST:
        raise ValueError(f"{_shown(text)} is too long: at most {LONGEST.days}d")
    return total


def format_duration(value: timedelta) -> str:
    """*value* in the same spelling, to the millisecond; what `parse_duration` gave comes back unchanged."""
    rest = round(abs(value) / _UNITS["ms"])
    parts = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, round(size / _UNITS["ms"]))
        if count:
            parts.append(f"{count}{unit}")
    sign = "-" if value < timedelta(0) and parts else ""
    return sign + ("".join(parts) or "0s")


@dataclass(frozen=True, slots=True)
class Rate:
    """At most *count* starts in any span of *per*."""

    count: int
    per: timedelta

    def __str__(self) -> str:
        unit = next(unit for unit, size in _UNITS.items() if size == self.per)
        return f"{self.count}/{unit}"


def parse_rate(text: str) -> Rate:
    """*text* (`5/s`, `30/m`, `500/h`, `1000/d`) as a rate of at least one. ValueError says what is wrong."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{_shown(text)} is not a rate: write a count over one unit, like 5/s, 30/m or 500/h"
        )
    if int(match[1]) == 0:
        raise ValueError(f"{_shown(text)} lets nothing through: pause the type or the provider instead")
    return Rate(int(match[1]), _UNITS[match[2]])


def parse_instant(text: str) -> datetime:
    """*text* as an aware UTC instant: ISO 8601, zone-less means UTC. ValueError says what is wrong."""
    text = text.strip()
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(_instant_fault(text))
    if int(match["hours"] or 0) >= _HOURS:  # of which Python speaks in words of its classes
        raise ValueError(f"{_shown(text)} is no such time: no zone is so far from UTC")
    try:
        value = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"{_shown(text)} is no such time: {error}") from None
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{_shown(text)} lies outside the calendar in UTC") from None


def parse_duration_or_instant(text: str) -> timedelta | datetime:
    """`1h30m` or ISO 8601, as a deadline is written. Raises ValueError with the reason."""
    return parse_instant(text) if text.strip()[:4].isdigit() and "-" in text else parse_duration(text)


def format_instant(value: datetime) -> str:
    """`2026-01-31T09:30:00.000Z`: in UTC, to the millisecond."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_time(text: str, *, now: datetime) -> datetime:
    """*text* as an instant, or as a duration ago (`2h`, `-2h`, `2h ago`). ValueError says what is wrong."""
    text = text.strip()
    match = _AGO.fullmatch(text)
    if match and not text.lstrip("-").isdigit():
        try:
            return now - parse_duration(match["duration"])
        except OverflowError:
            raise ValueError(f"{_shown(text)} ago lies before the calendar begins") from None
    try:
        return parse_instant(text)
    except ValueError as error:
        raise ValueError(f"{error}; or say how long ago, like 2h") from None


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"a text of {len(text)} characters"


def _duration_fault(text: str) -> str:
    if not text:
        return "empty: write a duration like 90s, 5m, 1h30m or 2d"
    if text.isascii() and text.isdigit():
        number = text if len(text) <= _LONGEST_SHOWN else "90"
        return f"{_shown(text)} has no unit: write {number}s, {number}m or {number}h"
    if text.startswith("-") and _DURATION.fullmatch(text[1:]):
        return f"{_shown(text)} is negative"
    return (
        f"{_shown(text)} is not a duration: write it like 90s, 5m, 1h30m or 2d (in the order d, h, m, s, ms)"
    )


def _instant_fault(text: str) -> str:
    form = "write ISO 8601, like 2026-01-31T09:30:00Z"
    if not text:
        return f"empty: {form}"
    if text.isascii() and text.isdigit():
        unit = _EPOCH_DIGITS.get(len(text))
        if unit is None:
            return f"{_shown(text)} is a bare number: {form}"
        meant = datetime.fromtimestamp(int(text) / (1000 if unit == "milliseconds" else 1), UTC)
        return f"{text!r} is a bare number; if it counts {unit} since 1970, write {meant:%Y-%m-%dT%H:%M:%SZ}"
    return f"{_shown(text)} is not a time: {form} (without a zone it is taken as UTC)"
