"""When a provider is left alone, and how calls come back: breaker, slow start, pauses, holds. Pure.

    closed --failures in a row--> open --open_for--> half_open --trials succeed--> ramp --> closed
                                   ^                    |  a trial fails            |  failures step down
                                   +--------------------+---------------------------+

What is kept of a provider is one value, `Health`, with the fields of its row; every function takes one and
gives the next. Only what the provider is to blame for moves the breaker: a refused request says nothing
against it. A call that began before the present state did says nothing about it either: that keeps late
failures of an outage from reopening what has recovered, and late successes from closing what has not.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from aijobs.core.classifier_tables import SLOW_DOWN
from aijobs.core.model import ErrorClass, Failure

if TYPE_CHECKING:
    from aijobs.core.settings.providers import BreakerSettings

_E = ErrorClass

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""The end of a hold that only a person ends."""

OPENED = "breaker opened: "
CLOSED = "breaker closed: "
RESET = "reset"
"""How the words begin that say why a breaker opened, and why it is as if it never had."""

COUNTED = frozenset({_E.UNAVAILABLE, _E.NETWORK, _E.NETWORK_TIMEOUT})
"""Failures that are evidence against the provider. A timeout is: a provider that hangs is down."""

_HOLDS = frozenset({_E.QUOTA_EXHAUSTED, _E.AUTH})
_PAGES = frozenset({"not_json_html", "not_json_empty"})  # a proxy in front of a provider that is down


class Breaker(StrEnum):
    """Where the breaker of a provider stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    RAMP = "ramp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of one provider's breaker."""

    failures: int = 5
    within: timedelta = timedelta(seconds=60)
    open_for: timedelta = timedelta(seconds=30)
    trials: int = 1
    ramp: tuple[int, ...] = (1, 2, 5, 10, 25)
    longest_open: timedelta = timedelta(minutes=15)  # whatever one answer's Retry-After says
    longest_pause: timedelta = timedelta(days=1)  # the same for a rate limit
    probe_after: timedelta = timedelta(minutes=5)  # from probe to probe while quota or credentials are gone
    longest_probe: timedelta = timedelta(minutes=15)  # whatever is said of when: somebody may top up earlier
    throttle_pause: timedelta = timedelta(seconds=2)  # after a rate limit that names no wait
    cap_for: timedelta = timedelta(minutes=15)  # how long `slow_down` keeps its effect

    @classmethod
    def from_settings(cls, settings: "BreakerSettings") -> "Rules":
        """The rules that a provider's `breaker:` asks for."""
        return cls(
            failures=settings.failures,
            within=settings.within,
            open_for=settings.open_for,
            trials=settings.trials,
            ramp=settings.ramp,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is kept of a provider; the names are the columns of its row.

    *paused_until* with *held_at* set is the time of the next probe. *failures* are failures in a row,
    *successes* those of the present step.
    """

    breaker: str = Breaker.CLOSED.value
    breaker_since: datetime | None = None
    opened_until: datetime | None = None
    ramp_step: int = 0
    failures: int = 0
    failures_since: datetime | None = None
    successes: int = 0
    paused_until: datetime | None = None
    pause_reason: str | None = None
    held_at: datetime | None = None
    hold_reason: str | None = None
    concurrency_cap: int | None = None
    cap_until: datetime | None = None


HEALTHY = Health()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The next value, and in words what is worth an audit entry; no words when nothing notable happened."""

    health: Health
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How many more calls may start now (None: as many as other limits allow), and why.

    *trial*: each of them is a trial, to be leased as one. *recovering*: if the provider fails them, it costs
    their jobs nothing.
    """

    allowed: int | None
    reason: str
    trial: bool = False
    recovering: bool = False


# --- May calls start? -------------------------------------------------------------------------------


def admit(health: Health, rules: Rules, now: datetime, *, in_flight: int, trials_out: int) -> Admission:
    """How many more calls the provider may be sent now.

    *in_flight* are calls under way (not what the provider does in the background), *trials_out* those of
    them that are leased trials; a trial whose worker died must have stopped counting.
    """
    health = passed(health, now)
    if health.paused_until and now < health.paused_until:
        held = f"held: {health.hold_reason}" if health.held_at else f"paused: {health.pause_reason}"
        return Admission(allowed=0, reason=held, recovering=health.held_at is not None)
    breaker = Breaker(health.breaker)
    if health.held_at and breaker is not Breaker.OPEN:
        return _trials(1, trials_out, f"a probe, held: {health.hold_reason}")
    match breaker:
        case Breaker.OPEN:
            return Admission(allowed=0, reason="the breaker is open", recovering=True)
        case Breaker.HALF_OPEN:
            return _trials(rules.trials, trials_out, "the breaker is half open")
        case Breaker.RAMP:
            most = _step(health, rules)
            left = max(0, most - in_flight)
            return Admission(allowed=left, reason=f"slow start: {most} at once", recovering=True)
        case Breaker.CLOSED:
            return _closed(health, now, in_flight)


def _closed(health: Health, now: datetime, in_flight: int) -> Admission:
    if health.concurrency_cap is None or health.cap_until is None or now >= health.cap_until:
        return Admission(allowed=None, reason="the breaker is closed")
    left = max(0, health.concurrency_cap - in_flight)
    return Admission(allowed=left, reason=f"slowed down: {health.concurrency_cap} at once")


def _trials(most: int, out: int, reason: str) -> Admission:
    return Admission(allowed=max(0, most - out), reason=reason, trial=True, recovering=True)


def _step(health: Health, rules: Rules) -> int:
    return rules.ramp[min(health.ramp_step, len(rules.ramp) - 1)]


def passed(health: Health, now: datetime) -> Health:
    """*health* after what time alone does: an open breaker whose time is up is half open, since then."""
    if health.breaker != Breaker.OPEN or not health.opened_until or now < health.opened_until:
        return health
    return replace(
        health,
        breaker=Breaker.HALF_OPEN.value,
        breaker_since=health.opened_until,
        opened_until=None,
        successes=0,
    )


def is_recovering(health: Health, now: datetime) -> bool:
    """Whether the provider is known to be unwell, so that its failures are not its jobs' fault.

    Asked with the value from before the failure: the failures that open the breaker do count.
    """
    return passed(health, now).breaker != Breaker.CLOSED or health.held_at is not None


# --- What calls tell --------------------------------------------------------------------------------


def succeeded(health: Health, rules: Rules, now: datetime, *, started_at: datetime) -> Change:
    """After a call that began at *started_at* and brought an answer."""
    health = passed(health, now)
    if health.held_at:
        is_probe = health.paused_until is None or started_at >= health.paused_until
        return _lift(health, now) if is_probe else Change(health=health)
    if _is_late(health, started_at):
        return Change(health=health)
    match Breaker(health.breaker):
        case Breaker.CLOSED if health.failures:
            return Change(health=replace(health, failures=0, failures_since=None))
        case Breaker.CLOSED | Breaker.OPEN:
            return Change(health=health)
        case Breaker.HALF_OPEN:
            health = replace(health, successes=health.successes + 1)
            return _begin_ramp(health, now) if health.successes >= rules.trials else Change(health=health)
        case Breaker.RAMP:
            return _climb(replace(health, successes=health.successes + 1), rules, now)


def failed(
    health: Health, rules: Rules, now: datetime, *, failure: Failure, started_at: datetime, in_flight: int
) -> Change:
    """After a call that began at *started_at* and failed; *in_flight* calls were under way."""
    health = passed(health, now)
    late = _is_late(health, started_at)
    if failure.error_class in _HOLDS:
        return Change(health=health) if late else _hold_for(health, rules, now, failure)
    if failure.error_class is _E.RATE_LIMITED:
        return _throttled(health, rules, now, failure=failure, started_at=started_at, in_flight=in_flight)
    if late or not is_counted(failure):
        return Change(health=health)
    if health.held_at:  # the probe found something else wrong
        return pause_until(health, now + rules.probe_after, f"the probe failed: {_named(failure)}", now)
    match Breaker(health.breaker):
        case Breaker.CLOSED:
            return _count(health, rules, now, failure)
        case Breaker.OPEN:
            return Change(health=health)
        case Breaker.HALF_OPEN:
            return _open(health, rules, now, failure, "a trial failed")
        case Breaker.RAMP if health.ramp_step > 0:
            return Change(health=replace(health, ramp_step=health.ramp_step - 1, successes=0))
        case Breaker.RAMP:
            return _open(health, rules, now, failure, "it failed again")


def is_counted(failure: Failure) -> bool:
    """Whether *failure* is evidence against the provider rather than against the request."""
    return failure.error_class in COUNTED or (
        failure.error_class is _E.BAD_RESPONSE and failure.code in _PAGES
    )


def _is_late(health: Health, started_at: datetime) -> bool:
    return health.breaker_since is not None and started_at < health.breaker_since


def _count(health: Health, rules: Rules, now: datetime, failure: Failure) -> Change:
    since = health.failures_since
    fresh = since is None or now - since > rules.within
    health = replace(
        health, failures=1 if fresh else health.failures + 1, failures_since=now if fresh else since
    )
    if health.failures < rules.failures:
        return Change(health=health)
    return _open(health, rules, now, failure, _in_a_row(health.failures))


def _in_a_row(failures: int) -> str:
    return "1 failure" if failures == 1 else f"{failures} failures in a row"


def _open(health: Health, rules: Rules, now: datetime, failure: Failure, why: str) -> Change:
    hint = min(failure.hint or timedelta(0), rules.longest_open)
    until = now + max(rules.open_for, hint)
    health = replace(
        health, breaker=Breaker.OPEN.value, breaker_since=now, opened_until=until, ramp_step=0, failures=0,
        failures_since=None, successes=0,
    )  # fmt: skip
    return Change(health=health, reasons=(f"{OPENED}{why}, the last {_named(failure)}",))


def _begin_ramp(health: Health, now: datetime, why: str = "the trials succeeded") -> Change:
    health = replace(
        health, breaker=Breaker.RAMP.value, breaker_since=now, opened_until=None, ramp_step=0, failures=0,
        failures_since=None, successes=0,
    )  # fmt: skip
    return Change(health=health, reasons=(f"slow start: {why}",))


def _climb(health: Health, rules: Rules, now: datetime) -> Change:
    """One step up after as many successes as the step lets through at once; closed after the last."""
    if health.successes < _step(health, rules):
        return Change(health=health)
    step = health.ramp_step + 1
    if step < len(rules.ramp):
        return Change(health=replace(health, ramp_step=step, successes=0))
    health = replace(health, breaker=Breaker.CLOSED.value, breaker_since=now, ramp_step=0, successes=0)
    return Change(health=health, reasons=(f"{CLOSED}the slow start is over",))


def _named(failure: Failure) -> str:
    return f"{failure.error_class.value} ({failure.code})" if failure.code else failure.error_class.value


# --- Pauses and holds -------------------------------------------------------------------------------


def pause(old_until: datetime | None, new_until: datetime) -> datetime:
    """The end of a pause after another was asked for: a pause is only ever extended."""
    return new_until if old_until is None else max(old_until, new_until)


def pause_until(health: Health, until: datetime, reason: str, now: datetime) -> Change:
    """Nothing is sent until *until*; an earlier word that lasts longer stands. Extending one is not news."""
    if health.paused_until and health.paused_until >= until:
        return Change(health=health)
    news = health.paused_until is None or health.paused_until <= now
    health = replace(health, paused_until=pause(health.paused_until, until), pause_reason=reason)
    return Change(health=health, reasons=(f"paused: {reason}",) if news else ())


def hold(health: Health, now: datetime, reason: str, *, until: datetime = NEVER) -> Change:
    """Nothing is sent until a person resets it, or until *until*, when a probe goes out.

    A hold that lasts longer stands, with its reason.
    """
    if health.held_at and health.paused_until and health.paused_until > until:
        return Change(health=health)
    held = replace(
        health, held_at=health.held_at or now, hold_reason=reason, pause_reason=reason,
        paused_until=pause(health.paused_until, until),
    )  # fmt: skip
    return Change(health=held, reasons=() if health.held_at else (f"held: {reason}",))


def reset(health: Health, now: datetime) -> Change:
    """A person says that the provider is well: nothing is remembered against it."""
    if health == HEALTHY:
        return Change(health=health)
    return Change(health=Health(breaker_since=now), reasons=(RESET,))


def _hold_for(health: Health, rules: Rules, now: datetime, failure: Failure) -> Change:
    """Quota or credentials are gone: every call would be refused. One probe at a time finds out when not."""
    words = {_E.AUTH: "the provider refuses our credentials"}.get(failure.error_class, "the quota is used up")
    until = now + min(max(rules.probe_after, failure.hint or timedelta(0)), rules.longest_probe)
    return hold(health, now, f"{words} ({failure.code})" if failure.code else words, until=until)


def _lift(health: Health, now: datetime) -> Change:
    freed = replace(health, held_at=None, hold_reason=None, paused_until=None, pause_reason=None)
    return _begin_ramp(freed, now, "a probe succeeded")


def _throttled(
    health: Health, rules: Rules, now: datetime, *, failure: Failure, started_at: datetime, in_flight: int
) -> Change:
    wait = min(failure.hint, rules.longest_pause) if failure.hint else rules.throttle_pause
    wait = max(wait, rules.probe_after) if health.held_at else wait
    named = f"rate limited ({failure.code})" if failure.code else "rate limited"
    change = pause_until(health, now + wait, named, now)
    health, reasons = change.health, change.reasons
    capped_at = health.cap_until - rules.cap_for if health.cap_until else None
    if failure.code not in SLOW_DOWN or (capped_at is not None and started_at < capped_at):
        return Change(health=health, reasons=reasons)
    cap = max(1, in_flight // 2)
    if health.concurrency_cap is not None and health.cap_until and now < health.cap_until:
        cap = min(cap, max(1, health.concurrency_cap // 2))
    health = replace(health, concurrency_cap=cap, cap_until=now + rules.cap_for)
    return Change(health=health, reasons=(*reasons, f"slowed down to {cap} at once ({failure.code})"))
