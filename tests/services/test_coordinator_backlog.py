"""The cap on the line: past it new jobs are refused, and nothing that is known already is."""

from typing import Any

import pytest

from aijobs.core.errors import BacklogFull
from aijobs.services.coordinator import Coordinator, Enqueued
from aijobs.store import jobs
from tests.support.jobs import claim_one, claim_some, fail, new_job, settings_of, succeed


@pytest.fixture
def capped(store, chance):
    def make(**caps: Any) -> Coordinator:
        types = {"t": {"provider": "p"} | caps, "other": {"provider": "p"}}
        return Coordinator(store, settings_of(types=types), chance=chance)

    return make


def how_many(store) -> int:
    with store.read() as tx:
        return sum(jobs.counts(tx).values())


def fill(coordinator: Coordinator, count: int, **fields: Any) -> None:
    coordinator.enqueue_many([new_job({"n": n}, **fields) for n in range(count)], actor="a")


def test_a_job_past_the_cap_is_refused_and_leaves_nothing(store, capped):
    coordinator = capped(backlog=3)
    fill(coordinator, 3)

    with pytest.raises(BacklogFull, match="backlog of type t is full: 3 jobs wait") as refused:
        coordinator.enqueue(new_job({"n": 9}), actor="a")

    assert "types.t.backlog" in refused.value.hint
    assert how_many(store) == 3


def test_a_claim_makes_a_place(capped):
    coordinator = capped(backlog=3)
    fill(coordinator, 3)
    claim_one(coordinator)

    assert coordinator.enqueue(new_job({"n": 9}), actor="a").duplicate is False
    with pytest.raises(BacklogFull):
        coordinator.enqueue(new_job({"n": 10}), actor="a")


def test_a_known_key_is_answered_although_the_line_is_full(capped):
    coordinator = capped(backlog=1)
    coordinator.enqueue(new_job(key="done"), actor="a")
    succeed(coordinator, claim_one(coordinator))
    coordinator.enqueue(new_job(key="waits"), actor="a")

    done = coordinator.enqueue(new_job(key="done"), actor="a")
    waits = coordinator.enqueue(new_job(key="waits"), actor="a")

    assert (done.duplicate, done.result, waits.duplicate) == (True, '"done"', True)


def test_a_users_cap_is_that_users_alone(capped):
    coordinator = capped(backlog_per_user=2)
    fill(coordinator, 2, user="ana")

    with pytest.raises(BacklogFull, match="for this user is full: 2 jobs wait"):
        coordinator.enqueue(new_job({"n": 9}, user="ana"), actor="a")
    assert coordinator.enqueue(new_job(user="bo"), actor="a").job.user == "bo"
    assert coordinator.enqueue(new_job(), actor="a").job.user == ""


def test_those_without_a_user_are_one_user_to_the_cap(capped):
    coordinator = capped(backlog_per_user=1)
    coordinator.enqueue(new_job(), actor="a")

    with pytest.raises(BacklogFull):
        coordinator.enqueue(new_job({"n": 2}), actor="a")


def test_one_types_full_line_does_not_shut_anothers(capped):
    coordinator = capped(backlog=1)
    coordinator.enqueue(new_job(), actor="a")

    assert coordinator.enqueue(new_job(type="other"), actor="a").job.type == "other"


@pytest.mark.parametrize("count", [5, 150])
def test_a_batch_takes_the_places_that_are_left_and_no_more(store, capped, count):
    coordinator = capped(backlog=count - 2)
    wanted = [new_job({"n": n}, key=str(n)) for n in range(count)]

    answers = coordinator.enqueue_many([*wanted, wanted[0]], actor="a", keep_going=True)

    assert [isinstance(one, Enqueued) for one in answers] == [True] * (count - 2) + [False, False, True]
    assert how_many(store) == count - 2


def test_a_batch_that_may_not_go_in_part_goes_not_at_all(store, capped):
    coordinator = capped(backlog=2)

    answers = coordinator.enqueue_many([new_job({"n": n}) for n in range(3)], actor="a")

    assert isinstance(answers[2], BacklogFull)
    assert how_many(store) == 0


def test_a_retry_comes_back_to_a_full_line(store, capped, clock):
    coordinator = capped(backlog=1)
    coordinator.enqueue(new_job({"n": 1}), actor="a")
    failed = claim_one(coordinator)
    coordinator.enqueue(new_job({"n": 2}), actor="a")

    fail(coordinator, failed)
    clock.advance(seconds=3600)

    assert len(claim_some(coordinator, 5)) == 2
