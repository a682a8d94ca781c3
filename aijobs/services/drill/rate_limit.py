"""Drill: a provider that turns calls away and says when to come back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from aijobs.core.errors import UsageError
from aijobs.core.faults import Fault, parse_faults
from aijobs.core.model import Job, Status
from aijobs.services.drill.ground import Ground
from aijobs.services.drill.provider import ProviderCall, most_at_once, submits
from aijobs.services.drill.report import Account, Check

PLAIN: Final = "429"
"""What goes wrong unless PROVIDER_FAULT says otherwise."""

_WAITS: Final = {
    "429": 1.0, "429_slow_down": 1.0, "429_flex": 1.0, "429_ms": 1.5, "429_httpdate": 2.0, "503": 1.0,
    "503_overloaded": 1.0,
}  # fmt: skip
"""The refusals that name a wait, and the seconds they name unless they are given a number."""

_LONGEST_WAIT = 5.0
_MOST_TIMES = 3
_TOGETHER, _PER_USER = 3, 2
_SLACK = 0.05  # between the provider's clock at the refusal and the instant it writes its answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How each job is turned away at first: *times* times, each naming a wait of *seconds*."""

    fault: Fault
    seconds: float
    times: int

    def __str__(self) -> str:
        return str(replace(self.fault, times=self.times))


def refusal_of(spec: str | None) -> Refusal:
    """What PROVIDER_FAULT asks for. Raises UsageError for what is no limit that passes."""
    try:
        faults = parse_faults(spec or PLAIN)
    except ValueError as error:
        raise UsageError(f"PROVIDER_FAULT: {error}", hint=_hint()) from None
    if len(faults) != 1 or str(replace(faults[0], number=None, chance=None, times=None)) not in _WAITS:
        raise UsageError(f"PROVIDER_FAULT={spec} is not one refusal that names a wait", hint=_hint())
    fault = faults[0]
    seconds = _seconds(fault)
    if fault.chance is not None:
        raise UsageError(f"PROVIDER_FAULT={spec}: a drill leaves nothing to chance", hint=_hint())
    if seconds > _LONGEST_WAIT or (fault.times or 1) > _MOST_TIMES or fault.times == 0:
        bounds = f"a wait of at most {_LONGEST_WAIT:g} s, 1 to {_MOST_TIMES} times"
        raise UsageError(f"PROVIDER_FAULT={spec}: a drill takes {bounds}", hint=_hint())
    return Refusal(fault=fault, seconds=seconds, times=fault.times or 1)


def _hint() -> str:
    return f"rate-limit takes one of {', '.join(_WAITS)}; =NUMBER and xTIMES may follow"


def _seconds(fault: Fault) -> float:
    if fault.number is None:
        return _WAITS[fault.name]
    return fault.number / 1000 if fault.name == "429_ms" else fault.number


def rate_limit(ground: Ground, refusal: Refusal) -> Account:
    """Six jobs of two users, each turned away at first, at two workers."""
    ground.configure(
        {"work": {"per_user": _PER_USER, "max_attempts": 8}},
        provider={"concurrency": _TOGETHER, "breaker": {"failures": 1000}},
        retry={
            "rate_limited": {"retries": 9, "base": "50ms", "cap": "100ms", "counted": False},
            "unavailable": {"retries": 9, "base": "50ms", "cap": "100ms"},
        },
    )
    ground.provider.set_fault(str(refusal))
    ground.provider.set_latency("100ms")
    ground.ready(ground.worker("work"), ground.worker("work"))
    ids = ground.enqueue_all("work", [({"n": n}, who) for n in range(3) for who in ("ana", "ben")])
    ground.until(lambda: ground.final(ids))
    jobs, calls = ground.jobs(ids), submits(ground.provider.calls(), ids)
    times = f"{refusal.times} times" if refusal.times > 1 else "once"
    return Account(
        did=f"{len(jobs)} jobs of 2 users at 2 worker processes; the provider turned each away {times} with "
        f"{refusal.fault}, asking for {refusal.seconds:g} s",
        checks=(
            _patient(calls, refusal),
            _not_hammering(jobs, calls, refusal),
            _within_limits(jobs, calls),
            _all_succeeded(ground, jobs),
        ),
    )


def _patient(calls: Sequence[ProviderCall], refusal: Refusal) -> Check:
    """How long after its refusal each job came back."""
    pauses = [
        (again.at - refused.at).total_seconds()
        for refused in calls
        if _refused(refused) and (again := _next(calls, refused)) is not None
    ]
    least = refusal.seconds - (1 if refusal.fault.name == "429_httpdate" else 0)  # a date has whole seconds
    early = sum(pause < least - _SLACK for pause in pauses)
    spread = f"after {min(pauses):.2f} to {max(pauses):.2f} s" if pauses else "never"
    return Check(
        expected=f"nobody comes back before the {refusal.seconds:g} s are over",
        saw=f"{len(pauses)} refusals; the jobs came back {spread}, {early or 'none'} of them too early",
        ok=bool(pauses) and early == 0,
    )


def _not_hammering(jobs: Sequence[Job], calls: Sequence[ProviderCall], refusal: Refusal) -> Check:
    made = {job.id: sum(call.job == job.id for call in calls) for job in jobs}
    wanted = refusal.times + 1
    spread = " or ".join(map(str, sorted(set(made.values()))))
    return Check(
        expected=f"{wanted} calls for each job, and no more",
        saw=f"{spread} calls for each, {len(calls)} in all",
        ok=set(made.values()) == {wanted},
    )


def _within_limits(jobs: Sequence[Job], calls: Sequence[ProviderCall]) -> Check:
    user_of = {job.id: job.user for job in jobs}
    users = {job.user for job in jobs}
    together = most_at_once(calls)
    one = max(most_at_once([call for call in calls if user_of[call.job] == user]) for user in users)
    return Check(
        expected=f"at most {_TOGETHER} calls at once over both workers, {_PER_USER} of one user",
        saw=f"at most {together} at once, {one} of one user",
        ok=together <= _TOGETHER and one <= _PER_USER,
    )


def _all_succeeded(ground: Ground, jobs: Sequence[Job]) -> Check:
    well = sum(job.status is Status.SUCCEEDED for job in jobs)
    hints = [
        one.hint_seconds for job in jobs for one in ground.attempts(job.id) if one.outcome != "succeeded"
    ]
    heard = sum(hint is not None and hint > 0 for hint in hints)
    return Check(
        expected="every job succeeds in the end, and its history keeps what the provider asked for",
        saw=f"{well} of {len(jobs)} succeeded; {heard} of {len(hints)} refusals on record name the wait",
        ok=well == len(jobs) and 0 < heard == len(hints),
    )


def _refused(call: ProviderCall) -> bool:
    return call.status is not None and call.status >= 400


def _next(calls: Sequence[ProviderCall], refused: ProviderCall) -> ProviderCall | None:
    """The next call for the same job."""
    return next((one for one in calls if one.job == refused.job and one.at > refused.at), None)
