"""Many background jobs at once, ended by webhooks, by polling, by both; and under workers that die."""

import os
import random
import signal
from pathlib import Path

import pytest

from aijobs.store import jobs
from tests.support.fleet import Fleet, fleet
from tests.support.receiver import receiver
from tests.support.serving import serving
from tests.support.wait import eventually

pytestmark = pytest.mark.e2e

COUNT = int(os.environ.get("FLEET_JOBS", "60"))
"""How many jobs; FLEET_JOBS=200 is the full size."""
NEVER = "1h"
LONG = 3600
"""Seconds the provider works on each, unless it is told to end all."""
SEEDS = range(int(os.environ.get("FLEET_SEEDS", "2")))


def each_once(one: Fleet, ids: list[str]) -> None:
    eventually(lambda: one.statuses(ids)["succeeded"] == len(ids), 60, every=0.1)
    with one.store.read() as tx:
        for job_id in ids:
            assert [e.outcome.value for e in jobs.executions_of(tx, job_id)] == ["succeeded"]
            assert len(jobs.notifications_of(tx, job_id)) == 1
            assert jobs.result_of(tx, job_id)
    assert one.simulator.billed() == len(ids)


def all_parked_then_end(one: Fleet, ids: list[str]) -> None:
    """Ten slots, and yet every job is at the provider at the same time; it ends them all."""

    def parked() -> bool:
        with one.store.read() as tx:
            return all(job.parked_at is not None for job in jobs.many(tx, ids).values())

    eventually(parked, 30, every=0.05)
    assert one.simulator.peak_running() == len(ids)
    one.end_all()


def test_webhooks_alone_end_every_job(tmp_path: Path, database_url: str) -> None:
    with fleet(tmp_path, database_url, latency=LONG, poll=NEVER) as one:
        ids = one.enqueue(COUNT)
        one.worker("--concurrency", "10")

        all_parked_then_end(one, ids)
        each_once(one, ids)


def test_polling_alone_ends_every_job(tmp_path: Path, database_url: str) -> None:
    with fleet(tmp_path, database_url, webhooks=False, latency=LONG) as one:
        ids = one.enqueue(COUNT)
        one.worker("--concurrency", "10")

        all_parked_then_end(one, ids)
        each_once(one, ids)


def test_polling_and_every_webhook_twice_and_in_reverse_end_every_job_once(
    tmp_path: Path, database_url: str
) -> None:
    with receiver() as kept, fleet(tmp_path, database_url, webhooks=False, latency=LONG) as one:
        one.simulator.set_webhook(kept.url)
        ids = one.enqueue(COUNT)
        with serving(one.store, settings=one.settings) as served:
            one.worker("--concurrency", "10")
            all_parked_then_end(one, ids)
            eventually(lambda: len(kept.deliveries) == COUNT, 30)
            outcomes = [
                served.http.post("/webhooks/sim", content=sent.body, headers=sent.headers).json()["outcome"]
                for sent in reversed(kept.deliveries)
                for _ in range(2)
            ]
            each_once(one, ids)

    assert sorted(outcomes) == ["accepted"] * COUNT + ["duplicate"] * COUNT


@pytest.mark.parametrize("seed", SEEDS)
def test_of_two_workers_one_dies_at_any_moment_and_no_job_is_paid_for_twice(
    tmp_path: Path, database_url: str, seed: int
) -> None:
    moment = random.Random(seed).randrange(35)
    with fleet(tmp_path, database_url, latency=0.3) as one:
        ids = one.enqueue(40)
        first, _ = (one.worker("--concurrency", "5") for _ in range(2))
        eventually(lambda: one.simulator.asked() > moment, 20, every=0.002)
        first.send_signal(signal.SIGKILL)

        eventually(lambda: settled(one, ids), 40, every=0.1)
        held = [job_id for job_id in ids if one.job(job_id).hold_reason]
        never_sent = [one.simulator.billed(job_id) for job_id in held]
        for job_id in held:  # a person looks, and lets those go on
            one.coordinator.retry(job_id, actor="ana", reason="the provider never heard of it")
        eventually(lambda: one.statuses(ids)["succeeded"] == len(ids), 30, every=0.1)

        assert never_sent == [0] * len(held)
        assert {one.simulator.billed(job_id) for job_id in ids} == {1}
        assert {one.told(job_id) for job_id in ids} == {1}
        assert {one.outcomes(job_id).count("succeeded") for job_id in ids} == {1}


def settled(one: Fleet, ids: list[str]) -> bool:
    """Every job has succeeded, or waits for a person because nobody heard of its call."""
    with one.store.read() as tx:
        found = jobs.many(tx, ids).values()
    held = [job.id for job in found if job.hold_reason]
    ended = sum(job.status.value == "succeeded" for job in found)
    return ended + len(held) == len(ids) and not any(one.simulator.billed(job_id) for job_id in held)
