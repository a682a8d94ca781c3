"""Limits over three worker processes, one killed and replaced: the provider's own record is the judge."""

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from aijobs.core.clock import system_chance
from aijobs.core.config import load
from aijobs.core.model import Status
from aijobs.http.simulator import RunningSimulator, start_in_thread
from aijobs.http.simulator.ledger import CallRecord
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from tests.support.jobs import new_job
from tests.support.processes import Process, Site, site
from tests.support.wait import eventually

pytestmark = pytest.mark.e2e

USERS, JOBS, GLOBAL, PER_USER = 20, 200, 10, 2
WAIT = timedelta(seconds=1)
CONFIG = """\
concurrency: {global: 10, per_user: 2}
worker: {lease: 2s, grace: 10s, poll: 50ms, concurrency: 8}
providers:
  sim: {kind: simulator, base_url: "URL", fault: "429=1:0.03", latency: 60ms}
types:
  t: {provider: sim}
retry:
  worker_lost: {retries: 9, first: immediate, backoff: fixed, delay: 0s}
"""


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Iterator[Site]:
    """Where the workers of this test run."""
    with site(tmp_path, database_url) as one:
        yield one


def test_limits_and_waits_hold_over_processes_while_one_is_killed_and_replaced(place: Site) -> None:
    with start_in_thread() as provider:
        place.configure(CONFIG.replace("URL", provider.url))
        users = enqueue(place)
        first, *others = [place.worker() for _ in range(3)]
        eventually(lambda: provider.asked() > 50, 30)

        first.send(signal.SIGKILL)
        first.ended()
        others.append(place.worker())
        eventually(lambda: succeeded(place) == JOBS, 60, every=0.1)
        ends(others)
        calls = submits(provider)
        in_all = provider.peak()

    assert in_all <= GLOBAL
    assert most_at_once(calls, dict.fromkeys(users, "all")) == in_all
    assert most_at_once(calls, users) == PER_USER
    throttled = [call for call in calls if call.status == 429]
    assert throttled
    assert too_early(calls, throttled) == []
    assert Counter(call.job for call in calls if call.status == 200).keys() == users.keys()


def enqueue(place: Site) -> dict[str, str]:
    """200 jobs of 20 users; the user of each job."""
    settings = load(place.folder / "aijobs.yaml", environ={})
    coordinator = Coordinator(place.store, settings, chance=system_chance())
    new = [new_job({"n": n}, user=f"u{n % USERS}") for n in range(JOBS)]
    answers = coordinator.enqueue_many(new, actor="test")
    return {answer.job.id: answer.job.user for answer in answers}  # type: ignore[union-attr]


def submits(provider: RunningSimulator) -> list[CallRecord]:
    """The calls that asked for work, in order."""
    return [call for call in provider.calls() if call.job]


def succeeded(place: Site) -> int:
    with place.store.read() as tx:
        return jobs.counts(tx).get(("t", Status.SUCCEEDED), 0)


def ends(workers: list[Process]) -> None:
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        assert worker.ended().code == 0


def most_at_once(calls: list[CallRecord], group_of: Mapping[str, str]) -> int:
    """The most calls of one group that were under way at one instant."""
    assert all(call.finished_at for call in calls)
    moments = [(call.finished_at or call.at, -1, group_of[call.job]) for call in calls]
    moments += [(call.at, 1, group_of[call.job]) for call in calls]
    now: Counter[str] = Counter()
    peak = 0
    for _, step, group in sorted(moments):
        now[group] += step
        peak = max(peak, now[group])
    return peak


def too_early(calls: list[CallRecord], throttled: list[CallRecord]) -> list[str]:
    """The jobs that called again before the time they were told to wait."""
    found = []
    for refused in throttled:
        until = (refused.finished_at or refused.at) + WAIT
        again = [call for call in calls if call.job == refused.job and call.seq > refused.seq]
        if again and again[0].at < until:
            found.append(refused.job)
    return found
