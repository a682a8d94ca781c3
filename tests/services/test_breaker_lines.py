"""What the log of a worker says of the providers: one line a change, at the worker whose call made it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.log_events import Level
from aijobs.core.model import ErrorClass
from aijobs.services.coordinator import Claim, Coordinator
from aijobs.services.log_lines import LineLog
from aijobs.services.worker.tally import Tally
from aijobs.store import provider_states
from aijobs.store.engine import Store, Tx
from aijobs.store.provider_states import ProviderState
from tests.support.clock import ManualClock
from tests.support.jobs import claim_some, ended, fail, new_job, settings_of, succeed

BREAKER = {"failures": 2, "open_for": "30s", "ramp": [1], "trials": 2}


class Crewless:
    """What a worker says, with nobody who works: it claims, and ends what it claimed as a test wants."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        provider = {"kind": "python", "callable": "builtins:str", "breaker": BREAKER}
        self.coordinator = Coordinator(store, settings_of(providers={"p": provider}), chance=seeded_chance(1))
        self.lines: list[str] = []
        log = LineLog(self.lines.append, clock=clock, level=Level.INFO)
        self._tally = Tally("w", clock=clock, log=log)

    def claims(self, slots: int) -> list[Claim]:
        claims = claim_some(self.coordinator, slots)
        for claim in claims:
            self._tally.claimed(claim)
        return claims

    def fails(self, claim: Claim, error_class: ErrorClass = ErrorClass.UNAVAILABLE) -> None:
        answer = fail(self.coordinator, claim.job, error_class)
        self._tally.settled(ended(claim.job, None), answer)  # type: ignore[arg-type]  # only its job is read

    def succeeds(self, claim: Claim) -> None:
        answer = succeed(self.coordinator, claim.job)
        self._tally.settled(ended(claim.job, None), answer)  # type: ignore[arg-type]

    def said(self) -> list[str]:
        """The lines about providers since the last look, each without its time."""
        said = [line.partition(" ")[2] for line in self.lines if " provider p: " in line]
        self.lines.clear()
        return said


def enqueue(worker: Crewless, count: int) -> None:
    worker.coordinator.enqueue_many([new_job({"n": n}) for n in range(count)], actor="t")


def test_each_change_of_a_breaker_is_one_line_of_the_worker_whose_call_made_it(
    store: Store, clock: ManualClock
) -> None:
    one, other = Crewless(store, clock), Crewless(store, clock)
    enqueue(one, 12)

    for worker, claim in zip((one, other, one), one.claims(3), strict=True):
        worker.fails(claim)
    in_order = [line.split()[2] for line in other.lines]
    opened = other.said(), one.said()
    clock.advance(seconds=30)
    first, second = one.claims(1)[0], other.claims(1)[0]
    half_open = one.said(), other.said()
    one.fails(first)
    again = one.said()
    clock.advance(seconds=30)
    (third,) = one.claims(5)
    its_trial = one.said()
    other.succeeds(second)  # it went out before the breaker opened again: that says nothing now
    one.succeeds(third)
    other.succeeds(*other.claims(1))
    slow = other.said()
    one.succeeds(*other.claims(1))

    until = "WARNING provider p: breaker opened, nothing is sent until"
    why = "the last unavailable (test)"
    assert in_order == ["job", "provider"]  # the failure first, then what it led to
    assert opened == ([f"{until} 2026-01-01T00:00:30.000Z: 2 failures in a row, {why}"], [])
    assert half_open == ([f"INFO    provider p: breaker half open, job {first.job.id} is the trial"], [])
    assert second.job.id != first.job.id
    assert again == [f"{until} 2026-01-01T00:01:00.000Z: a trial failed, {why}"]
    assert its_trial == [f"INFO    provider p: breaker half open, job {third.job.id} is the trial"]
    assert slow == ["INFO    provider p: slow start, the trials succeeded"]
    assert one.said() == ["INFO    provider p: breaker closed, the slow start is over"]


def test_a_hold_for_the_quota_is_one_line_and_a_pause_is_none(store: Store, clock: ManualClock) -> None:
    worker = Crewless(store, clock)
    enqueue(worker, 4)
    limited, *others = worker.claims(4)

    worker.fails(limited, ErrorClass.RATE_LIMITED)
    paused = worker.said()
    for claim in others:
        worker.fails(claim, ErrorClass.QUOTA_EXHAUSTED)

    assert paused == []
    (said,) = worker.said()
    assert said.startswith(
        "WARNING provider p: held until a probe succeeds, the next 2026-01-01T00:05:00.000Z"
    )
    assert said.endswith(": the quota is used up (test)")
    clock.advance(timedelta(minutes=5))
    assert len(worker.claims(4)) == 1
    assert worker.said() == []  # a probe is no news


def test_a_pause_that_begins_when_its_time_is_up_is_no_change_of_the_breaker(
    store: Store, clock: ManualClock
) -> None:
    worker = Crewless(store, clock)
    enqueue(worker, 3)
    *failing, late = worker.claims(3)
    for claim in failing:
        worker.fails(claim)
    opened = worker.said()
    clock.advance(seconds=30)

    worker.fails(late, ErrorClass.RATE_LIMITED)

    assert len(opened) == 1
    assert worker.said() == []


def test_a_breaker_that_an_end_closed_since_the_claim_looked_is_not_called_half_open(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Crewless(store, clock)
    enqueue(worker, 12)
    for claim in worker.claims(2):
        worker.fails(claim)
    clock.advance(timedelta(seconds=31))
    worker.said()
    look = provider_states.locked

    def closed_meanwhile(tx: Tx, names: Iterable[str], now: datetime) -> dict[str, ProviderState]:
        return {name: replace(state, breaker="closed") for name, state in look(tx, names, now).items()}

    monkeypatch.setattr(provider_states, "locked", closed_meanwhile)
    worker.claims(1)

    assert worker.said() == []
