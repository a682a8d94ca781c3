"""cron's own loop as an oracle: one step a minute over what the clock on the wall shows.

It shares nothing with the code it judges: croniter expands the fields, the wall is looked at every minute.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_MINUTE = timedelta(minutes=1)
_LARGE = 180


@dataclass(frozen=True, slots=True)
class Minute:
    """One real minute: when it began, and how many minutes the clock on the wall counts since its 1970."""

    utc: datetime
    wall: int


class Line:
    """A line of a crontab: which wall minutes match, and whether cron calls it a wildcard line."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, _, weekday = expression.split()
        self.wild = minute[0] == "*" or hour[0] == "*"
        self._both = day[0] == "*" or weekday[0] == "*"
        self._times = _expanded(expression, 0, range(60)), _expanded(expression, 1, range(24))
        self._dates = (
            _expanded(expression, 2, range(1, 32)),
            _expanded(expression, 3, range(1, 13)),
            _expanded(expression, 4, range(7)),
        )
        self._days: dict[int, bool] = {}

    def matches(self, wall: int) -> bool:
        day, minute = divmod(wall, 1440)
        if minute % 60 not in self._times[0] or minute // 60 not in self._times[1]:
            return False
        if day not in self._days:
            self._days[day] = self._on(_EPOCH + timedelta(days=day))
        return self._days[day]

    def _on(self, day: datetime) -> bool:
        days, months, weekdays = self._dates
        by_month, by_week = day.day in days, (day.weekday() + 1) % 7 in weekdays
        return day.month in months and (by_month and by_week if self._both else by_month or by_week)


def _expanded(expression: str, index: int, every: Iterable[int]) -> frozenset[int]:
    values = croniter.expand(expression)[0][index]
    return frozenset(every if "*" in values else values)


def minutes_between(zone: ZoneInfo, begin: datetime, end: datetime) -> list[Minute]:
    """Every minute from *begin* to *end* (whole minutes, UTC), with the wall."""
    found = []
    while begin <= end:
        wall = begin.astimezone(zone).replace(tzinfo=None)
        found.append(Minute(begin.astimezone(UTC), (wall - _EPOCH) // _MINUTE))
        begin += _MINUTE
    return found


def run(line: Line, minutes: list[Minute]) -> list[datetime]:
    """When cron, running through *minutes*, would start *line*; the first minute only sets its clock."""
    virtual = minutes[0].wall
    started = []
    for minute in minutes[1:]:
        ahead = minute.wall - virtual
        if abs(ahead) > _LARGE or ahead == 1:  # a correction of the clock, or the ordinary minute
            starts = line.matches(minute.wall)
            virtual = minute.wall
        elif ahead > 0:  # the clock went forward: make up for fixed times
            passed = range(virtual + 1, minute.wall + 1)
            starts = line.matches(minute.wall) if line.wild else any(map(line.matches, passed))
            virtual = minute.wall
        else:  # it went back: fixed times wait until it has caught up
            starts = line.wild and line.matches(minute.wall)
        if starts:
            started.append(minute.utc)
    return started
