"""Usage sums on both databases: by whatever is asked for, and unknown is never nought."""

import pytest

from aijobs.core.lifecycle import Succeeded
from aijobs.core.model import CallFacts, Usage
from aijobs.services.coordinator import Coordinator
from aijobs.store import usage_days
from tests.support.jobs import claim_one, ended, history, new_job, settings_of


@pytest.fixture
def coordinator(store, chance):
    prices = {"m": {"input": 1.0, "output": 10.0, "cache_read": 0.1}}
    return Coordinator(store, settings_of(prices=prices), chance=chance)


def run(coordinator, usage: Usage, *, user="ana", model="m"):
    coordinator.enqueue(new_job(user=user), actor="t")
    job = claim_one(coordinator)
    facts = CallFacts(provider="p", model=model, usage=usage)
    coordinator.finish([ended(job, Succeeded(result="1", facts=facts))])
    return job


def sums(store, *by: str, since=None):
    with store.read() as tx:
        return dict(usage_days.summed(tx, by, since))


def test_tokens_and_cost_add_up_by_user_and_by_day(store, coordinator, clock):
    run(coordinator, Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=500))
    run(coordinator, Usage(input_tokens=1000, output_tokens=0, cache_read_tokens=0))
    run(coordinator, Usage(input_tokens=10, output_tokens=1), user="bo")
    clock.advance(seconds=86400)
    run(coordinator, Usage(input_tokens=1, output_tokens=0))

    by_user = sums(store, "user")
    assert (by_user["ana",].calls, by_user["ana",].input_tokens, by_user["ana",].cache_read_tokens) == (
        3, 2001, 500,
    )  # fmt: skip
    assert by_user["bo",].output_tokens == 1
    assert by_user["ana",].cost == pytest.approx((500 + 50 + 1000 + 1000 + 1) / 1e6)
    assert set(sums(store, "day")) == {("2026-01-01",), ("2026-01-02",)}
    assert sums(store, "day", since="2026-01-02")["2026-01-02",].input_tokens == 1


def test_what_nobody_said_stays_unknown(store, coordinator):
    run(coordinator, Usage(input_tokens=5))
    run(coordinator, Usage(), user="silent")

    (only,) = sums(store, "user").items()
    assert only[0] == ("ana",)
    assert (only[1].output_tokens, only[1].cost) == (None, None)


def test_unknown_plus_known_is_known(store, coordinator):
    run(coordinator, Usage(input_tokens=5))
    run(coordinator, Usage(input_tokens=5, output_tokens=7))

    assert sums(store, "type")["t",].output_tokens == 7


def test_a_model_without_a_price_costs_an_unknown_amount(store, coordinator):
    job = run(coordinator, Usage(input_tokens=5, output_tokens=5), model="other")

    assert history(store, job.id)[0]["cost"] is None


def test_what_the_provider_itself_says_it_costs_goes_before_the_table(store, coordinator):
    job = run(coordinator, Usage(input_tokens=5, output_tokens=5, reported_cost=0.5))

    assert history(store, job.id)[0]["cost"] == 0.5
