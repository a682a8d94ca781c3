"""Durations, rates and instants: one spelling, and a reason for everything else."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.durations import (
    LONGEST,
    Rate,
    format_duration,
    parse_duration,
    parse_instant,
    parse_rate,
    parse_time,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("250ms", timedelta(milliseconds=250)),
        ("1d2h3m4s5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        ("0s", timedelta(0)),
        ("90m", timedelta(minutes=90)),
        (" 5m\n", timedelta(minutes=5)),
        ("36500d", LONGEST),
    ],
)
def test_a_duration_with_units_is_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("30", "has no unit: write 30s, 30m or 30h"),
        ("", "empty"),
        ("   ", "empty"),
        ("1.5h", "is not a duration"),
        ("PT5M", "is not a duration"),
        ("1 day", "is not a duration"),
        ("90 sec", "is not a duration"),
        ("5 M", "is not a duration"),
        ("5M", "is not a duration"),
        ("1e3s", "is not a duration"),
        ("٣0s", "is not a duration"),
        ("３０s", "is not a duration"),
        ("1m1h", "is not a duration"),
        ("1h1h", "is not a duration"),
        ("-5s", "is negative"),
        ("36501d", "is too long"),
        ("999999999999ms999999999d", "is not a duration"),
        ("999999999d", "is too long"),
    ],
)
def test_a_duration_that_could_mean_two_things_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_duration(text)


@given(
    st.timedeltas(min_value=timedelta(0), max_value=LONGEST).map(
        lambda d: timedelta(milliseconds=d // timedelta(milliseconds=1))
    )
)
def test_what_is_written_is_read_back_unchanged(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=3661), "1h1m1s"),
        (timedelta(seconds=-90), "-1m30s"),
        (timedelta(microseconds=1600), "2ms"),
        (timedelta(microseconds=-1), "0s"),
    ],
)
def test_a_duration_is_written_to_the_millisecond(duration: timedelta, expected: str) -> None:
    assert format_duration(duration) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5/s", Rate(5, timedelta(seconds=1))),
        ("500/m", Rate(500, timedelta(minutes=1))),
        (" 30/h ", Rate(30, timedelta(hours=1))),
        ("1000/d", Rate(1000, timedelta(days=1))),
    ],
)
def test_a_rate_is_read_and_written(text: str, expected: Rate) -> None:
    rate = parse_rate(text)

    assert rate == expected
    assert str(rate) == text.strip()


@pytest.mark.parametrize(
    "text", ["0/s", "5", "5/", "/s", "-5/s", "1.5/s", "5/w", "5 / s", "5/5m", "inf/s", "٣/s", ""]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a rate|lets nothing through"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01t00:00:00z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-11-01T01:30", datetime(2026, 11, 1, 1, 30, tzinfo=UTC)),
        ("2026-03-08 02:30", datetime(2026, 3, 8, 2, 30, tzinfo=UTC)),
        ("2026-01-01T00:00+05:30", datetime(2025, 12, 31, 18, 30, tzinfo=UTC)),
        ("2026-01-01T00:00:00.25-0800", datetime(2026, 1, 1, 8, 0, 0, 250000, tzinfo=UTC)),
        (" 2026-01-01 ", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_instant_is_read_as_utc_unless_it_names_a_zone(text: str, expected: datetime) -> None:
    assert parse_instant(text) == expected
    assert parse_instant(text).tzinfo is UTC
    assert parse_time(text, now=NOW) == expected


@pytest.mark.parametrize("text", ["1h", "-1h", "1h ago", "60m", " 1h "])
def test_a_duration_is_that_long_ago(text: str) -> None:
    assert parse_time(text, now=NOW) == NOW - timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("01/02/2026", "is not a time"),
        ("yesterday", "is not a time"),
        ("20260101", "is a bare number"),
        ("2026-W01-1", "is not a time"),
        ("2026-02-30", "is no such time"),
        ("2026-01-01T00:00:00+99:00", "is no such time: no zone is so far from UTC"),
        ("2026-01-01T25:00", "is no such time"),
        ("2026-01-01T00:00 Europe/Berlin", "is not a time"),
        ("1767225600", "seconds since 1970, write 2026-01-01T00:00:00Z"),
        ("1767225600000", "milliseconds since 1970, write 2026-01-01T00:00:00Z"),
        ("0001-01-01T00:00+10:00", "outside the calendar"),
        ("", "empty"),
    ],
)
def test_a_time_that_could_mean_two_things_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_time(text, now=NOW)
    with pytest.raises(ValueError, match=reason):
        parse_instant(text)


def test_a_duration_is_no_instant() -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_instant("1h")


def test_a_duration_ago_before_the_calendar_is_refused() -> None:
    with pytest.raises(ValueError, match="before the calendar"):
        parse_time("36500d", now=datetime(99, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("read", [parse_duration, parse_rate, parse_instant])
def test_a_refusal_does_not_repeat_a_text_without_end(read: Callable[[str], object]) -> None:
    for text in ("9" * 70_000, "x" * 70_000):
        with pytest.raises(ValueError, match="a text of 70000 characters") as refused:
            read(text)
        assert len(str(refused.value)) < 200
