"""A rate as a bucket of tokens: never more than *count* starts in any span of *per*. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.core.durations import Rate

_BURST = 0.1


@dataclass(frozen=True, slots=True)
class Bucket:
    """Tokens there are at an instant; both None before the first use. *next_at*: when one more is there."""

    tokens: float | None = None
    at: datetime | None = None
    next_at: datetime | None = None


def burst_of(rate: Rate) -> int:
    """How many starts may come at once: a tenth of the rate, at least one; claims then come in batches."""
    return max(1, int(rate.count * _BURST))


def refill_seconds(rate: Rate) -> float:
    """Seconds until one token is back.

    A full bucket followed by a steady refill must stay within the rate in every span, so what may come at
    once is taken off the refill.
    """
    steady = max(1, rate.count - burst_of(rate) + 1)
    return rate.per.total_seconds() / steady


def tokens_at(rate: Rate, bucket: Bucket, now: datetime) -> Bucket:
    """The bucket as it is at *now*; a clock that stepped back adds nothing and takes nothing."""
    most = float(burst_of(rate))
    if bucket.tokens is None or bucket.at is None:
        return Bucket(most, now, now)
    passed = max(0.0, (now - bucket.at).total_seconds())
    tokens = min(most, bucket.tokens + passed / refill_seconds(rate))
    missing = max(0.0, 1.0 - tokens)
    return Bucket(tokens, max(now, bucket.at), now + timedelta(seconds=missing * refill_seconds(rate)))


def take_tokens(rate: Rate, bucket: Bucket, now: datetime, count: int) -> Bucket:
    """The bucket after *count* starts at *now*."""
    full = tokens_at(rate, bucket, now)
    return tokens_at(rate, Bucket((full.tokens or 0.0) - count, full.at), now)
