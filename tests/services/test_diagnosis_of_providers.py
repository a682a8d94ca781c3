"""What `diagnose` says of providers and limits, on both databases: what keeps jobs is wrong, with a cure."""

from datetime import timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.diagnosis import Layer
from aijobs.core.model import ErrorClass
from aijobs.core.switches import SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.services.diagnosis import Diagnosing
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.switching import Switching
from aijobs.store import workers
from tests.support.jobs import claim_one, claim_some, fail, new_job, settings_of, succeed

BREAKER = {"failures": 1, "within": "60s", "open_for": "30s", "ramp": [2, 5]}
PLAIN = {"kind": "python", "callable": "builtins:str", "breaker": BREAKER}
RESET = "aijobs provider reset p --reason '...'"
SHOW = "aijobs provider show p"
APPROVED = {"quality": True, "privacy": True, "region": True, "cost": True}


class Stage:
    """A store with a live worker and the provider `p`; *sections* go into the configuration."""

    def __init__(self, store, clock) -> None:
        self.store, self.clock = store, clock
        self.set()

    def set(self, provider=None, **sections) -> None:
        self.settings = settings_of(providers={"p": PLAIN | (provider or {}), "q": PLAIN}, **sections)
        self.coordinator = Coordinator(self.store, self.settings, chance=seeded_chance(1))
        self.worker()

    def worker(self) -> None:
        with self.store.write() as tx:
            workers.register(
                tx, name="w1", host="h", pid=1, version="1", concurrency=5, types=None, now=self.clock.now()
            )

    def enqueue(self, count=1, **changes) -> list[str]:
        batch = [new_job({"n": self.clock.now().isoformat() + str(n)}, **changes) for n in range(count)]
        return [answer.job.id for answer in self.coordinator.enqueue_many(batch, actor="t")]

    def fail(self, error_class, **changes) -> None:
        self.enqueue()
        fail(self.coordinator, claim_one(self.coordinator), error_class, **changes)

    def recover(self) -> None:
        """An outage that is over: the trial succeeded, and the slow start begins."""
        self.fail(ErrorClass.UNAVAILABLE)
        self.clock.advance(timedelta(seconds=31))
        succeed(self.coordinator, claim_one(self.coordinator))
        self.worker()

    def whole(self):
        return Diagnosing(self.store, self.settings).system()

    def provider(self, name="p"):
        return next(one for one in self.whole().findings if one.check == f"provider {name}")

    def job(self, job_id):
        return Diagnosing(self.store, self.settings).job(job_id)


@pytest.fixture
def stage(store, clock) -> Stage:
    return Stage(store, clock)


# --- What a provider that may be called keeps -------------------------------------------------------


@pytest.mark.parametrize("ready", [0, 2])
def test_a_slow_start_that_lets_through_all_that_wait_is_well(stage, ready):
    stage.recover()
    stage.enqueue(ready)

    told = stage.whole()

    assert (told.ok, told.next_steps) == (True, ())
    assert stage.provider().evidence.startswith("p may be called: slow start: 2 at once")


def test_a_slow_start_keeps_jobs_when_more_are_ready_than_it_lets_through(stage):
    stage.recover()
    stage.enqueue(3)

    told = stage.whole()

    assert (told.layer, stage.provider().ok) == (Layer.PROVIDER, False)
    assert "wait: each call that succeeds lets more through" in told.next_steps
    assert RESET not in told.next_steps


def test_a_slow_start_whose_places_are_taken_is_well_until_another_job_is_ready(stage):
    stage.recover()
    stage.enqueue(2)
    claim_some(stage.coordinator, 5)

    assert stage.whole().ok
    stage.enqueue()
    assert stage.provider().evidence.startswith("p is not called now: slow start: 2 at once")
    assert not stage.provider().ok


def test_a_breaker_that_would_let_a_trial_through_is_well_while_no_job_waits(stage):
    stage.enqueue(max_attempts=1)
    fail(stage.coordinator, claim_one(stage.coordinator), ErrorClass.UNAVAILABLE)
    assert not stage.provider().ok

    stage.clock.advance(timedelta(seconds=31))

    assert stage.provider().ok
    assert stage.provider().evidence.startswith("p may be called: the breaker is half open")


def test_jobs_that_a_pause_keeps_are_not_kept_by_the_slow_start(stage):
    stage.recover()
    stage.enqueue(3)
    Switching(stage.store, stage.settings).turn_on(
        SwitchKind.PAUSE, "t", actor="ana", reason="x", lasting=None
    )

    assert stage.provider().ok
    assert stage.whole().layer is Layer.QUEUE


def test_jobs_that_no_worker_serves_are_not_kept_by_the_slow_start(stage):
    stage.recover()
    stage.enqueue(3)
    stage.clock.advance(timedelta(minutes=5))

    assert stage.provider().ok
    assert stage.whole().layer is Layer.WORKER


def test_jobs_that_a_limit_keeps_are_not_kept_by_the_slow_start(stage):
    stage.set(provider={"concurrency": 1})
    stage.recover()
    stage.enqueue(3)
    claim_some(stage.coordinator, 5)

    assert stage.provider().evidence.startswith("p may be called: slow start: 2 at once")
    assert stage.provider().ok
    assert stage.whole().layer is Layer.QUEUE


def test_a_provider_that_is_held_is_wrong_also_when_its_probe_may_go_out_and_no_job_waits(stage):
    stage.fail(ErrorClass.AUTH)
    stage.clock.advance(timedelta(minutes=6))
    stage.worker()

    found = stage.provider()

    assert not found.ok
    assert found.evidence.startswith("p may be called: a probe, held: the provider refuses our credentials")
    assert "until a person resets it" not in found.evidence


def test_a_probe_that_is_under_way_needs_no_person(stage):
    stage.fail(ErrorClass.AUTH)
    stage.clock.advance(timedelta(minutes=6))
    stage.enqueue()
    claim_one(stage.coordinator)

    assert stage.provider().evidence.startswith("p is not called now: a probe, held: ")
    assert "until a person resets it" not in stage.provider().evidence


# --- Limits -----------------------------------------------------------------------------------------

LIMITS = {
    "provider p runs its limit of 2": {"provider": {"concurrency": 2}},
    "type t runs its limit of 2": {"types": {"t": {"provider": "p", "concurrency": 2}}},
    "the global limit of 2 is reached": {"concurrency": {"global": 2}},
}


@pytest.mark.parametrize(("words", "sections"), LIMITS.items(), ids=LIMITS)
def test_the_whole_names_a_limit_that_keeps_ready_jobs_as_one_of_them_does(stage, words, sections):
    stage.set(**sections)
    stage.enqueue(5)
    claimed = {claim.job.id for claim in claim_some(stage.coordinator, 5)}
    (waiting,) = [job_id for job_id in stage.enqueue() if job_id not in claimed]

    told, one = stage.whole(), stage.job(waiting)

    assert (told.layer, told.summary) == (Layer.QUEUE, f"{words}; of type t 4 jobs ready")
    assert (one.layer, one.summary) == (Layer.QUEUE, words)
    assert told.next_steps == one.next_steps


def test_a_limit_that_is_reached_keeps_nothing_while_no_job_is_ready(stage):
    stage.set(provider={"concurrency": 2})
    stage.enqueue(2)
    claim_some(stage.coordinator, 5)

    assert stage.whole().ok


def test_a_limit_is_that_of_the_provider_that_the_calls_really_go_to(stage):
    fallback = {"provider": "q", "model": "m", "approved": APPROVED}
    stage.set(provider={"concurrency": 1}, types={"t": {"provider": "p", "fallback": fallback}})
    stage.enqueue(2)
    claim_one(stage.coordinator)
    assert not stage.whole().ok

    Switching(stage.store, stage.settings).turn_on(
        SwitchKind.FALLBACK, "t", actor="ana", reason="x", lasting=None
    )

    assert stage.whole().ok


def test_more_workers_are_not_the_cure_of_a_backlog_behind_a_limit(stage):
    stage.enqueue(3)
    stage.clock.advance(timedelta(minutes=30))
    stage.worker()
    assert "aijobs worker --concurrency N" in stage.whole().next_steps

    stage.set(concurrency={"global": 1})
    claim_one(stage.coordinator)

    assert "aijobs worker --concurrency N" not in stage.whole().next_steps


# --- What to do about a provider --------------------------------------------------------------------


def refuses_the_key(s):
    s.fail(ErrorClass.AUTH)


def has_no_quota_left(s):
    s.fail(ErrorClass.QUOTA_EXHAUSTED)


def limits_our_rate(s):
    s.fail(ErrorClass.RATE_LIMITED, hint=timedelta(seconds=90))


def is_down(s):
    s.fail(ErrorClass.UNAVAILABLE)


def cannot_be_reached(s):
    s.fail(ErrorClass.NETWORK)


def is_held_by_a_person(s):
    ProviderDesk(s.store, s.settings).hold("p", actor="ana", reason="x", lasting=None)


def is_held_by_a_person_for_a_while(s):
    ProviderDesk(s.store, s.settings).hold("p", actor="ana", reason="x", lasting=timedelta(hours=1))


def has_used_up_its_rate(s):
    s.set(provider={"rate": "1/h"})
    s.enqueue()
    claim_one(s.coordinator)


MEND = "mend the key behind providers.p.api_key, and restart the workers"
LESS = "wait until 2026-01-01T00:01:30Z, or lower providers.p.rate or providers.p.concurrency"
CLOSES = "wait: the breaker closes by itself when calls succeed again"
CURES = [
    (refuses_the_key, (MEND, "aijobs doctor --probe", RESET)),
    (has_no_quota_left, ("raise the budget at p", RESET)),
    (limits_our_rate, (SHOW, LESS)),
    (is_down, (SHOW, "aijobs doctor --probe", CLOSES)),
    (cannot_be_reached, (SHOW, "aijobs doctor --probe", CLOSES)),
    (is_held_by_a_person, (SHOW, RESET)),
    (is_held_by_a_person_for_a_while, (SHOW, RESET)),
    (has_used_up_its_rate, (SHOW, "wait until 2026-01-01T01:00:00Z, or raise providers.p.rate")),
]


@pytest.mark.parametrize(("trouble", "steps"), CURES, ids=[trouble.__name__ for trouble, _ in CURES])
def test_the_steps_about_a_provider_take_its_trouble_away(stage, trouble, steps):
    trouble(stage)
    (waiting,) = stage.enqueue()

    of_the_whole, of_the_job = stage.provider(), stage.job(waiting)

    assert not of_the_whole.ok
    assert of_the_whole.next_steps[-len(steps) :] == steps
    assert of_the_job.next_steps == steps
    assert of_the_job.layer is of_the_whole.layer


def test_a_rate_that_is_used_up_is_well_while_no_job_waits_for_it(stage):
    has_used_up_its_rate(stage)

    assert stage.whole().ok
