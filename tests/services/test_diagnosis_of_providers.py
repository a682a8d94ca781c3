"""What `diagnose` says of providers on both databases: what to do goes by the trouble."""

from datetime import timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.model import ErrorClass
from aijobs.services.coordinator import Coordinator
from aijobs.services.diagnosis import Diagnosing
from aijobs.services.provider_desk import ProviderDesk
from aijobs.store import workers
from tests.support.jobs import claim_one, fail, new_job, settings_of

BREAKER = {"failures": 1, "within": "60s", "open_for": "30s", "ramp": [2, 5]}
PLAIN = {"kind": "python", "callable": "builtins:str", "breaker": BREAKER}
RESET = "aijobs provider reset p --reason '...'"
SHOW = "aijobs provider show p"


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

    def whole(self):
        return Diagnosing(self.store, self.settings).system()

    def provider(self, name="p"):
        return next(one for one in self.whole().findings if one.check == f"provider {name}")

    def job(self, job_id):
        return Diagnosing(self.store, self.settings).job(job_id)


@pytest.fixture
def stage(store, clock) -> Stage:
    return Stage(store, clock)


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
