"""Fire times: the cases people reported, with the instants that are right."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from aijobs.core.cron import Schedule, validate, warnings


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


# What happened to people; expression, zone, later than, not later than; the instants in UTC.
CASES = """
fixed time in the gap
    30 2 * * * | America/New_York | 2026-03-07T12:00-05:00 | 2026-03-10T12:00-04:00
    2026-03-08T07:00 2026-03-09T06:30 2026-03-10T06:30

wildcard minute in the gap
    */30 2 * * * | America/New_York | 2026-03-07T12:00-05:00 | 2026-03-09T12:00-04:00
    2026-03-09T06:00 2026-03-09T06:30

two entries on one instant
    0 2,3 * * * | America/New_York | 2026-03-07T12:00-05:00 | 2026-03-09T12:00-04:00
    2026-03-08T07:00 2026-03-09T06:00 2026-03-09T07:00

two missed minutes, one instant
    15,45 2 * * * | America/New_York | 2026-03-07T12:00-05:00 | 2026-03-09T12:00-04:00
    2026-03-08T07:00 2026-03-09T06:15 2026-03-09T06:45

fixed time in the repeated hour
    30 1 * * * | America/New_York | 2026-10-31T12:00-04:00 | 2026-11-03T12:00-05:00
    2026-11-01T05:30 2026-11-02T06:30 2026-11-03T06:30

asked within the repeated hour
    30 1 * * * | America/New_York | 2026-11-01T05:30+00:00 | 2026-11-02T12:00-05:00
    2026-11-02T06:30

hourly over the repeated hour
    0 * * * * | America/New_York | 2026-10-31T23:30-04:00 | 2026-11-01T04:00-05:00
    2026-11-01T04:00 2026-11-01T05:00 2026-11-01T06:00 2026-11-01T07:00 2026-11-01T08:00
    2026-11-01T09:00

0-23 is not *
    0 0-23 * * * | America/New_York | 2026-10-31T23:30-04:00 | 2026-11-01T04:00-05:00
    2026-11-01T04:00 2026-11-01T05:00 2026-11-01T07:00 2026-11-01T08:00 2026-11-01T09:00

no hole in a short cadence
    */20 * * * * | Europe/Vienna | 2026-10-25T01:30+02:00 | 2026-10-25T03:30+01:00
    2026-10-24T23:40 2026-10-25T00:00 2026-10-25T00:20 2026-10-25T00:40 2026-10-25T01:00
    2026-10-25T01:20 2026-10-25T01:40 2026-10-25T02:00 2026-10-25T02:20

weekly on the day of the change
    0 12 * * 0 | Europe/Berlin | 2026-03-26T12:00+01:00 | 2026-04-06T00:00+02:00
    2026-03-29T10:00 2026-04-05T10:00

no midnight in Santiago
    0 0 * * * | America/Santiago | 2026-09-04T12:00-04:00 | 2026-09-08T12:00-03:00
    2026-09-05T04:00 2026-09-06T04:00 2026-09-07T03:00 2026-09-08T03:00

no midnight in Havana
    0 0 * * * | America/Havana | 2026-03-06T12:00-05:00 | 2026-03-10T12:00-04:00
    2026-03-07T05:00 2026-03-08T05:00 2026-03-09T04:00 2026-03-10T04:00

no midnight in Cairo
    0 0 * * * | Africa/Cairo | 2026-04-22T12:00+02:00 | 2026-04-26T12:00+03:00
    2026-04-22T22:00 2026-04-23T22:00 2026-04-24T21:00 2026-04-25T21:00

no quarter past midnight in Beirut
    15 0 * * * | Asia/Beirut | 2026-03-27T12:00+02:00 | 2026-03-31T12:00+03:00
    2026-03-27T22:15 2026-03-28T22:00 2026-03-29T21:15 2026-03-30T21:15

hourly over a gap of half an hour
    0 * * * * | Australia/Lord_Howe | 2026-10-04T00:30+10:30 | 2026-10-04T05:00+11:00
    2026-10-03T14:30 2026-10-03T16:00 2026-10-03T17:00 2026-10-03T18:00

in a gap of half an hour
    15 2 * * * | Australia/Lord_Howe | 2026-10-03T12:00+10:30 | 2026-10-06T12:00+11:00
    2026-10-03T15:30 2026-10-04T15:15 2026-10-05T15:15

in a repeated half hour
    45 1 * * * | Australia/Lord_Howe | 2026-04-04T12:00+11:00 | 2026-04-06T12:00+10:30
    2026-04-04T14:45 2026-04-05T15:15

clocks go back for Ramadan
    30 2 * * * | Africa/Casablanca | 2026-02-13T12:00+01:00 | 2026-02-17T12:00+00:00
    2026-02-14T01:30 2026-02-15T01:30 2026-02-16T02:30 2026-02-17T02:30

and forward after it
    30 2 * * * | Africa/Casablanca | 2026-03-20T12:00+00:00 | 2026-03-24T12:00+01:00
    2026-03-21T02:30 2026-03-22T02:00 2026-03-23T01:30 2026-03-24T01:30

winter is the summer time of Dublin
    30 1 * * * | Europe/Dublin | 2026-03-28T12:00+00:00 | 2026-03-31T12:00+01:00
    2026-03-29T01:00 2026-03-30T00:30 2026-03-31T00:30

two hours at once
    30 1 * * * | Antarctica/Troll | 2026-03-28T12:00+00:00 | 2026-03-31T12:00+02:00
    2026-03-29T01:00 2026-03-29T23:30 2026-03-30T23:30

asked half an hour before the jump
    0 0 * * * | Europe/Prague | 2026-03-29T00:30+01:00 | 2026-04-01T12:00+02:00
    2026-03-29T22:00 2026-03-30T22:00 2026-03-31T22:00

a Friday or the 13th
    0 0 13 * 5 | UTC | 2026-02-01T00:00+00:00 | 2026-03-01T00:00+00:00
    2026-02-06T00:00 2026-02-13T00:00 2026-02-20T00:00 2026-02-27T00:00

not the first Monday
    0 9 1-7 * MON | UTC | 2026-02-01T00:00+00:00 | 2026-02-18T00:00+00:00
    2026-02-01T09:00 2026-02-02T09:00 2026-02-03T09:00 2026-02-04T09:00 2026-02-05T09:00
    2026-02-06T09:00 2026-02-07T09:00 2026-02-09T09:00 2026-02-16T09:00

45 does not divide the hour
    */45 * * * * | UTC | 2026-05-01T00:30+00:00 | 2026-05-01T03:00+00:00
    2026-05-01T00:45 2026-05-01T01:00 2026-05-01T01:45 2026-05-01T02:00 2026-05-01T02:45
    2026-05-01T03:00

7 does not divide the day
    0 */7 * * * | UTC | 2026-05-01T00:30+00:00 | 2026-05-02T08:00+00:00
    2026-05-01T07:00 2026-05-01T14:00 2026-05-01T21:00 2026-05-02T00:00 2026-05-02T07:00

3 does not divide the month
    0 0 */3 * * | UTC | 2026-01-27T12:00+00:00 | 2026-02-06T00:00+00:00
    2026-01-28T00:00 2026-01-31T00:00 2026-02-01T00:00 2026-02-04T00:00

the leap day
    0 9 29 2 * | UTC | 2024-02-29T09:00+00:00 | 2028-03-01T00:00+00:00
    2028-02-29T09:00

2100 has none
    0 9 29 2 * | UTC | 2096-02-29T09:00+00:00 | 2105-01-01T00:00+00:00
    2104-02-29T09:00

leading zeros
    08 09 * * * | UTC | 2026-01-01T00:00+00:00 | 2026-01-02T00:00+00:00
    2026-01-01T09:08

a day that Samoa left out
    30 2 * * * | Pacific/Apia | 2011-12-29T12:00+00:00 | 2011-12-31T12:00+00:00
    2011-12-29T12:30 2011-12-30T12:30

three hours forward is a correction
    0 2 * * * | Antarctica/Casey | 2020-10-03T00:00+00:00 | 2020-10-05T00:00+00:00
    2020-10-04T15:00

three hours back is not
    0 23 * * * | Antarctica/Casey | 2021-03-12T00:00+00:00 | 2021-03-15T00:00+00:00
    2021-03-12T12:00 2021-03-13T12:00 2021-03-14T15:00

both sides of a midnight that comes twice
    0 0,23 * * * | America/Havana | 2026-10-31T12:00+00:00 | 2026-11-02T12:00+00:00
    2026-11-01T03:00 2026-11-01T04:00 2026-11-02T04:00 2026-11-02T05:00
"""


def read_cases() -> list[Any]:
    blocks = [block.split("\n") for block in CASES.strip().split("\n\n")]
    return [
        pytest.param(*map(str.strip, head.split("|")), " ".join(instants).split(), id=title)
        for title, head, *instants in blocks
    ]


@pytest.mark.parametrize(("cron", "zone", "after", "until", "expected"), read_cases())
def test_fires_exactly_at_these_instants(
    cron: str, zone: str, after: str, until: str, expected: list[str]
) -> None:
    wanted = [at(f"{instant}Z") for instant in expected]
    schedule = Schedule.parse(cron=cron, timezone=zone)
    begin, end = at(after), at(until)

    assert list(schedule.fires(begin, end)) == wanted
    assert schedule.count(begin, end) == len(wanted)
    assert schedule.latest(begin, end, 2) == wanted[-2:]
    assert schedule.next_fire(begin) == wanted[0]
    assert schedule.previous_fire(end + timedelta(microseconds=1)) == wanted[-1]


def test_every_instant_is_utc_and_aware() -> None:
    schedule = Schedule.parse(cron="30 2 * * *", timezone="Asia/Shanghai")

    fires = list(schedule.fires(at("2026-01-01T00:00+08:00"), at("2026-01-03T00:00+08:00")))

    assert [fire.tzinfo for fire in fires] == [UTC, UTC]
    assert [schedule.local(fire).isoformat() for fire in fires] == [
        "2026-01-01T02:30:00+08:00",
        "2026-01-02T02:30:00+08:00",
    ]


def test_an_instant_without_a_zone_is_refused() -> None:
    schedule = Schedule.parse(cron="30 2 * * *")

    with pytest.raises(ValueError, match="no time zone"):
        schedule.next_fire(datetime(2026, 1, 1))  # noqa: DTZ001


def test_the_previous_leap_day_is_found_years_later() -> None:
    schedule = Schedule.parse(cron="0 9 29 2 *")

    assert schedule.previous_fire(at("2026-01-01T00:00Z")) == at("2024-02-29T09:00Z")
    assert schedule.previous_fire(at("2103-01-01T00:00Z")) == at("2096-02-29T09:00Z")


def test_a_leap_day_on_a_given_day_of_the_week_is_found_over_2100() -> None:
    schedule = Schedule.parse(cron="0 0 29 2 */6")  # Saturday or Sunday

    assert schedule.next_fire(at("2080-03-01T00:00Z")) == at("2088-02-29T00:00Z")
    assert schedule.next_fire(at("2088-03-01T00:00Z")) == at("2116-02-29T00:00Z")


def test_at_the_end_of_the_calendar_there_is_no_next() -> None:
    schedule = Schedule.parse(cron="* * * * *", timezone="Asia/Shanghai")

    assert schedule.next_fire(datetime.max.replace(tzinfo=UTC)) is None
    assert schedule.previous_fire(datetime.min.replace(tzinfo=UTC)) is None
    assert list(schedule.fires(datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))) == []


def test_years_are_counted_without_walking_them() -> None:
    schedule = Schedule.parse(cron="* * * * *", timezone="Europe/Berlin")

    minutes = schedule.count(at("1990-01-01T00:00Z"), at("2030-01-01T00:00Z"))

    assert minutes == (at("2030-01-01T00:00Z") - at("1990-01-01T00:00Z")) // timedelta(minutes=1)


# --- every: ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "after", "expected"),
    [
        (timedelta(minutes=5), "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"),
        (timedelta(minutes=5), "2026-01-01T00:04:59.999999Z", "2026-01-01T00:05:00Z"),
        (timedelta(minutes=7), "1970-01-01T00:00:00Z", "1970-01-01T00:07:00Z"),
        (timedelta(minutes=7), "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"),
        (timedelta(days=1), "2026-03-08T05:00:00Z", "2026-03-09T00:00:00Z"),
        (timedelta(seconds=90), "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
    ],
)
def test_a_period_counts_from_the_epoch(every: timedelta, after: str, expected: str) -> None:
    schedule = Schedule.parse(every=every, timezone="America/New_York")

    assert schedule.next_fire(at(after)) == at(expected)
    assert schedule.count(at(after), at(expected)) == 1
    assert schedule.previous_fire(at(expected) + timedelta(seconds=1)) == at(expected)


@pytest.mark.parametrize(
    ("every", "reason"),
    [
        (timedelta(seconds=59), "shorter than a minute"),
        (timedelta(0), "shorter than a minute"),
        (timedelta(days=400), "longer than a year"),
        (timedelta(seconds=60.5), "whole number of seconds"),
    ],
)
def test_a_period_that_makes_no_sense_is_refused(every: timedelta, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Schedule.parse(every=every)


def test_a_schedule_is_one_of_the_two() -> None:
    with pytest.raises(ValueError, match="either cron or every"):
        Schedule.parse()
    with pytest.raises(ValueError, match="either cron or every"):
        Schedule.parse(cron="@daily", every=timedelta(minutes=5))


# --- Fingerprints ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        "0 9 * * *",
        "0 9 * * *\n",
        "\t00   009 * * *",
        "0\n9 * * *",
        "0 9 */1 * *",
        "0 9 * 1-12 *",
        "0 9 * JAN-DEC *",
    ],
)
def test_another_spelling_is_no_edit(spelling: str) -> None:
    plain = Schedule.parse(cron="0 9 * * *", timezone="Asia/Shanghai")

    assert Schedule.parse(cron=spelling, timezone="Asia/Shanghai").fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("cron", "other"),
    [
        ("0 0 * * 7", "0 0 * * SUN"),
        ("@weekly", "0 0 * * 0"),
        ("5,1 0 * * *", "1,5,5 0 * * *"),
        ("0 0 * * 1-5", "0 0 * * mon-fri"),
    ],
)
def test_the_same_times_have_the_same_fingerprint(cron: str, other: str) -> None:
    assert Schedule.parse(cron=cron).fingerprint == Schedule.parse(cron=other).fingerprint


@pytest.mark.parametrize(
    ("cron", "other"),
    [
        ("0 9 * * *", "0 10 * * *"),
        ("0 * * * *", "0 0-23 * * *"),  # differs in a repeated hour
        ("0 0 1-31 * 1", "0 0 * * 1"),  # differs in whether both days must match
        ("0 0 13 * 5", "0 0 13 * *"),
    ],
)
def test_other_times_have_another_fingerprint(cron: str, other: str) -> None:
    assert Schedule.parse(cron=cron).fingerprint != Schedule.parse(cron=other).fingerprint


def test_another_zone_or_period_is_an_edit() -> None:
    daily = Schedule.parse(cron="@daily", timezone="Europe/Berlin")

    assert daily.fingerprint != Schedule.parse(cron="@daily", timezone="Europe/Vienna").fingerprint
    assert daily.fingerprint != Schedule.parse(every=timedelta(days=1)).fingerprint
    assert (
        Schedule.parse(every=timedelta(hours=1)).fingerprint
        == Schedule.parse(every=timedelta(minutes=60)).fingerprint
    )


# --- Clock changes -----------------------------------------------------------------------------------


def test_the_day_of_a_clock_change_is_known() -> None:
    schedule = Schedule.parse(cron="30 2 * * *", timezone="America/New_York")

    change = schedule.clock_change_on(date(2026, 3, 8))

    assert change is not None
    assert (change.at, change.shift) == (at("2026-03-08T07:00Z"), timedelta(hours=1))
    assert schedule.clock_change_on(date(2026, 3, 7)) is None
    assert schedule.clock_change_on(date(2026, 3, 9)) is None


def test_a_change_at_midnight_belongs_to_both_days_it_touches() -> None:
    schedule = Schedule.parse(cron="30 2 * * *", timezone="America/Santiago")

    days = [date(2026, 4, day) for day in range(2, 8) if schedule.clock_change_on(date(2026, 4, day))]

    assert days == [date(2026, 4, 4), date(2026, 4, 5)]


# --- Zones -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Europe/Berln", "is Europe/Berlin meant"),
        ("europe/berlin", "is Europe/Berlin meant"),
        ("America/New York", "is America/New_York meant"),
        ("UTC+8", "Etc/GMT-8"),
        ("+08:00", "Etc/GMT-8"),
        ("America", "no time zone"),
        ("../etc/passwd", "no time zone"),
        ("/etc/localtime", "no time zone"),
        ("", "no time zone"),
        ("a\0b", "no time zone"),
        ("Z" * 5000, "no time zone"),
        ("localtime", "differs from machine to machine"),
        ("right/UTC", "differs from machine to machine"),
    ],
)
def test_an_unknown_zone_is_refused_with_what_may_be_meant(zone: str, said: str) -> None:
    (reason,) = validate("@daily", zone)

    assert said in reason
    assert len(reason) < 200


def test_expression_and_zone_are_refused_together() -> None:
    reasons = validate("60 24 * * *", "Mars/Olympus")

    assert len(reasons) == 3


# --- Warnings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("0 0 13 * 5", "either one matches"),
        ("0 9 1-7 * MON", "either one matches"),
        ("0 0 */2 * 1", "only when both match"),
        ("*/45 * * * *", "gaps of 45/15"),
        ("0 */7 * * *", "gaps of 7/7/7/3"),
        ("0 0 1 */5 *", "gaps of 5/5/2"),
        ("0 0 */3 * *", "1st of each month"),
        ("0 0 * * */2", "gaps of 2/2/2/1"),
        ("0 0 31 * *", "without a day 31"),
        ("0 0 * * 7-7", "croniter"),
        ("*/15 * * * *", None),
        ("30 2 * * *", None),
        ("@monthly", None),
        ("nonsense", None),
    ],
)
def test_warns_of_what_is_often_not_meant(cron: str, said: str | None) -> None:
    found = warnings(cron)

    if said is None:
        assert found == []
    else:
        assert said in " ".join(found)


def test_a_warning_names_the_next_five_dates_in_the_zone() -> None:
    found = warnings("0 9 1-7 * MON", "Asia/Shanghai", now=at("2026-02-05T12:00Z"))

    assert found[-1] == (
        "the next five are Fri 2026-02-06 09:00, Sat 2026-02-07 09:00, Mon 2026-02-09 09:00, "
        "Mon 2026-02-16 09:00, Mon 2026-02-23 09:00 (Asia/Shanghai)"
    )
