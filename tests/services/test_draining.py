"""What a worker that drains waits for: said in words, when it is something else, and every minute."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.log_events import LogEvent
from aijobs.core.model import ErrorClass
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.switching import Switching
from aijobs.services.worker.draining import Draining, Wait, Waiting
from aijobs.store.engine import Store
from tests.support.clock import START, ManualClock
from tests.support.jobs import claim_some, fail, new_job, present, settings_of
from tests.support.wait import eventually
from tests.support.workers import Heard, running

SOON = START + timedelta(seconds=30)
BREAKABLE: dict[str, Any] = {
    "providers": {"p": {"kind": "python", "callable": "builtins:str", "breaker": {"failures": 2}}}
}
METERED: dict[str, Any] = {"providers": {"p": {"kind": "python", "callable": "builtins:str", "rate": "1/m"}}}


def wait_of(store: Store, settings: Settings, now: datetime = START) -> Wait | None:
    with store.read() as tx:
        return Draining(store, settings, tuple(settings.types)).wait(tx, now)


def stocked(store: Store, chance: Chance, count: int, **sections: Any) -> tuple[Coordinator, Settings]:
    settings = settings_of(**sections)
    coordinator = Coordinator(store, settings, chance=chance)
    coordinator.enqueue_many([new_job(n) for n in range(count)], actor="t")
    return coordinator, settings


def test_an_open_breaker_is_named_with_what_opened_it_and_the_next_trial(
    store: Store, chance: Chance
) -> None:
    coordinator, settings = stocked(store, chance, 3, **BREAKABLE)
    for claim in claim_some(coordinator, 2):
        fail(coordinator, claim.job, ErrorClass.UNAVAILABLE)

    wait = wait_of(store, settings)

    assert wait is not None
    assert wait.until == SOON
    assert wait.words == (
        "p is not called now: the breaker is open: 2 failures in a row, "
        "the last unavailable (test), next trial at 2026-01-01T00:00:30Z"
    )


def test_a_rate_that_is_used_up_is_named(store: Store, chance: Chance) -> None:
    coordinator, settings = stocked(store, chance, 2, **METERED)
    claim_some(coordinator, 2)

    wait = wait_of(store, settings)

    assert wait is not None
    assert wait.words == "p is not called now: rate 1/m used up, until 2026-01-01T00:01:00Z"


def test_a_provider_that_is_shut_is_no_reason_when_no_job_waits_for_it(store: Store, chance: Chance) -> None:
    coordinator, settings = stocked(store, chance, 1)
    claim_some(coordinator)
    ProviderDesk(store, settings).hold("p", actor="t", reason="r", lasting=timedelta(hours=1))

    wait = wait_of(store, settings)

    assert wait is not None
    assert wait.cause == "running"


def test_the_next_of_the_retries_is_named_with_its_time(store: Store, chance: Chance) -> None:
    coordinator, settings = stocked(store, chance, 3)
    ids = [claim.job.id for claim in claim_some(coordinator, 3)]
    for job_id in ids:
        fail(coordinator, present(store, job_id), ErrorClass.UNAVAILABLE)

    wait = wait_of(store, settings)

    assert wait is not None
    assert wait.until == min(present(store, job_id).next_run_at or START for job_id in ids) > START
    assert wait.words == f"the next retry is due at {wait.until:%Y-%m-%dT%H:%M:%SZ}"


def test_a_limit_is_named(store: Store, chance: Chance) -> None:
    _, settings = stocked(store, chance, 1)

    wait = wait_of(store, settings)  # nothing claims it, and nothing else keeps it

    assert wait is not None
    assert wait.cause == "limits"


@pytest.mark.parametrize("keep", ["pause", "hold"])
def test_what_a_person_has_to_let_go_is_not_waited_for(keep: str, store: Store, chance: Chance) -> None:
    _, settings = stocked(store, chance, 1)
    if keep == "pause":
        Switching(store, settings).pause(["t"], below=None, actor="t", reason="r", lasting=None)
    else:
        ProviderDesk(store, settings).hold("p", actor="t", reason="r", lasting=None)

    assert wait_of(store, settings) is None


def test_what_is_waited_for_is_said_again_every_minute_with_the_words_of_then() -> None:
    heard, clock = Heard(), ManualClock()
    waiting = Waiting(clock=clock, log=heard)

    def said_after(seconds: float, *words: str) -> list[object]:
        clock.advance(seconds=seconds)
        before = len(heard.fields_of(LogEvent.DRAIN_WAITS))
        for one in words:
            waiting.look(Wait(cause="retries", words=one))
        return [fields["why"] for fields in heard.fields_of(LogEvent.DRAIN_WAITS)[before:]]

    assert said_after(0, "one", "two", "three") == ["two"]
    assert said_after(59.9, "four") == []
    assert said_after(0.1, "five", "six") == ["five"]
    waiting.look(None)  # claims had come back with jobs in between
    assert said_after(60, "seven", "eight") == ["eight"]
    assert said_after(30, "nine") == []


class Looking(Coordinator):
    """A coordinator that counts how often it was asked for work."""

    looks = 0

    def claim(self, request: ClaimRequest) -> list[Claim]:
        self.looks += 1
        return super().claim(request)


def test_a_worker_says_once_what_it_waits_for_and_again_when_it_is_something_else(
    store: Store, chance: Chance, clock: ManualClock
) -> None:
    settings = settings_of()
    coordinator, heard, desk = Looking(store, settings, chance=chance), Heard(), ProviderDesk(store, settings)
    coordinator.enqueue(new_job(), actor="t")
    desk.hold("p", actor="t", reason="their outage", lasting=timedelta(hours=1))

    def said() -> list[str]:
        return [str(fields["why"]) for fields in heard.fields_of(LogEvent.DRAIN_WAITS)]

    def looked_again() -> None:
        after = coordinator.looks + 3
        eventually(lambda: coordinator.looks >= after)

    with running(store, settings=settings, coordinator=coordinator, log=heard, drain=True) as worker:
        eventually(said)
        looked_again()
        first = said()
        desk.hold("p", actor="t", reason="another one", lasting=timedelta(hours=2))
        eventually(lambda: len(said()) > 1)
        looked_again()
        both = said()
        desk.reset("p", actor="t", reason="it is back")
        report = worker.ended()

    assert first == ["p is not called now: paused: their outage, until 2026-01-01T01:00:00Z"]
    assert both == [*first, "p is not called now: paused: another one, until 2026-01-01T02:00:00Z"]
    assert (report.succeeded, said()) == (1, both)
