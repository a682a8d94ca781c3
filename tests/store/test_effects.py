"""The ledger of side effects."""

from typing import Any

import pytest
from sqlalchemy import event, insert, text, update

from aijobs.core.errors import LeaseLost, StoreLocked
from aijobs.store import effects
from aijobs.store.effects import Done, EffectRecord, First, Unfinished
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import jobs
from tests.support.clock import ManualClock


def make_job(store: Store) -> str:
    """A job that is processed under fence 1."""
    now = store.clock.now()
    row = {
        "id": "j1", "type": "mail", "user": "ann", "status": "processing", "max_attempts": 5, "attempts": 1,
        "lock_token": 1, "locked_by": "w1", "locked_until": now, "claimed_at": now, "input_hash": "x",
        "created_at": now, "updated_at": now,
    }  # fmt: skip
    with store.write() as tx:
        tx.execute(insert(jobs), row)
    return "j1"


@pytest.fixture
def job(store: Store) -> str:
    return make_job(store)


def claim_again(store: Store) -> None:
    with store.write() as tx:
        tx.execute(update(jobs).values(lock_token=jobs.c.lock_token + 1))


def claim_impatiently(store: Store) -> None:
    with store.write() as tx:
        tx.execute(text("SET LOCAL lock_timeout = '20ms'"))
        tx.execute(update(jobs).values(lock_token=2))


def note_impatiently(store: Store, job: str) -> None:
    with store.write() as tx:
        tx.execute(text("SET LOCAL lock_timeout = '20ms'"))
        effects.done(tx, job, name="send", fence=1, value="1", now=store.clock.now())


def begin(store: Store, job: str, fence: int = 1, name: str = "send") -> First | Done | Unfinished:
    with store.write() as tx:
        return effects.begin(tx, job, name=name, fence=fence, now=store.clock.now())


def done(store: Store, job: str, fence: int = 1, value: str | None = None) -> None:
    with store.write() as tx:
        effects.done(tx, job, name="send", fence=fence, value=value, now=store.clock.now())


def ledger(store: Store, job: str) -> list[EffectRecord]:
    with store.read() as tx:
        return effects.effects_of(tx, job)


def test_an_effect_nobody_began_is_ours_to_do(store: Store, job: str, clock: ManualClock) -> None:
    assert begin(store, job) == First()

    assert ledger(store, job) == [
        EffectRecord(name="send", fence=1, value=None, begun_at=clock.now(), done_at=None)
    ]


def test_an_effect_that_is_done_is_never_begun_again_and_keeps_its_value(
    store: Store, job: str, clock: ManualClock
) -> None:
    begin(store, job)
    done(store, job, value='{"message_id": 7}')
    claim_again(store)

    assert begin(store, job, fence=2) == Done(value='{"message_id": 7}')
    assert [(e.fence, e.done_at) for e in ledger(store, job)] == [(1, clock.now())]


def test_an_effect_left_open_by_an_earlier_attempt_is_unfinished_and_ours_now(
    store: Store, job: str, clock: ManualClock
) -> None:
    begun = clock.now()
    begin(store, job)
    claim_again(store)
    clock.advance(seconds=60)

    assert begin(store, job, fence=2) == Unfinished(fence=1, begun_at=begun)
    done(store, job, fence=2, value="1")
    assert [(e.fence, e.value) for e in ledger(store, job)] == [(2, "1")]


def test_the_same_attempt_that_begins_twice_learns_that_it_is_open(store: Store, job: str) -> None:
    begin(store, job)

    assert isinstance(begin(store, job), Unfinished)


def test_each_name_is_an_effect_of_its_own(store: Store, job: str) -> None:
    assert [begin(store, job, name=n) for n in ("send", "charge")] == [First(), First()]


def test_a_stale_attempt_may_not_begin_anything(store: Store, job: str) -> None:
    claim_again(store)

    with pytest.raises(LeaseLost):
        begin(store, job, fence=1)

    assert ledger(store, job) == []


def test_an_attempt_of_a_job_that_has_ended_may_not_begin_anything(store: Store, job: str) -> None:
    with store.write() as tx:
        ended = {"status": "cancelled", "finished_at": store.clock.now()}
        free = {"locked_until": None, "locked_by": None, "claimed_at": None}
        tx.execute(update(jobs).values(**ended, **free))

    with pytest.raises(LeaseLost):
        begin(store, job)


def test_an_effect_that_happened_is_noted_even_when_the_lease_was_lost_meanwhile(
    store: Store, job: str
) -> None:
    begin(store, job)
    claim_again(store)

    done(store, job, fence=1, value="1")

    assert begin(store, job, fence=2) == Done(value="1")


def test_a_stale_attempt_cannot_note_an_effect_that_a_later_one_took_over(store: Store, job: str) -> None:
    begin(store, job)
    claim_again(store)
    begin(store, job, fence=2)

    with pytest.raises(LeaseLost):
        done(store, job, fence=1, value="stale")

    assert [(e.fence, e.value, e.done_at) for e in ledger(store, job)] == [(2, None, None)]


def test_to_say_done_again_after_a_lost_answer_is_harmless(store: Store, job: str) -> None:
    begin(store, job)
    done(store, job, value="1")

    done(store, job, value="1")

    assert [e.value for e in ledger(store, job)] == ["1"]


def test_an_effect_that_was_never_begun_cannot_be_done(store: Store, job: str) -> None:
    with pytest.raises(LeaseLost):
        done(store, job)


@pytest.mark.postgres
def test_nobody_claims_the_job_between_the_look_and_the_commit(
    postgres_store_url: str, clock: ManualClock
) -> None:
    store = open_store(postgres_store_url, clock=clock)
    job = make_job(store)

    with store.write() as tx:
        effects.begin(tx, job, name="send", fence=1, now=clock.now())
        with pytest.raises(StoreLocked):
            claim_impatiently(store)
    store.close()


@pytest.mark.postgres
def test_nobody_notes_an_effect_as_done_between_the_look_at_it_and_its_take_over(
    postgres_store_url: str, clock: ManualClock
) -> None:
    store = open_store(postgres_store_url, clock=clock)
    job = make_job(store)
    begin(store, job)
    claim_again(store)
    tried: list[str] = []

    def meanwhile(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE effects") and not tried:
            tried.append(statement)
            with pytest.raises(StoreLocked):
                note_impatiently(store, job)

    event.listen(store.engine, "before_cursor_execute", meanwhile)
    found = begin(store, job, fence=2)
    store.close()

    assert tried
    assert isinstance(found, Unfinished)
