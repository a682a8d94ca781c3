"""One job a (user, type, key), whoever asks, how often, and at the same instant."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from sqlalchemy import text

from aijobs.core.clock import seeded_chance
from aijobs.core.errors import KeyConflict, KeyOwnerEnded
from aijobs.core.model import ErrorClass, Status
from aijobs.services.coordinator import Coordinator, Enqueued
from aijobs.store import jobs
from aijobs.store.engine import open_store
from tests.support.jobs import claim_one, fail, new_job, present, settings_of, succeed


@pytest.fixture
def coordinator(store, chance):
    return Coordinator(store, settings_of(), chance=chance)


def how_many(store) -> int:
    with store.read() as tx:
        return sum(jobs.counts(tx).values())


def test_a_new_job_is_pending_and_due_at_once(store, coordinator, clock):
    job = coordinator.enqueue(new_job({"n": 1}, user="ana", key="k"), actor="tester").job

    assert job == present(store, job.id)
    assert (job.status, job.next_run_at, job.attempts, job.round) == (Status.PENDING, clock.now(), 0, 1)
    assert job.created_by == "tester"
    with store.read() as tx:
        assert jobs.payload_of(tx, job.id) == '{"n":1}'


def test_the_same_key_with_the_same_input_is_the_same_job(store, coordinator):
    first = coordinator.enqueue(new_job(key="k"), actor="a")

    again = coordinator.enqueue(new_job(key="k"), actor="b")

    assert (again.duplicate, again.job.id, again.result) == (True, first.job.id, None)
    assert how_many(store) == 1


def test_a_repeat_after_success_brings_the_result(coordinator):
    coordinator.enqueue(new_job(key="k"), actor="a")
    succeed(coordinator, claim_one(coordinator), '"the answer"')

    again = coordinator.enqueue(new_job(key="k"), actor="a")

    assert (again.duplicate, again.result) == (True, '"the answer"')


@pytest.mark.parametrize("running", [False, True])
def test_the_same_key_with_another_input_is_a_conflict_even_while_it_runs(store, coordinator, running):
    job = coordinator.enqueue(new_job({"n": 1}, key="k"), actor="a").job
    if running:
        claim_one(coordinator)
    before = present(store, job.id)

    with pytest.raises(KeyConflict, match=job.id):
        coordinator.enqueue(new_job({"n": 2}, key="k"), actor="a")

    assert present(store, job.id) == before


def test_a_key_is_scoped_to_user_and_type(store, chance):
    types = {name: {"provider": "p"} for name in ("t", "u")}
    coordinator = Coordinator(store, settings_of(types=types), chance=chance)

    made = [
        coordinator.enqueue(new_job({"n": index}, type=name, user=user, key="1"), actor="a")
        for index, (name, user) in enumerate([("t", "ana"), ("t", "bo"), ("u", "ana"), ("t", "")])
    ]

    assert [one.duplicate for one in made] == [False] * 4


def test_the_key_of_a_dead_job_is_answered_with_what_to_do(coordinator):
    job = coordinator.enqueue(new_job(key="k", max_attempts=1), actor="a").job
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)

    with pytest.raises(KeyOwnerEnded, match="dead_letter") as told:
        coordinator.enqueue(new_job(key="k"), actor="a")

    assert f"aijobs retry {job.id}" in (told.value.hint or "")


def test_the_key_of_a_cancelled_job_is_not_a_silent_success(coordinator):
    job = coordinator.enqueue(new_job(key="k"), actor="a").job
    coordinator.cancel(job.id, actor="a", reason="no longer wanted")

    with pytest.raises(KeyOwnerEnded, match="cancelled"):
        coordinator.enqueue(new_job(key="k"), actor="a")


def test_a_key_lives_exactly_until_it_expires(store, coordinator, clock):
    ends = clock.now() + timedelta(hours=24)
    first = coordinator.enqueue(new_job(key="k", key_expires_at=ends), actor="a").job

    clock.advance(timedelta(hours=24) - timedelta(microseconds=1))
    just_before = coordinator.enqueue(new_job(key="k"), actor="a")
    clock.advance(timedelta(microseconds=1))
    at_the_end = coordinator.enqueue(new_job({"n": 9}, key="k"), actor="a")

    assert (just_before.duplicate, just_before.job.id) == (True, first.id)
    assert not at_the_end.duplicate
    assert present(store, first.id).key == "k"  # the old job still says which key it had


def test_the_same_key_twice_in_one_batch_is_one_job(coordinator):
    answers = coordinator.enqueue_many([new_job(key="k"), new_job(key="k"), new_job(key="l")], actor="a")

    assert all(isinstance(answer, Enqueued) for answer in answers)
    assert [answer.duplicate for answer in answers] == [False, True, False]
    assert answers[0].job.id == answers[1].job.id


def test_one_conflict_keeps_the_whole_batch_out_unless_told_to_keep_going(store, coordinator):
    coordinator.enqueue(new_job({"n": 1}, key="k"), actor="a")
    batch = [new_job({"n": 5}), new_job({"n": 2}, key="k"), new_job({"n": 6})]

    refused = coordinator.enqueue_many(batch, actor="a")
    after_refusal = how_many(store)
    kept = coordinator.enqueue_many(batch, actor="a", keep_going=True)

    assert [type(answer) for answer in refused] == [Enqueued, KeyConflict, Enqueued]
    assert after_refusal == 1
    assert [type(answer) for answer in kept] == [Enqueued, KeyConflict, Enqueued]
    assert how_many(store) == 3


@pytest.mark.parametrize("commits", [True, False])
def test_a_job_in_the_callers_transaction_exists_exactly_when_it_commits(store, coordinator, commits):
    with store.engine.connect() as connection, connection.begin() as transaction:
        (made,) = coordinator.enqueue_in(connection, [new_job()], actor="a")
        if commits:
            transaction.commit()
        else:
            transaction.rollback()

    assert how_many(store) == int(commits)
    with store.read() as tx:
        assert (jobs.payload_of(tx, made.job.id) is not None) == commits


def test_many_at_once_with_one_key_make_one_job_and_everybody_gets_its_id(store):
    start = Barrier(8)

    def ask(number: int) -> Enqueued:
        own = open_store(store.url, clock=store.clock)
        try:
            coordinator = Coordinator(own, settings_of(), chance=seeded_chance(number))
            start.wait()
            return coordinator.enqueue(new_job(key="order-7781", user="ana"), actor=str(number))
        finally:
            own.close()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))

    assert len({answer.job.id for answer in answers}) == 1
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 7
    assert how_many(store) == 1


def test_two_imports_of_the_same_lines_at_once_make_each_job_once(store):
    start = Barrier(2)

    def load(number: int) -> list[Enqueued]:
        own = open_store(store.url, clock=store.clock)
        try:
            coordinator = Coordinator(own, settings_of(), chance=seeded_chance(number))
            lines = [new_job({"n": index}, key=f"k{index}") for index in range(200)]
            start.wait()
            return coordinator.enqueue_many(lines if number else lines[::-1], actor=str(number))
        finally:
            own.close()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(load, range(2))

    assert {a.job.id for a in one} == {a.job.id for a in other}
    assert how_many(store) == 200
    with store.read() as tx:
        inputs = tx.execute(text("SELECT count(*) FROM job_inputs")).scalar()
    assert inputs == 200


def test_the_database_itself_refuses_a_second_job_with_the_key(store, coordinator):
    job = coordinator.enqueue(new_job(key="k"), actor="a").job

    columns = ", ".join(f'"{c.key}"' for c in jobs.COLUMNS if c.key != "id")
    copy = f"INSERT INTO jobs (id, {columns}) SELECT 'other', {columns} FROM jobs WHERE id = :id"
    with pytest.raises(Exception, match=r"(?i)unique|store"), store.write() as tx:
        tx.execute(text(copy), {"id": job.id})

    assert how_many(store) == 1
