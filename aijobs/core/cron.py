"""Fire times: which instants a schedule names, by the rule of cron(8) where clocks change.

**An entry with fixed times** (neither its minute nor its hour field begins with `*`) that falls into the gap
of a clock going forward runs once, at the first instant after the gap; in an hour that is repeated it runs
once, the first time. **Every other entry** follows the clock on the wall: nothing in a gap, twice in a
repeated hour. `0 0-23 * * *` is therefore not `0 * * * *`. As in cron's own loop this holds for changes up to
three hours (a gap of exactly three is already too long); a larger one is a correction of the calendar, like
the day that Samoa left out, and the new time simply counts. Two entries that land on the same instant are one
fire time: the instant is what a job is known by.

**`every: 5m`** counts from the Unix epoch (1970-01-01T00:00Z) in UTC, whatever the clocks do: every machine
and every restart agrees on it, and `every: 1d` is midnight UTC.

croniter is a second reader, not the source: `warnings` lets it expand the same five fields and says where it
reads them differently, so that a line moved here from another program is not quietly understood otherwise.
Its fire times are not used: it runs fixed times twice when clocks go back, and wildcard ones after a gap.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from aijobs.core.crontab import FIELDS, Crontab, CrontabFault, parse
from aijobs.core.durations import format_duration
from aijobs.core.wallclock import (
    EARLIEST,
    LATEST,
    ClockChange,
    Stretch,
    changes,
    find_zone,
    stretches,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(minutes=1)
LONGEST_PERIOD = timedelta(days=366)
LONGEST_WAIT = timedelta(days=366 * 41)
"""29 February on a given day of the week comes again after forty years at the latest (over 2100)."""

_TICK = timedelta(microseconds=1)
_THREE_HOURS = timedelta(hours=3)
_LOOK_BACK = timedelta(hours=4)  # further than any clock change that cron treats as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When something falls due. Make one with `Schedule.parse`; instants are aware UTC."""

    zone: ZoneInfo
    crontab: Crontab | None = None
    period: timedelta | None = None

    @classmethod
    def parse(
        cls, *, cron: str | None = None, every: timedelta | None = None, timezone: str = "UTC"
    ) -> "Schedule":
        """Of a cron expression or a period, one of the two. ValueError holds every reason for refusing."""
        if (cron is None) == (every is None):
            raise ValueError("give either cron or every")
        if every is not None:
            return cls(zone=find_zone(timezone), period=_checked_period(every))
        crontab, zone, reasons = _read(cron or "", timezone)
        if crontab is None or zone is None:
            raise ValueError("; ".join(reasons))
        return cls(zone=zone, crontab=crontab)

    @property
    def fingerprint(self) -> str:
        """The same for every way to write the same times, and another for other times or another zone."""
        if self.crontab is None:
            return f"every {format_duration(self._period)}"
        return f"cron {self.crontab.meaning} {self.zone.key}"

    def fires(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The instants later than *after* and not later than *until*, in order, each once."""
        begin, end = _window(after, until)
        if self.crontab is None:
            return self._multiples(begin, end)
        return self._by_the_wall(self.crontab, begin, end)

    def count(self, after: datetime, until: datetime) -> int:
        """How many `fires` gives; cheap over years."""
        begin, end = _window(after, until)
        if end <= begin:
            return 0
        if self.crontab is None:
            return max(0, (end - _TICK - EPOCH) // self._period - (begin - _TICK - EPOCH) // self._period)
        total = 0
        for stretch in stretches(self.zone, begin - _LOOK_BACK, end):
            extra, skip_to = _after_change(self.crontab, stretch)
            total += bool(extra and begin <= extra < end)
            start = max(skip_to, begin.replace(tzinfo=None) + stretch.offset)
            total += self.crontab.count(start, stretch.end.replace(tzinfo=None) + stretch.offset)
        return total

    def next_fire(self, after: datetime) -> datetime | None:
        """The first instant later than *after*; None when the calendar ends before it comes."""
        after = min(_utc(after), LATEST)
        return next(self.fires(after, after + LONGEST_WAIT), None)

    def previous_fire(self, before: datetime) -> datetime | None:
        """The last instant earlier than *before*."""
        before = max(_utc(before), EARLIEST)
        found = self.latest(before - LONGEST_WAIT, before - _TICK, 1)
        return found[0] if found else None

    def latest(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The last *limit* of `fires`, in order, without walking all of them."""
        reach = timedelta(hours=1)
        while True:
            start = max(after, until - reach)
            found = list(self.fires(start, until))
            if len(found) >= limit or start == after:
                return found[-limit:] if limit else []
            reach *= 4

    def local(self, instant: datetime) -> datetime:
        """*instant* on the clock of the schedule's zone."""
        return instant.astimezone(self.zone)

    def clock_change_on(self, day: date) -> ClockChange | None:
        """The change of clocks on that day of the zone, if there is one."""
        middle = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        around = changes(self.zone, middle - timedelta(days=2), middle + timedelta(days=2))
        return next((c for c in around if day in {(c.at + c.before).date(), (c.at + c.after).date()}), None)

    @property
    def _period(self) -> timedelta:
        assert self.period is not None
        return self.period

    def _multiples(self, begin: datetime, end: datetime) -> Iterator[datetime]:
        at = EPOCH + -((EPOCH - begin) // self._period) * self._period
        while at < end:
            yield at
            at += self._period

    def _by_the_wall(self, crontab: Crontab, begin: datetime, end: datetime) -> Iterator[datetime]:
        for stretch in stretches(self.zone, begin - _LOOK_BACK, end):
            extra, skip_to = _after_change(crontab, stretch)
            if extra and begin <= extra < end:
                yield extra
            start = max(skip_to, begin.replace(tzinfo=None) + stretch.offset)
            for wall in crontab.walls(start, stretch.end.replace(tzinfo=None) + stretch.offset):
                yield (wall - stretch.offset).replace(tzinfo=UTC)


def _window(after: datetime, until: datetime) -> tuple[datetime, datetime]:
    """Later than *after* and not later than *until*, as: from here up to, not including, there; in UTC."""
    return min(max(_utc(after), EARLIEST), LATEST) + _TICK, min(_utc(until), LATEST) + _TICK


def _utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} has no time zone")
    return instant.astimezone(UTC)


def _after_change(crontab: Crontab, stretch: Stretch) -> tuple[datetime | None, datetime]:
    """What the change that began *stretch* means for *crontab*: the instant at which it makes up for what
    fell into the gap, if anything did, and the time on the wall (naive) from which the stretch counts."""
    wall = stretch.begin.replace(tzinfo=None) + stretch.offset
    if stretch.change is None or not crontab.fixed:
        return None, wall
    shift = stretch.change.shift
    if -_THREE_HOURS <= shift < timedelta(0):
        return None, wall - shift
    if timedelta(0) < shift < _THREE_HOURS and crontab.count(wall - shift, wall):
        return stretch.begin, wall + _TICK  # whatever stands at this very minute is the same instant
    return None, wall


def _read(expr: str, timezone: str) -> tuple[Crontab | None, ZoneInfo | None, list[str]]:
    crontab, zone = None, None
    reasons: list[str] = []
    try:
        crontab = parse(expr)
    except CrontabFault as fault:
        reasons += fault.reasons
    try:
        zone = find_zone(timezone)
    except ValueError as fault:
        reasons.append(str(fault))
    return crontab, zone, reasons


def _checked_period(every: timedelta) -> timedelta:
    if every < SHORTEST:
        raise ValueError(f"every: {format_duration(every)} is shorter than a minute, the finest there is")
    if every > LONGEST_PERIOD:
        raise ValueError(f"every: {format_duration(every)} is longer than a year: write a cron expression")
    if every % timedelta(seconds=1):
        raise ValueError(f"every: {format_duration(every)} is not a whole number of seconds")
    return every


# --- For `config check` ---------------------------------------------------------------------------


def validate(expr: str, timezone: str) -> list[str]:
    """Every reason for refusing the expression or the zone, with a rewrite where there is one; [] is good."""
    return _read(expr, timezone)[2]


def warnings(expr: str, timezone: str = "UTC", *, now: datetime | None = None) -> list[str]:
    """What is allowed but often not what was meant. With *now* the next five dates are named.

    Imports croniter: only for commands that check, not for those that run.
    """
    try:
        crontab = parse(expr)
    except CrontabFault:
        return []
    found = [_uneven(index, text) for index, text in enumerate(crontab.fields)]
    found += [_both_days(crontab), _short_months(crontab), _second_reading(crontab)]
    said = [warning for warning in found if warning]
    if said and now is not None:
        coming = islice(Schedule.parse(cron=expr, timezone=timezone).fires(now, now + LONGEST_WAIT), 5)
        zone = find_zone(timezone)
        dates = ", ".join(at.astimezone(zone).strftime("%a %Y-%m-%d %H:%M") for at in coming)
        said.append(f"the next five are {dates} ({timezone})")
    return said


def _both_days(crontab: Crontab) -> str | None:
    if crontab.either_day:
        return (
            "day of month and day of week are both given: it runs when either one matches, not only when both"
        )
    if crontab.fields[2] != "*" and crontab.fields[4] != "*":
        return "one day field begins with * and the other is given: it runs only when both match"
    return None


def _short_months(crontab: Crontab) -> str | None:
    first = min(crontab.days)
    if crontab.either_day or first < 29 or len(crontab.months) < 12:
        return None
    return f"months without a day {first} are left out"


def _uneven(index: int, text: str) -> str | None:
    """A step begins anew in each round of its field, so the last gap is shorter unless it divides it."""
    field = FIELDS[index]
    if not text.startswith("*/") or "," in text:
        return None
    step = int(text[2:])
    if step == 1 or (field.size % step == 0 and field.name != "day of month"):
        return None
    values = range(field.low, field.last + 1, step)
    if field.name == "day of month":
        return f"{field.name}: {text} begins anew on the 1st of each month, so the gap at its end is shorter"
    gaps = [later - earlier for earlier, later in pairwise(values)] + [field.size - (values[-1] - values[0])]
    chosen, apart = ", ".join(map(str, values)), "/".join(map(str, gaps))
    return f"{field.name}: {text} is {chosen} and then anew, with gaps of {apart}"


def _second_reading(crontab: Crontab) -> str | None:
    """Where croniter reads the same fields as other times."""
    from croniter import croniter

    try:
        expanded = croniter.expand(" ".join(crontab.fields))[0]
    except (ValueError, KeyError) as refusal:
        return f"croniter, which other programs use, refuses it: {refusal}"
    ours = (crontab.minutes, crontab.hours, crontab.days, crontab.months, crontab.weekdays)
    for field, values, theirs in zip(FIELDS, ours, expanded, strict=True):
        every = set(range(field.low, field.last + 1))
        if set(values) != (every if "*" in theirs else set(theirs)):
            return f"{field.name}: croniter, which other programs use, reads it as other times"
    return None
