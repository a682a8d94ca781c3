"""The lock of the claim on PostgreSQL: whoever says nothing any more does not keep it."""

import threading
from contextlib import closing

import pytest

from aijobs.core.errors import StoreError
from aijobs.store import claims
from aijobs.store.engine import Store, open_store

pytestmark = pytest.mark.postgres


def test_a_claimer_that_was_stopped_in_its_transaction_loses_the_lock(
    postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "LONGEST_PAUSE", "200ms")
    claimed = threading.Event()

    def claim_too() -> None:
        with closing(open_store(postgres_store_url)) as other, other.write() as tx:
            claims.lock(tx)
            claimed.set()

    def hold_and_say_nothing(store: Store) -> None:
        with store.write() as tx:
            claims.lock(tx)
            thread.start()
            assert claimed.wait(20)
            claims.promote(tx, store.clock.now(), 1)

    thread = threading.Thread(target=claim_too)
    with closing(open_store(postgres_store_url)) as store:
        with pytest.raises(StoreError):
            hold_and_say_nothing(store)
        thread.join(20)
        with store.write() as again:
            claims.lock(again)


def test_only_the_transaction_that_claims_is_bounded(postgres_store_url: str) -> None:
    def bound() -> str:
        return str(tx.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one())

    with closing(open_store(postgres_store_url)) as store:
        with store.write() as tx:
            claims.lock(tx)
            inside = bound()
        with store.write() as tx:
            after = bound()

    assert (inside, after) == ("30s", "0")
