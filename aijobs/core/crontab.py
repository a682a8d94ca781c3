"""Five fields of crontab(5), read strictly: what two crons would read differently is refused, with a rewrite.

Accepted, and nothing else: in each field a list of `*`, `*/step`, `value`, `first-last` and
`first-last/step`, in ASCII digits (leading zeros allowed) or the three-letter names of months and days of the
week in any case; Sunday is 0 or 7; and, in lower case, the aliases @yearly @annually @monthly @weekly @daily
@midnight @hourly. White space is one or more spaces, tabs or line ends.

The parser is our own: which spellings are accepted, and what is said about the others, is the better half of
its work; and `aijobs tick` runs every minute, where 47 ms for importing croniter are a tenth of the start.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

LONGEST = 1000
"""An expression may have so many characters; all sixty minutes written out take 169."""

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_ONE_DAY = timedelta(days=1)
_LONGEST_MONTH = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SPACE = re.compile(r"[ \t\r\n]+")
_ITEM = re.compile(
    r"(?:(?P<star>\*)|(?P<first>[0-9A-Za-z]+)(?:-(?P<last>[0-9A-Za-z]+))?)(?:/(?P<step>[0-9]+))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five: its name, its lowest and highest value, and the names of values from the lowest on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The highest value that `*` reaches: 7 is only another word for Sunday."""
        return 6 if self.name == DAY_OF_WEEK else self.high

    @property
    def size(self) -> int:
        """How many different values there are."""
        return self.last - self.low + 1


DAY_OF_WEEK = "day of week"
FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, _MONTHS),
    Field(DAY_OF_WEEK, 0, 7, _WEEKDAYS),
)


class CrontabFault(ValueError):
    """The expression is refused; *reasons* holds every reason, each with a rewrite where there is one."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """An expression as the wall-clock minutes it names. Days of the week count from Sunday, 0."""

    fields: tuple[str, ...]  # as written, after aliases and white space
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    times: tuple[int, ...]  # minutes since midnight, ascending

    @property
    def fixed(self) -> bool:
        """Whether it names times of day: neither minute nor hour begins with `*` (cron(8)'s distinction)."""
        return not (self.fields[0].startswith("*") or self.fields[1].startswith("*"))

    @property
    def either_day(self) -> bool:
        """Whether one matching day field is enough: so it is when neither begins with `*` (POSIX crontab)."""
        return not (self.fields[2].startswith("*") or self.fields[4].startswith("*"))

    @property
    def meaning(self) -> str:
        """The same text for every spelling of the same times; another one as soon as any time differs."""
        parts = []
        values = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        for field, text, chosen in zip(FIELDS, self.fields, values, strict=True):
            star = "*" if text.startswith("*") and field.name != "month" else ""
            full = len(chosen) == field.size and (star or field.name == "month")
            parts.append("*" if full else star + ",".join(map(str, sorted(chosen))))
        return " ".join(parts)

    def on(self, day: date) -> bool:
        """Whether it runs on *day* at all."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_month or by_week) if self.either_day else (by_month and by_week)

    def walls(self, begin: datetime, end: datetime) -> Iterator[datetime]:
        """The wall-clock minutes from *begin* up to, not including, *end* (both naive), ascending."""
        for day in self._dates(begin.date(), end.date()):
            midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001  # wall-clock time: the zone comes later
            for minute in self.times[self._from(begin, midnight) : self._from(end, midnight)]:
                yield midnight + timedelta(minutes=minute)

    def count(self, begin: datetime, end: datetime) -> int:
        """How many `walls` would give, without making them."""
        total = 0
        for day in self._dates(begin.date(), end.date()):
            midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001  # wall-clock time: the zone comes later
            total += max(0, self._from(end, midnight) - self._from(begin, midnight))
        return total

    def _from(self, wall: datetime, midnight: datetime) -> int:
        """The index of the first of the day's times that is not before *wall*."""
        return bisect_left(self.times, (wall - midnight).total_seconds() / 60)

    def _dates(self, first: date, last: date) -> Iterator[date]:
        day = first
        while day <= last:
            if day.month not in self.months:
                day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
                continue
            if self.on(day):
                yield day
            day += _ONE_DAY


def parse(text: str) -> Crontab:
    """*text* as a Crontab. Raises CrontabFault with every reason for refusing it."""
    fields = _split(text)
    chosen, reasons = [], []
    for field, written in zip(FIELDS, fields, strict=True):
        values, faults = _read_field(field, written, fields)
        chosen.append(values)
        reasons += [f"{field.name}: {fault}" for fault in faults]
    if reasons:
        raise CrontabFault(reasons)
    minutes, hours = sorted(chosen[0]), sorted(chosen[1])
    crontab = Crontab(
        fields=tuple(fields),
        minutes=tuple(minutes),
        hours=tuple(hours),
        days=frozenset(chosen[2]),
        months=frozenset(chosen[3]),
        weekdays=frozenset(value % 7 for value in chosen[4]),
        times=tuple(hour * 60 + minute for hour in hours for minute in minutes),
    )
    if not _comes(crontab):
        raise CrontabFault([f"it never comes: {_no_such_date(crontab)}"])
    return crontab


def _comes(crontab: Crontab) -> bool:
    """Whether some year has such a date. A day field that begins with `*` always includes the 1st, and every
    date there is falls on every day of the week sooner or later."""
    return crontab.either_day or min(crontab.days) <= max(_LONGEST_MONTH[month] for month in crontab.months)


def _no_such_date(crontab: Crontab) -> str:
    months = " or ".join(_MONTHS[month - 1] for month in sorted(crontab.months))
    return f"{months} has no day {min(crontab.days)}"


def _split(text: str) -> list[str]:
    if len(text) > LONGEST:
        raise CrontabFault([f"longer than {LONGEST} characters"])
    strange = next((char for char in text if not (" " <= char <= "~" or char in "\t\r\n")), None)
    if strange is not None:
        raise CrontabFault([_strange_character(strange)])
    words = [word for word in _SPACE.split(text) if word]
    if not words:
        raise CrontabFault(["empty: five fields expected, like 30 2 * * *"])
    if words[0].startswith("@"):
        return _alias(words)
    if any(word.startswith("#") for word in words):
        raise CrontabFault(["a comment is not part of the expression: put it on a line of its own"])
    if len(words) != len(FIELDS):
        raise CrontabFault([_wrong_number(words)])
    return words


def _alias(words: list[str]) -> list[str]:
    name = words[0]
    if name in ALIASES and len(words) == 1:
        return ALIASES[name].split()
    accepted = ", ".join(ALIASES)
    if name in ALIASES:
        reason = f"{name} stands alone: nothing may follow it"
    elif name.lower() == "@reboot":
        reason = "@reboot has no meaning here: a tick is one short run, nothing starts or stops"
    elif name.lower() == "@every":
        reason = "@every is no cron: give the key `every` instead of `cron`, like every: 5m"
    elif name.lower() in ALIASES:
        reason = f"aliases are written in lower case: {name.lower()}"
    else:
        reason = f"{name} is no alias; there are {accepted}"
    raise CrontabFault([reason])


def _strange_character(char: str) -> str:
    import unicodedata

    name = unicodedata.name(char, "a control character")
    return f"{char!a} ({name}) is not allowed: write plain ASCII digits, names and spaces"


def _wrong_number(words: list[str]) -> str:
    reason = f"five fields expected (minute, hour, day of month, month, day of week), {len(words)} found"
    if len(words) == 6:
        shorter = " ".join(words[1:])
        return f"{reason}; seconds are not supported: if the first field is for seconds, write {shorter}"
    if len(words) == 7:
        return f"{reason}; seconds and years are not supported"
    return reason


def _read_field(field: Field, written: str, fields: list[str]) -> tuple[set[int], list[str]]:
    """The values of one field and what is wrong with it; *fields* is the whole, for rewrites."""
    values: set[int] = set()
    faults: list[str] = []
    items = written.split(",")
    for item in items:
        if item == "*" and len(items) > 1:
            faults.append("* in a list already means every value: write * alone")
            continue
        try:
            values |= _read_item(field, item, fields)
        except ValueError as fault:
            faults.append(str(fault))
    return values, faults


def _read_item(field: Field, item: str, fields: list[str]) -> set[int]:
    match = _ITEM.fullmatch(item)
    if match is None or _is_extra(field, match):
        raise ValueError(_unreadable(field, item))
    step = int(match["step"][-9:]) if match["step"] else None
    if step == 0:
        raise ValueError(f"{item}: a step of 0 goes nowhere")
    if match["star"]:
        first, last = field.low, field.last
    else:
        first = _value(field, match["first"])
        if match["last"] is None and step is not None:
            raise ValueError(f"{item}: a step needs a range: write {first}-{field.last}/{step}")
        last = first if match["last"] is None else _value(field, match["last"])
    if last < first:
        raise ValueError(_backwards(field, item, first, last, step or 1))
    if step is not None and step > last - first:
        raise ValueError(_too_large(field, item, first, step, fields))
    return set(range(first, last + 1, step or 1))


def _is_extra(field: Field, match: re.Match[str]) -> bool:
    """Whether a word in it is one of other programs' extras (L, 15W, H, R): no number and no name."""
    words = [word for word in (match["first"], match["last"]) if word]
    return any(not word.isdigit() and word.upper() not in field.names for word in words)


def _value(field: Field, word: str) -> int:
    if not word.isdigit():
        return field.low + field.names.index(word.upper())
    number = int(word.lstrip("0")[:9] or "0")
    if not field.low <= number <= field.high:
        extra = "; midnight is 0" if field.name == "hour" and number == 24 else ""
        raise ValueError(f"{word} is outside {field.low}-{field.high}{extra}")
    return number


_EXTRAS = {
    "?": "? is not supported: write *",
    "LW": "LW (the last weekday of the month) is not supported: name the days",
    "L": "L (the last ...) is not supported: name the days",
    "W": "W (the nearest weekday) is not supported: name the days",
    "#": "# (the n-th weekday of the month) is not supported",
    "R": "R (random) would be another time on every reading: write a number",
    "H": "H (hashed) is not supported: write a number",
    "~": "~ (random within a range) would be another time on every reading: write a number",
}


def _unreadable(field: Field, item: str) -> str:
    long_name = next((n for n in field.names if item.upper().startswith(n) and item.isalpha()), None)
    if long_name:
        return f"{item} is too long: write {long_name}"
    named = next(
        (text for sign, text in _EXTRAS.items() if sign in item.upper() and not item.isalpha()), None
    )
    named = named or _EXTRAS.get(item.upper())
    if named:
        return named if item == named.split()[0] else f"{item}: {named}"
    names = f" or {field.names[0]}-{field.names[-1]}" if field.names else ""
    values = f"a value {field.low}-{field.high}{names}"
    return f"{item or 'an empty item'} is not understood: write *, {values}, a-b, a-b/n or */n"


def _backwards(field: Field, item: str, first: int, last: int, step: int) -> str:
    """A range that wraps around; some crons accept it and never run it."""
    wrapped = range(first, last + field.size + 1, step)
    values = [(value - field.low) % field.size + field.low for value in wrapped]
    if len(values) == field.size:
        return f"{item} runs backwards; every value is meant: write *"
    halves = [_span(field, field.low, last)]
    if first <= field.last:
        halves.insert(0, _span(field, first, field.last))
    split = f"{','.join(halves)}, that is " if step == 1 else ""
    return f"{item} runs backwards: write {split}{','.join(map(str, values))}"


def _span(field: Field, first: int, last: int) -> str:
    low, high = (field.names[v - field.low] if field.names else str(v) for v in (first, last))
    return low if first == last else f"{low}-{high}"


def _too_large(field: Field, item: str, first: int, step: int, fields: list[str]) -> str:
    """A step that reaches nothing beyond its start: programs read it as once, hourly, or every minute."""
    part = "field" if item.startswith("*") else "range"
    reason = f"{item}: the step is larger than the {part}, so only {first} would be left"
    rest = " ".join(fields[2:])
    if field.name == "minute" and item.startswith("*") and fields[1] == "*":
        hours, odd = divmod(step, 60)
        if not odd and 24 % hours == 0:
            return f"{reason}: write 0 {_every_hours(hours)} {rest}"
        return f"{reason}: give every: {step}m instead of cron"
    if field.name == "hour" and item.startswith("*") and step != 24:
        return f"{reason}: give every: {step}h instead of cron"
    return f"{reason}: write {first} in its place"


def _every_hours(hours: int) -> str:
    return {1: "*", 24: "0"}.get(hours, f"*/{hours}")
