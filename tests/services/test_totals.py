"""Totals on both databases: written with what they count, and never falling."""

import json
from datetime import timedelta

import pytest

from aijobs.core import totals as names
from aijobs.core.lifecycle import Succeeded
from aijobs.core.model import CallFacts, ErrorClass, Usage
from aijobs.core.totals import SECONDS, Totals
from aijobs.services.coordinator import Coordinator
from aijobs.services.pruner import Pruner
from aijobs.store import rollups
from tests.support.jobs import claim_one, ended, fail, new_job, settings_of, succeed


@pytest.fixture
def coordinator(store, chance):
    return Coordinator(store, settings_of(), chance=chance)


def total(store, metric: str, **labels: str) -> float:
    """The sum over the series of *metric* that have these labels."""
    with store.read() as tx:
        sums = rollups.sums(tx)
    return sum(
        value
        for (name, text), value in sums.items()
        if name == metric and labels.items() <= json.loads(text).items()
    )


def start(coordinator, value=1):
    coordinator.enqueue(new_job(value), actor="t")
    return claim_one(coordinator)


def test_ends_attempts_and_retries_are_counted(store, coordinator, clock):
    succeed(coordinator, start(coordinator))
    fail(coordinator, start(coordinator, 2), ErrorClass.BAD_RESPONSE)
    fail(coordinator, start(coordinator, 3), ErrorClass.INVALID_REQUEST)

    assert total(store, names.FINAL_STATUS, type="t", status="succeeded") == 1
    assert total(store, names.FINAL_STATUS, type="t", status="dead_letter") == 1
    assert total(store, names.ATTEMPTS, provider="p") == 3
    assert total(store, names.RETRIES, provider="p", error_class="bad_response") == 1
    assert total(store, names.DEAD_LETTERS, error_class="invalid_request") == 1


def test_durations_fall_into_buckets_and_a_clock_that_steps_back_makes_none_negative(
    store, coordinator, clock
):
    job = start(coordinator)
    clock.advance(timedelta(seconds=7))
    succeed(coordinator, job)
    job = start(coordinator, 2)
    clock.set(job.claimed_at - timedelta(hours=1))
    coordinator.finish([ended(job, Succeeded(result="1"), at=job.claimed_at)])

    bucket = f"{names.DURATION}_bucket"
    assert total(store, bucket, le="10") == 1
    assert total(store, bucket, le="0.1") == 1
    assert total(store, f"{names.DURATION}_sum") == 7


def test_the_wait_in_the_queue_counts_from_when_the_job_could_run(store, coordinator, clock):
    due = clock.now() + timedelta(hours=1)
    coordinator.enqueue(new_job(run_at=due), actor="t")
    clock.set(due + timedelta(seconds=20))
    claim_one(coordinator)

    assert total(store, f"{names.QUEUE_WAIT}_sum", type="t") == 20
    assert total(store, f"{names.QUEUE_WAIT}_bucket", type="t", le="30") == 1


def test_tokens_are_counted_by_direction_and_unknown_is_not_nought(store, coordinator):
    facts = CallFacts(provider="p", model="m", usage=Usage(input_tokens=120, output_tokens=40))
    coordinator.finish([ended(start(coordinator), Succeeded(result="1", facts=facts))])

    assert total(store, names.TOKENS, model="m", direction="input") == 120
    assert total(store, names.TOKENS, model="m") == 160


def test_a_lost_lease_is_counted(store, coordinator, clock):
    start(coordinator)
    clock.advance(timedelta(hours=1))
    coordinator.rescue(limit=10)

    assert total(store, names.LEASES_LOST, type="t") == 1


def test_an_end_that_was_not_applied_is_not_counted(store, coordinator):
    job = start(coordinator)
    succeed(coordinator, job)
    succeed(coordinator, job)

    assert total(store, names.FINAL_STATUS) == 1


def test_totals_do_not_fall_when_their_jobs_are_pruned(store, coordinator, clock):
    succeed(coordinator, start(coordinator))
    clock.advance(timedelta(days=400))
    Pruner(store, settings_of()).run()

    assert total(store, names.FINAL_STATUS) == 1


@pytest.mark.parametrize(("seconds", "bound"), [(0, "0.1"), (0.1, "0.1"), (0.11, "0.25"), (99999, "+Inf")])
def test_a_bucket_includes_its_bound(seconds, bound):
    totals = Totals()
    totals.observe("m", [timedelta(seconds=seconds)], a="b")

    assert (("m_bucket", json.dumps({"a": "b", "le": bound}, separators=(",", ":"))), 1) in list(
        totals.rows()
    )
    assert list(SECONDS) == sorted(SECONDS)
