"""Drill: a provider that is down for a while, left alone, and come back to gently."""

import threading
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

from aijobs.core.durations import Rate
from aijobs.core.model import Status
from aijobs.core.replaying import ReplayOptions
from aijobs.services.drill.ground import ACTOR, Ground
from aijobs.services.drill.provider import ProviderCall, submits
from aijobs.services.drill.report import Account, Check
from aijobs.services.replay import Planner, Runner, RunReport
from aijobs.store import provider_states, replays
from aijobs.store.dead_letters import DeadLetterFilter

_FAILURES = 3
_OPEN_SECONDS = 1.0
_RAMP = (1, 2, 4)
_WAITING = 12
_EVERY = 0.5  # seconds between two replayed jobs
_SLACK = 0.15


def outage(ground: Ground) -> Account:
    """Three jobs die of it, twelve wait; then the provider is well again, and the three are replayed."""
    ground.configure(
        {"frail": {"max_attempts": 1}, "work": {"max_attempts": 2}},
        provider={
            "breaker": {
                "failures": _FAILURES, "open_for": f"{_OPEN_SECONDS:g}s", "trials": 1, "ramp": list(_RAMP),
            }
        },
        retry={"unavailable": {"retries": 1, "backoff": "breaker", "base": "50ms", "cap": "100ms"}},
    )  # fmt: skip
    ground.provider.set_fault("500")
    ground.provider.set_latency("150ms")
    ground.ready(ground.worker("frail", "work"))
    frail = ground.enqueue_all("frail", [({"n": n}, "ana") for n in range(_FAILURES)])
    ground.until(lambda: ground.final(frail))
    breaker = _breaker(ground)
    waiting = ground.enqueue_all("work", [({"n": n}, f"user{n}") for n in range(_WAITING)])
    ground.until(lambda: any(call.finished_at for call in submits(ground.provider.calls(), waiting)))
    ground.provider.set_fault(None)
    ground.until(lambda: ground.final(waiting) and _breaker(ground) == "closed")
    calls = submits(ground.provider.calls(), [*frail, *waiting])
    checks = (
        _left_alone(calls, breaker),
        _gently(calls),
        _waited_for_nothing(ground, waiting),
        _replayed_in_turn(ground, frail),
    )
    return Account(
        did=f"the provider failed every call: {_FAILURES} jobs died of it and {_WAITING} waited, at one "
        "worker process; then it was well again, and the dead letters were replayed",
        checks=checks,
    )


def _breaker(ground: Ground) -> str:
    with ground.store.read() as tx:
        return provider_states.states(tx, [ground.name])[ground.name].breaker


def _failed(call: ProviderCall) -> bool:
    return call.status is None or call.status >= 500


def _left_alone(calls: Sequence[ProviderCall], breaker: str) -> Check:
    """From the failure that opens it on, each failure is followed by a silence, then by one trial."""
    failed = [call for call in calls if _failed(call)][_FAILURES - 1 :]
    behind = [call for call in calls if failed and call.at > failed[0].at]
    pauses = [
        (trial.at - (failure.finished_at or failure.at)).total_seconds()
        for failure, trial in zip(failed, behind, strict=False)
    ]
    least = max(0.0, min(pauses, default=0.0))  # a call that was under way already came without any pause
    return Check(
        expected=f"{_FAILURES} failures open the breaker: {_OPEN_SECONDS:g} s without a call, then one trial",
        saw=f"the breaker was {breaker}; {_FAILURES - 1 + len(failed)} calls failed; the shortest pause "
        f"after it opened was {least:.2f} s",
        ok=breaker == "open" and bool(pauses) and least >= _OPEN_SECONDS - _SLACK,
    )


def _gently(calls: Sequence[ProviderCall]) -> Check:
    """Each call against what the trial and the steps of the slow start let be under way."""
    well = [call for call in calls if not _failed(call)]
    allowed = [1, *(step for step in _RAMP for _ in range(step))]
    seen = [call.in_flight for call in well]
    over = sum(got > most for got, most in zip(seen, allowed, strict=False))
    return Check(
        expected=f"calls come back by steps: one trial, then {', '.join(map(str, _RAMP))} at once",
        saw=f"under way as each call began: {', '.join(map(str, seen[: len(allowed)])) or 'none'}",
        ok=len(seen) >= len(allowed) and over == 0,
    )


def _waited_for_nothing(ground: Ground, ids: Sequence[str]) -> Check:
    found = ground.jobs(ids)
    well = sum(job.status is Status.SUCCEEDED for job in found)
    spent = max(job.attempts for job in found)
    return Check(
        expected="jobs that waited all succeed, and the outage cost none of them an attempt",
        saw=f"{well} of {len(found)} succeeded; the most attempts one was charged: {spent}",
        ok=(well, spent) == (len(found), 1),
    )


def _replayed_in_turn(ground: Ground, ids: Sequence[str]) -> Check:
    died = sum(job.status is Status.DEAD_LETTER for job in ground.jobs(ids))
    before = len(submits(ground.provider.calls(), ids))
    run = _replay(ground)
    calls = submits(ground.provider.calls(), ids)[before:]
    canary = calls[0].finished_at if calls else None
    alone = canary is not None and all(call.at >= canary for call in calls[1:])
    least = min(_pauses(ground, run.replay), default=0.0)
    well = sum(job.status is Status.SUCCEEDED for job in ground.jobs(ids))
    return Check(
        expected=f"a replay sends one job ahead and waits for it, then one every {_EVERY:g} s",
        saw=f"{well} of {died} dead letters succeeded (the replay is {run.state}); the first was "
        f"{'alone' if alone else 'not alone'}; the shortest pause between two was {least:.2f} s",
        ok=(died, well, len(calls)) == (len(ids),) * 3 and alone and least >= _EVERY - _SLACK,
    )


def _pauses(ground: Ground, replay_id: str) -> list[float]:
    """Seconds between two jobs that were let go."""
    with ground.store.read() as tx:
        times = [item.replayed_at for item in replays.items(tx, replay_id)]
    known = sorted(at for at in times if at is not None)
    return [(after - before).total_seconds() for before, after in pairwise(known)]


def _replay(ground: Ground) -> RunReport:
    """Replay what died, as `aijobs deadletter replay` does."""
    rate = Rate(2, timedelta(seconds=1))
    options = ReplayOptions(batch_size=1, rate=rate, canary=1)
    wanted = DeadLetterFilter(type=ground.type("frail"))
    planner = Planner(ground.store, ground.settings, chance=ground.chance)
    plan = planner.plan(wanted, options, limit=_FAILURES, actor=ACTOR, reason="a drill")
    runner = Runner(ground.store, ground.coordinator, owner=ground.name, actor=ACTOR)
    stop = threading.Event()
    timer = threading.Timer(ground.patience, stop.set)
    timer.start()
    try:
        return runner.run(plan.id, hear=lambda _: None, stop=stop)
    finally:
        timer.cancel()
