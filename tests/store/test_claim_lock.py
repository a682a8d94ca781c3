"""What a process has locked on PostgreSQL when it is stopped does not keep the others from claiming."""

import threading
from collections.abc import Callable
from contextlib import closing

import pytest
from sqlalchemy import create_engine, make_url

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreError
from aijobs.core.lifecycle import Succeeded
from aijobs.services.coordinator import Coordinator
from aijobs.store import claims, postgresql
from aijobs.store.engine import Store, Tx, open_store
from tests.support.clock import ManualClock
from tests.support.jobs import claim_one, claim_some, ended, new_job, settings_of

pytestmark = pytest.mark.postgres


def stopped(store: Store, work: Callable[[Tx], None], other: Callable[[], object]) -> None:
    """The process is stopped after *work*, until *other* is done elsewhere, and then goes on."""
    done = threading.Event()

    def run() -> None:
        other()
        done.set()

    thread = threading.Thread(target=run)

    def hold_and_say_nothing() -> None:
        with store.write() as tx:
            work(tx)
            thread.start()
            assert done.wait(20)
            claims.promote(tx, store.clock.now(), 1)

    with pytest.raises(StoreError):
        hold_and_say_nothing()
    thread.join(20)


def test_a_claimer_that_was_stopped_in_its_transaction_loses_the_lock(
    postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "LONGEST_PAUSE", "200ms")

    def claim_too() -> None:
        with closing(open_store(postgres_store_url)) as other, other.write() as tx:
            claims.lock(tx)

    with closing(open_store(postgres_store_url)) as store:
        stopped(store, claims.lock, claim_too)
        with store.write() as again:
            claims.lock(again)


def test_a_worker_that_was_stopped_while_it_wrote_ends_keeps_nobody_from_claiming(
    postgres_store_url: str, monkeypatch: pytest.MonkeyPatch, clock: ManualClock, chance: Chance
) -> None:
    monkeypatch.setattr(postgresql, "LONGEST_PAUSE", "200ms")
    found: list[int] = []

    with closing(open_store(postgres_store_url, clock=clock)) as store:
        coordinator = Coordinator(store, settings_of(), chance=chance)
        coordinator.enqueue_many([new_job({"n": n}) for n in range(2)], actor="test")
        end = ended(claim_one(coordinator), Succeeded(result="1"))

        def finish(tx: Tx) -> None:  # what it counts in, the next claim counts in too
            coordinator._machinery.finishing.finish(tx, [end], clock.now())

        stopped(store, finish, lambda: found.append(len(claim_some(coordinator))))

    assert found == [1]


def test_an_import_may_compute_for_as_long_as_it_takes(
    postgres_store_url: str, monkeypatch: pytest.MonkeyPatch, chance: Chance
) -> None:
    monkeypatch.setattr(postgresql, "LONGEST_PAUSE", "1ms")

    with closing(open_store(postgres_store_url)) as store:
        coordinator = Coordinator(store, settings_of(), chance=chance)
        jobs = [new_job({"n": n}, key=f"k{n % 999}") for n in range(1000)]  # one by one: a key is there twice
        assert len(coordinator.enqueue_many(jobs, actor="test", keep_going=True)) == 1000


def test_a_transaction_of_ours_that_writes_is_bounded_and_nobody_elses(
    postgres_store_url: str, chance: Chance
) -> None:
    def bound() -> str:
        return str(tx.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one())

    with closing(open_store(postgres_store_url)) as store:
        coordinator = Coordinator(store, settings_of(), chance=chance)
        url = make_url(store.url).set(drivername="postgresql+psycopg")
        callers = create_engine(url)
        bounds = {}
        with store.write() as tx:
            bounds["write"] = bound()
        with store.read() as tx:
            bounds["read"] = bound()
        with store.at_once() as tx:
            bounds["the session afterwards"] = bound()
        with callers.begin() as tx:
            coordinator.enqueue_in(tx, [new_job()], actor="test")
            bounds["the caller's own"] = bound()
        callers.dispose()

    assert bounds == {"write": "30s", "read": "0", "the session afterwards": "0", "the caller's own": "0"}
