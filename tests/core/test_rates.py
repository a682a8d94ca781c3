"""A rate as a bucket of tokens."""

from datetime import UTC, datetime, timedelta

import pytest

from aijobs.core.durations import Rate
from aijobs.core.rates import Bucket, burst_of, refill_seconds, take_tokens, tokens_at

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RATES = [Rate(n, per) for n in (1, 2, 9, 10, 25, 500) for per in (timedelta(seconds=1), timedelta(minutes=1))]


def starts(rate: Rate, seconds: float, step: float) -> list[float]:
    """When calls start if each one goes as soon as there is a token, looked at every *step* seconds."""
    bucket, found = Bucket(), []
    for tick in range(int(seconds / step)):
        now = NOW + timedelta(seconds=tick * step)
        there = int(tokens_at(rate, bucket, now).tokens or 0)
        bucket = take_tokens(rate, bucket, now, there)
        found += [tick * step] * there
    return found


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_no_span_of_the_rate_ever_has_more_starts_than_it_allows(rate: Rate) -> None:
    span = rate.per.total_seconds()
    found = starts(rate, 3 * span, span / 997)

    most = max(sum(begin <= at < begin + span for at in found) for begin in found)
    assert most <= rate.count
    assert len(found) >= 2 * rate.count  # and it is used


@pytest.mark.parametrize(("count", "burst"), [(1, 1), (9, 1), (10, 1), (20, 2), (500, 50)])
def test_a_tenth_may_come_at_once(count: int, burst: int) -> None:
    rate = Rate(count, timedelta(minutes=1))

    assert burst_of(rate) == burst
    assert tokens_at(rate, Bucket(), NOW) == Bucket(float(burst), NOW, NOW)


def test_what_may_come_at_once_is_taken_off_the_refill() -> None:
    assert refill_seconds(Rate(20, timedelta(seconds=19))) == 1.0
    assert refill_seconds(Rate(1, timedelta(seconds=7))) == 7.0


def test_tokens_come_back_steadily_up_to_the_burst() -> None:
    rate = Rate(20, timedelta(seconds=19))  # two at once, one a second
    empty = take_tokens(rate, Bucket(), NOW, 2)

    assert (empty.tokens, empty.next_at) == (0.0, NOW + seconds(1))
    half = tokens_at(rate, empty, NOW + seconds(0.5))
    assert (half.tokens, half.at, half.next_at) == (0.5, NOW + seconds(0.5), NOW + seconds(1))
    assert tokens_at(rate, empty, NOW + seconds(1.5)).next_at == NOW + seconds(1.5)
    assert tokens_at(rate, empty, NOW + seconds(99)).tokens == 2.0


def test_the_next_token_is_a_refill_away() -> None:
    slow = Rate(1, timedelta(seconds=7))

    assert take_tokens(slow, Bucket(), NOW, 1).next_at == NOW + seconds(7)


def test_taking_counts_each_and_may_owe() -> None:
    rate = Rate(20, timedelta(seconds=19))

    owing = take_tokens(rate, Bucket(), NOW, 3)

    assert (owing.tokens, owing.next_at) == (-1.0, NOW + seconds(2))


def test_a_clock_that_stepped_back_gives_nothing_and_takes_nothing() -> None:
    rate = Rate(20, timedelta(seconds=19))
    empty = take_tokens(rate, Bucket(), NOW, 2)

    back = tokens_at(rate, empty, NOW - seconds(60))

    assert (back.tokens, back.at) == (0.0, NOW)
