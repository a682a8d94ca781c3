"""When to look again at work that a provider does in the background, and when to stop looking. Pure."""

from dataclasses import dataclass
from datetime import timedelta

from aijobs.core.clock import Chance

HINT_CAP = timedelta(minutes=5)
"""The provider's word on when to come back is followed up to this."""

GONE_FOR = timedelta(minutes=1)
"""A provider that knows no such work is believed only after it has said so for this long: a gateway without
affinity, or a read from a lagging replica, says it for a few seconds."""

_QUEUED = "queued"
_JITTER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How one type's background work is followed; the defaults are those of the configuration."""

    first: timedelta = timedelta(seconds=2)
    factor: float = 1.5
    cap: timedelta = timedelta(seconds=30)
    max_queue_wait: timedelta = timedelta(hours=1)
    max_run: timedelta = timedelta(hours=3)


def poll_delay(age: timedelta, hint: timedelta | None, pace: Pace, chance: Chance) -> timedelta:
    """How long to wait before the next look at work that is *age* old.

    Each wait is *factor* times the one before, up to the cap. That needs no count of the looks: after waits
    that grow by a factor f from w on, the next one is `w + age * (f - 1)`. The provider's own word (*hint*)
    goes before the rule. Up to a tenth is added by chance, so that jobs sent together are not asked after
    together; it is never less than the hint.
    """
    if hint is None:
        base = min(pace.first + max(age, timedelta(0)) * (pace.factor - 1), pace.cap)
    else:
        base = min(max(hint, timedelta(0)), max(HINT_CAP, pace.cap))
    return base * (1 + _JITTER * chance.random())


def stuck(age: timedelta, provider_status: str | None, pace: Pace) -> str | None:
    """Why work that is *age* old is not waited for any longer, or None."""
    if age >= pace.max_run:
        return "still not finished after max_run"
    if provider_status == _QUEUED and age >= pace.max_queue_wait:
        return "still queued after max_queue_wait"
    return None
