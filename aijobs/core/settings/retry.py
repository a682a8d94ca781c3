"""What is tried again: how often, and after how long, class by class."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from aijobs.core.model import ErrorClass
from aijobs.core.settings.fields import Duration, Flag, Interval, Ratio, Section, Table, Wait

Backoff = Literal["full_jitter", "fixed", "breaker"]


class ClassRetry(Section):
    """The rule for one error class."""

    retries: Annotated[int, Field(description="tries after the first; 0 never", strict=True, ge=0, le=1000)]
    first: Annotated[
        Literal["immediate", "backoff"], Field(description="whether the first of them waits")
    ] = "backoff"
    backoff: Annotated[
        Backoff,
        Field(description="full_jitter (up to base x 2^n, capped) | fixed (delay) | breaker (its recovery)"),
    ] = "full_jitter"
    base: Annotated[Duration, Field(description="full_jitter: the first bound")] = timedelta(seconds=1)
    cap: Annotated[Duration, Field(description="full_jitter: the highest bound")] = timedelta(seconds=60)
    delay: Annotated[Wait, Field(description="fixed: the wait")] = timedelta(0)
    counted: Annotated[Flag, Field(description="whether it costs one of max_attempts")] = True


NEVER = ClassRetry(retries=0)


class RetryBudget(Section):
    """Retries of one provider may not exceed this share of its first calls."""

    ratio: Annotated[Ratio, Field(description="retries per first call")] = 0.2
    window: Annotated[Interval, Field(description="the span both are counted in")] = timedelta(minutes=5)
    floor: Annotated[
        int, Field(description="retries that are always free in it", strict=True, ge=0, le=1_000_000)
    ] = 10


def _minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


def _seconds(count: int) -> timedelta:
    return timedelta(seconds=count)


def _rule(text: str, default: ClassRetry) -> Any:
    return Field(description=text, default=default)


class RetrySettings(Table):
    """One rule per class that may be retried; what is not here never is, whatever a file says."""

    network: ClassRetry = _rule(
        "no connection, or it broke",
        ClassRetry(retries=3, first="immediate"),
    )
    network_timeout: ClassRetry = _rule(
        "no answer in time; the call may have been billed",
        ClassRetry(retries=2, base=_seconds(5), cap=_seconds(300)),
    )
    rate_limited: ClassRetry = _rule(
        "429; the provider's own word on when comes first",
        ClassRetry(retries=20, base=_seconds(2), cap=_seconds(300), counted=False),
    )
    quota_exhausted: ClassRetry = _rule(
        "money or quota ran out; the provider is held",
        ClassRetry(retries=2, backoff="fixed", delay=_minutes(5), counted=False),
    )
    unavailable: ClassRetry = _rule(
        "5xx, overloaded; after the breaker recovers",
        ClassRetry(retries=1, backoff="breaker", base=_seconds(5), cap=_seconds(600)),
    )
    bad_response: ClassRetry = _rule(
        "an answer that makes no sense",
        ClassRetry(retries=1, backoff="fixed", delay=_seconds(10)),
    )
    output_truncated: ClassRetry = _rule(
        "cut off; only for types with grow_output, which raises the limit first",
        ClassRetry(retries=1, first="immediate"),
    )
    worker_lost: ClassRetry = _rule(
        "the worker crashed or hung",
        ClassRetry(retries=5),
    )
    internal: ClassRetry = _rule(
        "a fault of ours or of your own callable",
        ClassRetry(retries=1, backoff="fixed", delay=_seconds(30)),
    )
    max_hint: Annotated[Duration, Field(description="a provider's word on when is believed up to this")] = (
        timedelta(days=1)
    )
    budget: Annotated[RetryBudget, Field(description="the bound on all of them")] = RetryBudget()

    def rule(self, error_class: ErrorClass | str) -> ClassRetry:
        """The rule for *error_class*; `NEVER` for one that is the caller's to mend (400, 401, 403, ...)."""
        rule = getattr(self, str(error_class), NEVER)
        return rule if isinstance(rule, ClassRetry) else NEVER
