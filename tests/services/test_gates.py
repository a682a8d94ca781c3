"""The providers' gates on both databases: breaker, trials, slow start, pauses, holds, rates, retry budget."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.lifecycle import Abandoned
from aijobs.core.model import CallFacts, ErrorClass, Status
from aijobs.services.coordinator import Coordinator
from aijobs.services.provider_desk import ProviderDesk
from aijobs.store import provider_states
from aijobs.store.engine import open_store
from tests.support.jobs import LEASE, claim_some, ended, fail, new_job, present, settings_of, succeed
from tests.support.kept import last_events

BREAKER = {"failures": 3, "within": "60s", "open_for": "30s", "ramp": [1, 2, 5]}


def desk(store, seed=1, **provider) -> Coordinator:
    fields = {"kind": "python", "callable": "builtins:str", "breaker": BREAKER} | provider
    return Coordinator(store, settings_of(providers={"p": fields}), chance=seeded_chance(seed))


@pytest.fixture
def coordinator(store):
    return desk(store)


def enqueue(coordinator, count: int, **changes) -> list[str]:
    batch = [new_job({"n": n}, **changes) for n in range(count)]
    return [answer.job.id for answer in coordinator.enqueue_many(batch, actor="t")]


def state_of(store):
    with store.read() as tx:
        return provider_states.states(tx, ["p"])["p"]


def told(store) -> list[str]:
    with store.read() as tx:
        events = last_events(tx, 20)
    return [event["detail"] for event in reversed(events) if event["kind"] == "provider"]


def break_it(coordinator, clock, failures=3) -> None:
    """Fail so many calls one after the other."""
    for _ in range(failures):
        (claim,) = claim_some(coordinator, 1)
        clock.advance(seconds=1)
        fail(coordinator, claim.job, ErrorClass.UNAVAILABLE)


def trial_out(coordinator, clock):
    """The first call that a broken provider is sent when its breaker's time is over."""
    break_it(coordinator, clock)
    clock.advance(seconds=31)
    (trial,) = claim_some(coordinator, 5)
    return trial


def test_a_trial_that_is_out_while_a_person_resets_the_breaker_keeps_no_later_trial_away(
    store, coordinator, clock
):
    enqueue(coordinator, 30)
    trial = trial_out(coordinator, clock)

    ProviderDesk(store, coordinator.settings).reset("p", actor="ana", reason="it is well")
    clock.advance(seconds=2)
    succeed(coordinator, trial.job)
    break_it(coordinator, clock)
    clock.advance(seconds=31)

    assert len(claim_some(coordinator, 5)) == 1


def test_a_trial_that_is_out_when_the_breaker_closes_keeps_no_later_trial_away(store, coordinator, clock):
    enqueue(coordinator, 40)
    trial = trial_out(coordinator, clock)
    with store.write() as tx:
        late = {"provider": "p", "job_id": "late", "fence": 1, "locked_until": clock.now() + LEASE * 9}
        provider_states.add_trials(tx, [late])

    succeed(coordinator, trial.job)
    while state_of(store).breaker != "closed":
        for claim in claim_some(coordinator, 5):
            succeed(coordinator, claim.job)
    break_it(coordinator, clock)
    clock.advance(seconds=31)

    assert len(claim_some(coordinator, 5)) == 1


def test_a_claim_locks_the_rows_of_several_providers_in_the_order_of_an_end(store, monkeypatch):
    fields = {"kind": "python", "callable": "builtins:str", "rate": "1000/s"}
    types = {"ta": {"provider": "a"}, "tb": {"provider": "b"}}
    settings = settings_of(providers={"a": fields, "b": fields}, types=types)
    coordinator = Coordinator(store, settings, chance=seeded_chance(1))
    urgent_b = new_job({"n": 1}, type="tb", priority=1)
    coordinator.enqueue_many([new_job({"n": 2}, type="ta"), urgent_b], actor="t")

    seen, really = [], provider_states.locked
    monkeypatch.setattr(
        provider_states, "locked", lambda tx, names, now: seen.extend(names) or really(tx, names, now)
    )

    assert [claim.job.type for claim in claim_some(coordinator, 2)] == ["tb", "ta"]
    assert seen == ["a", "b"]


def test_failures_in_a_row_open_the_breaker_for_everybody(store, coordinator, clock):
    enqueue(coordinator, 10)

    break_it(coordinator, clock)

    assert state_of(store).breaker == "open"
    assert claim_some(desk(store, 2), 5, worker="another") == []
    assert "breaker opened" in told(store)[0]


def test_bad_requests_say_nothing_against_a_provider(store, coordinator):
    enqueue(coordinator, 10)
    for claim in claim_some(coordinator, 10):
        fail(coordinator, claim.job, ErrorClass.INVALID_REQUEST)

    assert state_of(store).breaker == "closed"


def test_while_the_breaker_is_open_jobs_wait_without_spending_attempts(store, coordinator, clock):
    made = enqueue(coordinator, 20)
    break_it(coordinator, clock)
    for _ in range(200):
        clock.advance(seconds=0.1)
        assert claim_some(coordinator, 5) == []

    waiting = [present(store, job_id) for job_id in made[3:]]
    assert {(job.status, job.attempts, job.deferrals) for job in waiting} == {(Status.PENDING, 0, 0)}


def test_when_the_time_is_up_one_trial_goes_out_whoever_asks(store, coordinator, clock):
    enqueue(coordinator, 20)
    break_it(coordinator, clock)
    clock.advance(seconds=30)
    start = Barrier(4)

    def ask(number: int) -> int:
        own = open_store(store.url, clock=store.clock)
        try:
            mine = desk(own, number)
            start.wait()
            return sum(len(claim_some(mine, 10, worker=f"w{number}")) for _ in range(3))
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        claimed = sum(pool.map(ask, range(4)))

    assert claimed == 1


def test_a_trial_whose_worker_died_does_not_block_for_ever(coordinator, clock):
    enqueue(coordinator, 20)
    break_it(coordinator, clock)
    clock.advance(seconds=30)
    assert len(claim_some(coordinator, 10)) == 1

    assert claim_some(coordinator, 10) == []
    clock.advance(timedelta(seconds=60) + LEASE)

    assert len(claim_some(coordinator, 10)) == 1


def test_a_trial_that_fails_opens_it_again_and_costs_its_job_nothing(store, coordinator, clock):
    enqueue(coordinator, 20)
    break_it(coordinator, clock)
    clock.advance(seconds=30)
    (trial,) = claim_some(coordinator, 10)

    fail(coordinator, trial.job, ErrorClass.UNAVAILABLE)

    job = present(store, trial.job.id)
    assert state_of(store).breaker == "open"
    assert (job.status, job.attempts, job.deferrals) == (Status.FAILED, 0, 1)


def test_a_trial_that_gets_a_bad_request_decides_nothing(store, coordinator, clock):
    enqueue(coordinator, 20)
    break_it(coordinator, clock)
    clock.advance(seconds=30)
    (trial,) = claim_some(coordinator, 10)

    fail(coordinator, trial.job, ErrorClass.INVALID_REQUEST)

    assert state_of(store).breaker in ("open", "half_open")
    assert len(claim_some(coordinator, 10)) == 1


def test_a_trial_that_is_handed_back_makes_room_for_another(coordinator, clock):
    enqueue(coordinator, 20)
    break_it(coordinator, clock)
    clock.advance(seconds=30)
    (trial,) = claim_some(coordinator, 10)

    coordinator.finish([ended(trial.job, Abandoned(reason="the worker stopped"))])

    assert len(claim_some(coordinator, 10)) == 1


def test_the_backlog_comes_back_along_the_ramp(store, coordinator, clock):
    enqueue(coordinator, 60)
    break_it(coordinator, clock)
    clock.advance(seconds=31)
    sizes = []
    while claims := claim_some(coordinator, 50):
        sizes.append(len(claims))
        clock.advance(seconds=1)
        for claim in claims:
            succeed(coordinator, claim.job)

    assert sizes[:4] == [1, 1, 2, 5]  # the trial, then the steps
    assert sizes[4] > 5  # closed: no bound but the slots
    assert state_of(store).breaker == "closed"


def test_an_outage_of_three_hours_kills_no_job_and_its_calls_are_bounded(store, coordinator, clock):
    made = enqueue(coordinator, 500)
    calls, began = 0, clock.now()
    while clock.now() - began < timedelta(hours=3):
        for claim in claim_some(coordinator, 50):
            calls += 1
            clock.advance(seconds=1)
            fail(coordinator, claim.job, ErrorClass.UNAVAILABLE)
        clock.advance(seconds=60)
    back = 0
    while back < 500 and clock.now() - began < timedelta(hours=9):
        for claim in claim_some(coordinator, 100):
            succeed(coordinator, claim.job)
            back += 1
        clock.advance(seconds=30)

    assert calls <= 50 + 3 * 3600 / 30 + 5
    assert back == 500
    assert {present(store, job_id).status for job_id in made} == {Status.SUCCEEDED}


def test_a_rate_limit_pauses_everybody_until_its_time_and_costs_no_attempt(store, coordinator, clock):
    enqueue(coordinator, 10)
    (claim,) = claim_some(coordinator, 1)

    fail(coordinator, claim.job, ErrorClass.RATE_LIMITED, hint=timedelta(seconds=20))
    clock.advance(seconds=19.9)
    early = claim_some(coordinator, 10)
    clock.advance(seconds=0.1)

    assert early == []
    assert len(claim_some(coordinator, 10)) >= 9
    assert present(store, claim.job.id).deferrals == 1


def test_a_shorter_pause_does_not_cut_a_longer_one_short(store, coordinator, clock):
    enqueue(coordinator, 2)
    one, other = claim_some(coordinator, 2)

    fail(coordinator, one.job, ErrorClass.RATE_LIMITED, hint=timedelta(seconds=60))
    fail(coordinator, other.job, ErrorClass.RATE_LIMITED, hint=timedelta(seconds=1))

    assert state_of(store).paused_until == clock.now() + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("error_class", "dead"),
    [(ErrorClass.QUOTA_EXHAUSTED, 0), (ErrorClass.AUTH, 1)],  # the call that was refused is not repeated
)
def test_without_quota_or_credentials_one_canary_probes_and_the_others_wait(
    store, coordinator, clock, error_class, dead
):
    made = enqueue(coordinator, 20)
    calls = 0
    for _ in range(100):
        for claim in claim_some(coordinator, 10):
            calls += 1
            fail(coordinator, claim.job, error_class)
        clock.advance(seconds=30)
    held = state_of(store)
    for _ in range(60):
        for claim in claim_some(coordinator, 10):
            succeed(coordinator, claim.job)
        clock.advance(seconds=30)

    assert held.held_at is not None
    assert calls <= 10 + 100 * 30 / 300 + 1
    statuses = [present(store, job_id).status for job_id in made]
    assert statuses.count(Status.DEAD_LETTER) == dead
    assert statuses.count(Status.SUCCEEDED) == 20 - dead
    assert state_of(store).held_at is None


def test_a_rate_is_kept_in_every_span_by_any_number_of_workers(store, clock):
    enqueue(desk(store), 300)
    workers = [desk(store, number, rate="30/m") for number in range(3)]
    starts = []
    for turn in range(150):
        number = turn % 3
        starts += [clock.now()] * len(claim_some(workers[number], 10, worker=f"w{number}"))
        clock.advance(seconds=1.5)

    minute = timedelta(minutes=1)
    assert max(sum(begin <= at < begin + minute for at in starts) for begin in starts) <= 30
    assert len(starts) >= 90  # 30 a minute would be 112 in this time


def test_time_tells_when_a_gate_opens_by_itself(coordinator, clock):
    enqueue(coordinator, 10)
    assert coordinator.next_start(clock.now()) is None
    break_it(coordinator, clock)

    assert coordinator.next_start(clock.now()) <= clock.now() + timedelta(seconds=30)


def test_retries_beyond_the_budget_come_later_but_nobody_dies_of_it(store, clock):
    retry = {
        "budget": {"ratio": 0.1, "window": "5m", "floor": 2},
        "network": {"retries": 50, "first": "immediate"},
    }
    providers = {"p": {"kind": "python", "callable": "builtins:str", "breaker": {"failures": 1000}}}
    coordinator = Coordinator(store, settings_of(retry=retry, providers=providers), chance=seeded_chance(1))
    enqueue(coordinator, 10, max_attempts=60)
    calls = 0
    for _ in range(290):
        for claim in claim_some(coordinator, 20):
            calls += 1
            fail(coordinator, claim.job, ErrorClass.NETWORK)
        clock.advance(seconds=0.1)

    assert 10 < calls <= 10 + 10 + 10
    with store.read() as tx:
        first, again = provider_states.calls_since(tx, clock.now() - timedelta(minutes=5))["p"]
    assert (first, first + again) == (10, calls)


def test_what_the_last_headers_said_is_kept(store, coordinator):
    enqueue(coordinator, 1)
    (claim,) = claim_some(coordinator, 1)

    facts = CallFacts(provider="p", rate_limits='{"requests":{"remaining":0}}')
    fail(coordinator, claim.job, ErrorClass.RATE_LIMITED, facts=facts)

    assert state_of(store).last_headers == '{"requests":{"remaining":0}}'
