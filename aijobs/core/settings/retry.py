"""What is tried again: how often, and after how long, class by class."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from aijobs.core.model import ErrorClass
from aijobs.core.settings.fields import Duration, Flag, Interval, Ratio, Section, Table, Wait, part

Backoff = Literal["full_jitter", "fixed", "breaker"]


class ClassRetry(Section):
    """The rule for one error class."""

    retries: Annotated[
        int, Field(description="tries after the first; 0: never", strict=True, ge=0, le=1000)
    ] = 0
    first: Annotated[
        Literal["immediate", "backoff"], Field(description="whether the first of them waits at all")
    ] = "backoff"
    backoff: Annotated[
        Backoff,
        Field(description="full_jitter: up to base x 2^n, at most cap; fixed: delay; breaker: its recovery"),
    ] = "full_jitter"
    base: Annotated[Duration, Field(description="full_jitter: the bound of the first wait")] = timedelta(
        seconds=1
    )
    cap: Annotated[Duration, Field(description="full_jitter: no bound is higher")] = timedelta(seconds=60)
    delay: Annotated[Wait, Field(description="fixed: the wait")] = timedelta(0)
    counted: Annotated[Flag, Field(description="whether it costs one of max_attempts")] = True


NEVER = ClassRetry.model_construct()


class RetryBudget(Section):
    """Retries of one provider may not exceed this share of its first calls."""

    ratio: Annotated[Ratio, Field(description="so many retries for one first call")] = 0.2
    window: Annotated[Interval, Field(description="the span both are counted in")] = timedelta(minutes=5)
    floor: Annotated[
        int, Field(description="retries that are always free in it", strict=True, ge=0, le=1_000_000)
    ] = 10


class RetrySettings(Table):
    """One rule per class that may be retried; what is not here never is, whatever a file says."""

    network: ClassRetry = part("no connection, or it broke", retries=3, first="immediate")
    network_timeout: ClassRetry = part(
        "no answer in time; the call may have been billed",
        retries=2, base="5s", cap="5m",
    )  # fmt: skip
    rate_limited: ClassRetry = part(
        "429; what the provider says on when goes first",
        retries=20, base="2s", cap="5m", counted=False,
    )  # fmt: skip
    quota_exhausted: ClassRetry = part(
        "money or quota ran out; the provider is held",
        retries=2, backoff="fixed", delay="5m", counted=False,
    )  # fmt: skip
    unavailable: ClassRetry = part(
        "5xx or overloaded; after the breaker has recovered",
        retries=1, backoff="breaker", base="5s", cap="10m",
    )  # fmt: skip
    bad_response: ClassRetry = part("an answer that makes no sense", retries=1, backoff="fixed", delay="10s")
    output_truncated: ClassRetry = part(
        "cut off; only where the type has grow_output, which raises the limit first",
        retries=1, first="immediate",
    )  # fmt: skip
    worker_lost: ClassRetry = part("the worker crashed or hung", retries=5)
    internal: ClassRetry = part(
        "a fault of ours or of your own callable",
        retries=1, backoff="fixed", delay="30s",
    )  # fmt: skip
    max_hint: Annotated[
        Duration, Field(description="a provider's word on when to come back is believed up to this")
    ] = timedelta(days=1)
    budget: RetryBudget = part("the bound on all of them")

    def rule(self, error_class: ErrorClass | str) -> ClassRetry:
        """The rule for *error_class*; `NEVER` for one that is the caller's to mend (400, 401, 403, ...)."""
        rule = getattr(self, str(error_class), NEVER)
        return rule if isinstance(rule, ClassRetry) else NEVER
