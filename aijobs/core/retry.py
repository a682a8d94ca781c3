"""Whether a failed attempt is tried again, when, and what it costs: one rule per error class.

The rules are the configuration's (`retry:`), which also holds their defaults; only what nobody should have
to configure stands here. The provider's own word on when to come back goes before every backoff.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from aijobs.core.clock import Chance
from aijobs.core.durations import format_duration
from aijobs.core.lifecycle import RetryPolicy, Verdict
from aijobs.core.model import ErrorClass, Failure, Job

if TYPE_CHECKING:  # pydantic is slow to import, and only the values are needed
    from aijobs.core.settings import Settings
    from aijobs.core.settings.retry import ClassRetry

_E = ErrorClass

RESULT_LOST = "result_lost"
"""Code of a `bad_response`: the provider finished, or says so, and no longer has the result."""

BY_PROVIDER = "by_provider"
"""Code of a `cancelled` that nobody here asked for."""

NO_MORE_ROOM = "no_more_room"
"""Code of an `output_truncated` whose limit cannot be raised any further."""

POOL_TIMEOUT = "pool_timeout"
"""Code of an `internal`: no connection was free, so nothing was sent."""

_HINT_JITTER = 0.1
_JITTER_CAP = timedelta(seconds=30)
_MOST_DOUBLINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one class gets: how many *retries*, after which wait, and whether they cost attempts.

    The wait is `full_jitter` between 0 and base x 2^n (at most *cap*), `fixed` (*delay*), or `breaker`: the
    provider's recovery decides, and full jitter keeps the waiting jobs apart. With *immediate* the first
    retry does not wait.
    """

    retries: int
    immediate: bool = False
    backoff: Literal["full_jitter", "fixed", "breaker"] = "full_jitter"
    base: timedelta = timedelta(seconds=1)
    cap: timedelta = timedelta(seconds=60)
    delay: timedelta = timedelta(0)
    counted: bool = True


NEVER = Rule(retries=0)
"""Trying again changes nothing: somebody has to mend the request, the permission or the deadline first."""

_BACKPRESSURE = Rule(retries=20, counted=False)
_ONCE_MORE = Rule(retries=1)

_PROVIDER_AT_FAULT = frozenset(
    {_E.QUOTA_EXHAUSTED, _E.AUTH, _E.UNAVAILABLE, _E.NETWORK, _E.NETWORK_TIMEOUT, _E.RATE_LIMITED}
)
_MAY_HAVE_RUN = frozenset({_E.NETWORK, _E.NETWORK_TIMEOUT, _E.WORKER_LOST})


class Policy:
    """The rules of one configuration; a `lifecycle.RetryPolicy`.

    A job keeps its last class, its attempts and its deferrals, so retries of a class are counted over
    failures in a row: another class in between starts the count again. `max_attempts` bounds all that is
    counted, the sum of the uncounted allowances all that is not: classes that take turns can't keep a job
    going for ever.
    """

    def __init__(
        self,
        rules: Mapping[ErrorClass, Rule],
        *,
        max_hint: timedelta = timedelta(days=1),
        holds_unknown: frozenset[str] = frozenset(),
        grows_output: frozenset[str] = frozenset(),
    ) -> None:
        """*holds_unknown*, *grows_output*: the types with `on_unknown_outcome: hold`, with `grow_output`."""
        self.rules = MappingProxyType(dict(rules))
        uncounted = [*self.rules.values(), _BACKPRESSURE]
        self.most_deferrals = sum(rule.retries for rule in uncounted if not rule.counted)
        self.max_hint = max_hint
        self.holds_unknown = holds_unknown
        self.grows_output = grows_output

    @classmethod
    def from_settings(cls, settings: "Settings") -> "Policy":
        """The policy that a configuration asks for."""
        return cls(
            {error_class: _rule(settings.retry.rule(error_class)) for error_class in ErrorClass},
            max_hint=settings.retry.max_hint,
            holds_unknown=frozenset(n for n, t in settings.types.items() if t.on_unknown_outcome == "hold"),
            grows_output=frozenset(n for n, t in settings.types.items() if t.grow_output is not None),
        )

    def rule_for(self, job: Job, failure: Failure) -> Rule:
        """The rule that *failure* falls under; some codes have one of their own."""
        error_class = failure.error_class
        if error_class is _E.INTERNAL and failure.code == POOL_TIMEOUT:
            return _BACKPRESSURE
        if error_class is _E.CANCELLED and failure.code == BY_PROVIDER:
            return _ONCE_MORE
        if error_class is _E.OUTPUT_TRUNCATED and not self._may_grow(job, failure):
            return NEVER  # the same limit would cut it at the same place, and bill it again
        rule = self.rules.get(error_class, NEVER)
        return _ONCE_MORE if failure.force_retry and rule.retries == 0 else rule

    def verdict(self, job: Job, failure: Failure, now: datetime, chance: Chance) -> Verdict:  # noqa: ARG002  # the protocol's
        """Whether and when to try *job* again after *failure* of its running attempt."""
        rule = self.rule_for(job, failure)
        if self._unknown_outcome(job, failure):
            why = "the provider may have done the work; a person decides (on_unknown_outcome: hold)"
            return Verdict(retry=False, hold=True, counted=rule.counted, reason=_say(failure, why))
        used = _used(job, failure, rule)
        if reason := self._why_not(job, failure, rule, used):
            counted = rule.counted or rule.retries == 0
            return Verdict(retry=False, counted=counted, reason=_say(failure, reason))
        return self.again(failure, rule, used, chance)

    def _why_not(self, job: Job, failure: Failure, rule: Rule, used: int) -> str | None:
        # To wait until somebody tops up is not the retry that a provider forbids.
        if failure.force_retry is False and failure.error_class is not _E.QUOTA_EXHAUSTED:
            return "the provider says not to try again"
        if rule.retries == 0:
            return "trying again changes nothing"
        if used >= rule.retries:
            return f"all {rule.retries} retries used"
        if not rule.counted and job.deferrals >= self.most_deferrals:
            return f"put off {job.deferrals} times in all"
        return None

    def while_recovering(self) -> RetryPolicy:
        """The policy for calls made while the provider's breaker is not closed, or it is held: trials."""
        return _Recovering(self)

    def _may_grow(self, job: Job, failure: Failure) -> bool:
        return job.type in self.grows_output and failure.code != NO_MORE_ROOM

    def _unknown_outcome(self, job: Job, failure: Failure) -> bool:
        if job.type not in self.holds_unknown:
            return False
        lost = failure.error_class is _E.BAD_RESPONSE and failure.code == RESULT_LOST
        return lost or (failure.maybe_billed and failure.error_class in _MAY_HAVE_RUN)

    def again(self, failure: Failure, rule: Rule, used: int, chance: Chance) -> Verdict:
        """The retry that *rule* gives after *used* ones; never before the provider's own hint."""
        own = _backoff(rule, used, chance)
        if failure.hint is None:
            plain = "tried again after a backoff" if own else "tried again at once"
            reason = _say(failure, _WAITS_FOR.get(failure.error_class, plain))
            return Verdict(retry=True, delay=own, counted=rule.counted, reason=reason)
        hint = min(max(failure.hint, timedelta(0)), self.max_hint)
        jitter = min(hint * _HINT_JITTER, _JITTER_CAP) * chance.random()  # they were all told the same
        reason = _say(failure, f"the provider asks to wait {format_duration(hint)}")
        return Verdict(retry=True, delay=max(hint + jitter, own), counted=rule.counted, reason=reason)


_WAITS_FOR: Mapping[ErrorClass, str] = MappingProxyType(
    {
        _E.AUTH: "waits until the provider accepts our credentials",
        _E.QUOTA_EXHAUSTED: "waits until the provider has quota for us again",
        _E.UNAVAILABLE: "waits for the provider to recover",
        _E.WORKER_LOST: "taken over from a worker that was lost",
    }
)


class _Recovering:
    """While a provider is known to be unwell, its failures cost a job nothing: the job waits on.

    So the first jobs that meet refused credentials end (trying again changes nothing), and those that wait
    behind them, of which one after the other is a probe, do not.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def verdict(self, job: Job, failure: Failure, now: datetime, chance: Chance) -> Verdict:
        """As `Policy.verdict`, but a failure that is the provider's neither counts nor ends the job."""
        verdict = self.policy.verdict(job, failure, now, chance)
        if failure.error_class not in _PROVIDER_AT_FAULT or verdict.hold:
            return verdict
        rule = self.policy.rules.get(failure.error_class, NEVER)
        again = self.policy.again(failure, rule, 1, chance)
        return replace(again, counted=False, reason=f"{again.reason}; it is not well, so this does not count")


def _rule(settings: "ClassRetry") -> Rule:
    return Rule(
        retries=settings.retries,
        immediate=settings.first == "immediate",
        backoff=settings.backoff,
        base=settings.base,
        cap=settings.cap,
        delay=settings.delay,
        counted=settings.counted,
    )


def _say(failure: Failure, reason: str) -> str:
    return f"{failure.error_class.value}: {reason}"


def _used(job: Job, failure: Failure, rule: Rule) -> int:
    if job.last_error_class != failure.error_class.value:
        return 0
    return max(0, job.attempts - 1) if rule.counted else job.deferrals


def _backoff(rule: Rule, used: int, chance: Chance) -> timedelta:
    if rule.immediate and used == 0:
        return timedelta(0)
    if rule.backoff == "fixed":
        return rule.delay
    return full_jitter(used, rule.base, rule.cap, chance)


def full_jitter(attempt: int, base: timedelta, cap: timedelta, chance: Chance) -> timedelta:
    """A wait drawn evenly from 0 up to, not including, the smaller of *cap* and *base* x 2^*attempt*."""
    bound = min(cap.total_seconds(), base.total_seconds() * 2.0 ** min(attempt, _MOST_DOUBLINGS))
    return timedelta(microseconds=int(bound * 1_000_000 * chance.random()))


def budget_allows(first_calls: int, retries: int, *, ratio: float, floor: int) -> bool:
    """Whether one more retry fits the budget: *retries* so far, against a share of the *first_calls*.

    The first *floor* retries of the window are free, so that a quiet provider can be retried at all.
    """
    return retries < max(floor, int(first_calls * ratio))
