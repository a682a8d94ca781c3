"""What the clock on the wall of a time zone shows, as stretches in which it runs evenly.

Only offsets from UTC are used, never the flag for summer time, which is upside down in Dublin and in Morocco.
zoneinfo does not tell when a zone's offset changes, so it is asked every few days and the change is closed in
on; no two changes of any zone since 1970 are closer than a week.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Nothing is computed beyond these, so that no arithmetic leaves the calendar."""

_PROBE = timedelta(days=3)
_SECOND = timedelta(seconds=1)
_NOT_EVERYWHERE_THE_SAME = ("localtime", "posixrules", "Factory")


@dataclass(frozen=True, slots=True)
class ClockChange:
    """At the instant *at* the zone's offset went from *before* to *after*."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def shift(self) -> timedelta:
        """How far the clock on the wall jumped: forward is positive and leaves a gap, back repeats."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Stretch:
    """From *begin* up to, not including, *end* the offset is *offset*; *change* began it, if one did."""

    begin: datetime
    end: datetime
    offset: timedelta
    change: ClockChange | None


def find_zone(name: str) -> ZoneInfo:
    """The zone of that name in the tz database. ValueError says why there is none, and what may be meant."""
    if name in _NOT_EVERYWHERE_THE_SAME or name.startswith(("right/", "posix/")):
        raise ValueError(f"{name!r} differs from machine to machine: write a zone like Europe/Berlin, or UTC")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder's name, a path, an empty or endless name
        raise ValueError(f"{name[:60]!r} is no time zone{_similar(name)}") from None


def _similar(name: str) -> str:
    if re.match(r"(?:UTC|GMT)?[+-][0-9]", name):
        return ": an offset is no zone: write one like Asia/Shanghai, or Etc/GMT-8 (the sign is reversed)"
    import difflib

    zones = _known_zones()
    near = difflib.get_close_matches(name[:60].lower().replace(" ", "_"), zones, n=1, cutoff=0.75)
    return f"; is {zones[near[0]]} meant?" if near else ": write a zone like Europe/Berlin, or UTC"


@lru_cache(maxsize=1)
def _known_zones() -> dict[str, str]:
    """The zones of this machine by their names in lower case; to list them takes a tenth of a second."""
    from zoneinfo import available_timezones

    return {zone.lower(): zone for zone in available_timezones()}


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    """How far the zone is ahead of UTC at *instant*."""
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def changes(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[ClockChange]:
    """Every change from *begin* up to, not including, *end*, in order."""
    for year in range(begin.year, end.year + 1):
        for change in _changes_of_year(zone, year):
            if begin <= change.at < end:
                yield change


def stretches(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[Stretch]:
    """From *begin* up to *end*, cut at every change, and at new year when the last cut is a year ago or more.

    Else the first stretch of a zone that keeps its clocks would be known only at the end of the calendar.
    """
    begun_by = None
    for year in range(begin.year, end.year + 1):
        for change in changes(zone, max(begin, _new_year(year)), min(end, _new_year(year + 1))):
            if begin < change.at:
                yield Stretch(begin, change.at, change.before, begun_by)
            begin, begun_by = change.at, change
        if begin <= _new_year(year) and _new_year(year + 1) < end:
            yield Stretch(begin, _new_year(year + 1), offset_at(zone, begin), begun_by)
            begin, begun_by = _new_year(year + 1), None
    if begin < end:
        yield Stretch(begin, end, offset_at(zone, begin), begun_by)


def _new_year(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def _changes_of_year(zone: ZoneInfo, year: int) -> tuple[ClockChange, ...]:
    found = []
    begin, end = _new_year(year), _new_year(year + 1)
    before = offset_at(zone, begin - _SECOND)
    begin -= _SECOND  # so that a change on the stroke of the new year belongs to that year
    while begin < end - _SECOND:
        probe = min(begin + _PROBE, end - _SECOND)
        after = offset_at(zone, probe)
        if after != before:
            at = _close_in(zone, begin, probe)
            found.append(ClockChange(at, before, after))
        begin, before = probe, after
    return tuple(found)


def _close_in(zone: ZoneInfo, begin: datetime, end: datetime) -> datetime:
    """The first second of the offset that holds at *end*, which differs from that at *begin*."""
    after = offset_at(zone, end)
    while end - begin > _SECOND:
        middle = begin + (end - begin) // 2
        middle = middle.replace(microsecond=0)
        if offset_at(zone, middle) == after:
            end = middle
        else:
            begin = middle
    return end
