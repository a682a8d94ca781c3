"""The wall-clock mapping against two independent oracles: 40 zones, every clock change of ten years.

The first is cron's own loop, minute by minute (`tests/support/vixie.py`). It has no known difference, except
that a forward change of up to four minutes would make it run wildcard lines too; no zone had one since 1970.

The second is cronsim 2.8. Where it differs from us, and who is right:

1. It treats a change of three hours or more as summer time (Antarctica/Casey; Samoa's missing day). cron's
   loop calls that a correction of the clock and makes up for nothing. We follow cron.
2. With a wildcard hour it goes by whole hours, and skips times that are on the wall where a change is of half
   an hour or at a quarter to (Australia/Lord_Howe, Pacific/Chatham): `30 * * * *` misses 02:30. It is wrong.
3. Asked in the second pass of a repeated hour for the next fixed time, it answers with the first pass, an
   instant before the question. It is wrong: the next is later than now.
4. Asked backwards in the second pass, it passes over the first; in Pacific/Chatham it does not come back at
   all from `*/30 2 * * *`. It is wrong, and we ask it forwards only.
5. It accepts six fields, steps larger than the field, `5/15`, L, LW and #. We refuse them.

croniter 7 serves only to expand fields. Its fire times differ: fixed times run twice in a repeated hour
(cron: once), wildcard minutes in a gap run after it (cron: not at all). It reads a range of one, `7-7`, as
every value, where cron and we read one; and it accepts what we refuse: steps larger than the field, ranges
that run backwards, six fields, R, ?, L, W, # and aliases in upper case.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim

from aijobs.core.cron import Schedule
from aijobs.core.crontab import FIELDS, parse
from aijobs.core.wallclock import changes
from tests.support.vixie import Line, minutes_between, run

ZONES = (
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Africa/Juba",
    "Africa/Lagos",
    "America/Asuncion",
    "America/Bogota",
    "America/Havana",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Almaty",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Damascus",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Shanghai",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Chisinau",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/London",
    "Europe/Volgograd",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
)
BEGIN, END = datetime(2017, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
ODD_CHANGES = ("Antarctica/Casey", "Australia/Lord_Howe", "Pacific/Chatham")  # differences 1 and 2
LINES = (
    "30 2 * * *",
    "0 0 * * *",
    "15,45 0-4 * * *",
    "0 0-23 * * *",
    "* * * * *",
    "0 * * * *",
    "*/30 2 * * *",
    "0 */3 * * *",
    "30 23 * * 0,6",
    "1 3 1-7 * 0",
)


def some_line(chance: random.Random) -> str:
    """Any expression of the accepted set that runs often enough to meet a change."""

    def item(low: int, high: int) -> str:
        first = chance.randint(low, high - 1)
        last = chance.randint(first + 1, high)
        step = chance.randint(1, last - first)
        return chance.choice([str(first), f"{first}-{last}", f"{first}-{last}/{step}"])

    def field(low: int, high: int, stars: float) -> str:
        if chance.random() < stars:
            return chance.choice(["*", "*", f"*/{chance.randint(2, high - low - (high == 7))}"])
        return ",".join(item(low, high) for _ in range(chance.randint(1, 3)))

    return " ".join(
        [field(0, 59, 0.3), field(0, 23, 0.3), field(1, 31, 0.8), field(1, 12, 0.95), field(0, 7, 0.8)]
    )


@pytest.mark.parametrize("zone", ZONES)
def test_around_every_clock_change_it_runs_what_cron_would_run(zone: str) -> None:
    chance = random.Random(f"lines for {zone}")
    for change in changes(ZoneInfo(zone), BEGIN, END):
        minutes = minutes_between(
            ZoneInfo(zone), change.at - timedelta(hours=6), change.at + timedelta(hours=9)
        )
        lines = (*chance.sample(LINES, 5), some_line(chance), some_line(chance), some_line(chance))
        for line in lines:
            schedule = Schedule.parse(cron=line, timezone=zone)

            fires = list(schedule.fires(minutes[0].utc, minutes[-1].utc))

            assert fires == run(Line(line), minutes), (line, change)


@pytest.mark.parametrize("zone", ZONES)
def test_over_ten_years_it_agrees_with_cronsim(zone: str) -> None:
    lines = ["30 2 * * *"] if zone != "Antarctica/Casey" else []
    lines += ["10 */2 * * 0"] if zone not in ODD_CHANGES else []
    for line in lines:
        schedule = Schedule.parse(cron=line, timezone=zone)

        assert list(schedule.fires(BEGIN, END)) == list(from_cronsim(line, zone)), line


def from_cronsim(line: str, zone: str) -> Iterator[datetime]:
    for fire in CronSim(line, BEGIN.astimezone(ZoneInfo(zone))):
        if fire.astimezone(UTC) > END:
            return
        yield fire.astimezone(UTC)


@pytest.mark.parametrize(
    ("line", "zone", "after", "ours", "cronsims"),
    [
        ("30 2 * * *", "Antarctica/Casey", "2021-10-02T12:00", "2021-10-03T15:30", "2021-10-02T16:01"),
        ("30 * * * *", "Australia/Lord_Howe", "2017-09-30T15:20", "2017-09-30T15:30", "2017-09-30T16:30"),
        ("30 1 * * *", "America/New_York", "2026-11-01T06:10", "2026-11-02T06:30", "2026-11-01T05:30"),
    ],
)  # fmt: skip
def test_the_known_differences_from_cronsim_are_still_there(
    line: str, zone: str, after: str, ours: str, cronsims: str
) -> None:
    begin = datetime.fromisoformat(f"{after}Z")

    assert Schedule.parse(cron=line, timezone=zone).next_fire(begin) == datetime.fromisoformat(f"{ours}Z")
    theirs = next(CronSim(line, begin.astimezone(ZoneInfo(zone)))).astimezone(UTC)
    assert theirs == datetime.fromisoformat(f"{cronsims}Z")


def test_croniter_reads_every_field_as_we_do() -> None:
    chance = random.Random("fields")
    for _ in range(3000):
        line = some_line(chance)
        crontab = parse(line)
        ours = (crontab.minutes, crontab.hours, crontab.days, crontab.months, crontab.weekdays)

        theirs = croniter.expand(line)[0]

        for field, values, expanded in zip(FIELDS, ours, theirs, strict=True):
            every = set(range(field.low, field.last + 1))
            assert set(values) == (every if "*" in expanded else set(expanded)), (line, field.name)


@pytest.mark.parametrize(
    "zone", ["America/New_York", "Australia/Lord_Howe", "Antarctica/Casey", "America/Havana"]
)
def test_all_ways_of_asking_give_the_same_instants(zone: str) -> None:
    chance = random.Random(f"questions for {zone}")
    moments = [change.at for change in changes(ZoneInfo(zone), BEGIN, END)]
    for _ in range(150):
        schedule = Schedule.parse(cron=some_line(chance), timezone=zone)
        begin = chance.choice(moments) + timedelta(
            minutes=chance.randint(-600, 300), seconds=chance.randint(0, 59)
        )
        end = begin + timedelta(minutes=chance.randint(0, 900))

        fires = list(schedule.fires(begin, end))

        middle = begin + (end - begin) / 2
        assert fires == sorted(set(fires))
        assert fires == [*schedule.fires(begin, middle), *schedule.fires(middle, end)]
        assert schedule.count(begin, end) == len(fires)
        assert schedule.latest(begin, end, 3) == fires[-3:]
        if fires:
            assert schedule.next_fire(begin) == fires[0]
            assert schedule.previous_fire(end + timedelta(microseconds=1)) == fires[-1]


def test_no_two_changes_of_a_zone_are_so_close_that_one_could_be_missed() -> None:
    for zone in ZONES:
        instants = [change.at for change in changes(ZoneInfo(zone), datetime(1970, 1, 1, tzinfo=UTC), END)]

        apart = [later - earlier for earlier, later in pairwise(instants)]

        assert min(apart, default=timedelta(days=9)) > timedelta(days=6), zone
