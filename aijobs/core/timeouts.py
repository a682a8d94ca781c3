"""How long one call may take, and whether the budgets around it fit into each other. Pure.

The chain, outermost first: client, gateway and function (what others allow; only known if configured), then
the lease (renewed while the job runs), the provider request, and saving the result. Whatever is inside must
end before what is around it gives up.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from aijobs.core.durations import format_duration
from aijobs.core.settings import Settings, TimeoutSettings, TypeSettings

LOWEST_OF_TIER = 0.5
HIGHEST_OF_TIER = 3
"""`auto` stays between these times its tier, so that a few odd runs cannot take it anywhere."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A timeout, and why it is that long."""

    value: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class Overrun:
    """A budget that its surroundings do not have; *path* is the option to look at."""

    path: tuple[str, ...]
    message: str


def timeout_for(job_type: TypeSettings, history: Sequence[float], *, timeouts: TimeoutSettings) -> Chosen:
    """How long one call of *job_type* may take.

    *history*: seconds of its latest successful calls, at most `timeouts.auto.max_samples` of them. `auto`
    takes the stated quantile of these (nearest rank) times the margin, and the tier until there are enough.
    Calls cut off by the timeout are not among the successes: hence the margin and the lower bound.
    """
    tier = timeouts.tiers.of(job_type.tier)
    if isinstance(job_type.timeout, timedelta):
        return Chosen(job_type.timeout, "set for the type")
    if job_type.timeout is None:
        return Chosen(tier, f"tier {job_type.tier}")
    return _learned(job_type.tier, tier, history, timeouts)


def longest_timeout(job_type: TypeSettings, timeouts: TimeoutSettings) -> timedelta:
    """The longest that one call of *job_type* may ever be given."""
    if isinstance(job_type.timeout, timedelta):
        return job_type.timeout
    tier = timeouts.tiers.of(job_type.tier)
    return tier * HIGHEST_OF_TIER if job_type.timeout == "auto" else tier


def _learned(name: str, tier: timedelta, history: Sequence[float], timeouts: TimeoutSettings) -> Chosen:
    auto = timeouts.auto
    runs = sorted(seconds for seconds in history if math.isfinite(seconds) and seconds >= 0)
    if len(runs) < auto.min_samples:
        return Chosen(tier, f"auto: {len(runs)} of {auto.min_samples} runs known, so tier {name} for now")
    rank = max(1, math.ceil(auto.quantile * len(runs)))
    typical = timedelta(seconds=runs[rank - 1])
    low, high = tier * LOWEST_OF_TIER, tier * HIGHEST_OF_TIER
    value = min(max(typical * auto.margin, low), high)
    share = f"{auto.quantile * 100:g}% of {len(runs)} runs took at most {format_duration(typical)}"
    reason = f"auto: {share}, times {auto.margin:g}"
    if value == low:
        reason += f", held up at half of tier {name}"
    if value == high:
        reason += f", held down at {HIGHEST_OF_TIER} times tier {name}"
    return Chosen(value, reason)


# --- The whole chain ------------------------------------------------------------------------------


def overruns(settings: Settings) -> list[Overrun]:
    """Every inner budget of *settings* that is longer than one around it."""
    found = [*_waiting(settings), *_worker(settings)]
    for name, job_type in settings.types.items():
        found += _calls(name, job_type, settings)
    return found


def _waiting(settings: Settings) -> Iterator[Overrun]:
    """Those who wait while a job is accepted: they get its id, so only the saving is inside."""
    budgets = settings.timeouts
    known = [(name, value) for name in ("client", "gateway", "function") if (value := getattr(budgets, name))]
    for (outer, around), (inner, inside) in pairwise(known):
        if inside > around:
            consequence = f"{outer} gives up while {inner} still works, and never learns the job's id"
            yield Overrun(
                ("timeouts", inner), f"{_is(inside)} longer than {outer} ({_text(around)}): {consequence}"
            )
    for name, value in known:
        if budgets.save >= value:
            message = (
                f"{_is(budgets.save)} not shorter than {name} ({_text(value)}): who waits may give up first"
            )
            yield Overrun(("timeouts", "save"), message)


def _worker(settings: Settings) -> Iterator[Overrun]:
    worker, save, function = settings.worker, settings.timeouts.save, settings.timeouts.function
    if worker.renew_every + save >= worker.lease:
        parts = f"renewed every {_text(worker.renew_every)}, and saving may take {_text(save)}"
        yield Overrun(("worker", "lease"), f"{_is(worker.lease)} too short: {parts}")
    if function and worker.grace >= function:
        message = f"{_is(worker.grace)} not shorter than function ({_text(function)}): it would be cut off"
        yield Overrun(("worker", "grace"), message)


def _calls(name: str, job_type: TypeSettings, settings: Settings) -> Iterator[Overrun]:
    budgets, path = settings.timeouts, ("types", name, "timeout")
    call = longest_timeout(job_type, budgets)
    up_to = "up to " if job_type.timeout == "auto" else ""
    if budgets.function and call + budgets.save > budgets.function:
        inside = f"the call ({up_to}{_text(call)}) and saving ({_text(budgets.save)})"
        yield Overrun(path, f"{inside} take longer than function ({_text(budgets.function)})")
    connect = settings.provider(job_type.provider).connect_timeout
    if connect > call:
        message = f"{_is(call)} shorter than connect_timeout of {job_type.provider} ({_text(connect)})"
        yield Overrun(path, message)
    if job_type.deadline and call > job_type.deadline:
        message = f"{_is(job_type.deadline)} shorter than one call ({up_to}{_text(call)})"
        yield Overrun(("types", name, "deadline"), message)
    background = job_type.background_options
    if (
        job_type.deadline
        and "max_run" in background.model_fields_set
        and background.max_run > job_type.deadline
    ):
        message = f"{_is(background.max_run)} longer than deadline ({_text(job_type.deadline)})"
        yield Overrun(("types", name, "background_options", "max_run"), message)


def _text(value: timedelta) -> str:
    return format_duration(value)


def _is(value: timedelta) -> str:
    return f"{format_duration(value)} is"
