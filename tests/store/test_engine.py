"""Transactions, on both databases."""

import threading
from datetime import UTC

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from aijobs.core.errors import StoreError, StoreUnreachable
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import switches
from tests.support.clock import ManualClock


def switch(store: Store, scope: str = "summary", value: str = "0") -> dict[str, object]:
    at = store.clock.now()
    return {"kind": "pause", "scope": scope, "value": value, "actor": "ann", "reason": "test", "set_at": at}


def set_switch(store: Store, scope: str = "summary", value: str = "0") -> None:
    with store.write() as tx:
        tx.execute(insert(switches), switch(store, scope, value))


def count(store: Store) -> int:
    with store.read() as tx:
        return tx.execute(select(func.count()).select_from(switches)).scalar_one()


def test_what_is_written_can_be_read_and_its_times_are_utc(store: Store, clock: ManualClock) -> None:
    set_switch(store)

    with store.read() as tx:
        (at,) = tx.execute(select(switches.c.set_at)).scalars()

    assert at == clock.now()
    assert at.tzinfo is UTC


def test_each_test_starts_with_an_empty_store(store: Store) -> None:
    assert count(store) == 0


def test_an_exception_undoes_the_whole_transaction(store: Store) -> None:
    def fail_half_way() -> None:
        with store.write() as tx:
            tx.execute(insert(switches), switch(store))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()

    assert count(store) == 0


def test_a_reading_transaction_refuses_to_write(store: Store) -> None:
    with pytest.raises(StoreUnreachable), store.read() as tx:
        tx.execute(insert(switches), switch(store))

    assert count(store) == 0


def test_a_connection_that_has_only_read_can_write_afterwards(store: Store) -> None:
    assert count(store) == 0

    set_switch(store)

    assert count(store) == 1


def test_a_reading_transaction_sees_one_moment(store: Store) -> None:
    number = select(func.count()).select_from(switches)

    with store.read() as tx:
        before = tx.execute(number).scalar_one()
        set_switch(store)
        after = tx.execute(number).scalar_one()

    assert (before, after) == (0, 0)
    assert count(store) == 1


def test_many_writers_that_read_first_lose_no_change_and_see_no_lock_error(store: Store) -> None:
    set_switch(store)
    faults: list[BaseException] = []

    def add_twenty() -> None:
        try:
            for _ in range(20):
                with store.write() as tx:
                    seen = tx.execute(select(switches.c.value).with_for_update()).scalar_one()
                    tx.execute(update(switches).values(value=str(int(seen) + 1)))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=add_twenty, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []
    with store.read() as tx:
        assert tx.execute(select(switches.c.value)).scalar_one() == "80"


def test_a_refused_change_is_our_error_and_does_not_repeat_the_data(store: Store) -> None:
    set_switch(store, "hush-hush")

    with pytest.raises(StoreError) as caught:
        set_switch(store, "hush-hush")

    assert caught.value.exit_code == 5
    assert "hush-hush" not in str(caught.value)
    cause = caught.value.__cause__
    assert isinstance(cause, IntegrityError)
    assert "hush-hush" not in str(cause).replace(str(cause.orig), "")  # the server's own words may quote it


def test_a_defect_in_our_own_code_is_not_dressed_up_as_a_store_error(store: Store) -> None:
    with pytest.raises(ValueError, match="ours"), store.write():
        raise ValueError("ours")


def test_only_an_explicit_wish_makes_a_store(database_url: str, clock: ManualClock) -> None:
    with pytest.raises(StoreUnreachable, match="no job store") as caught:
        open_store(database_url, clock=clock)

    assert caught.value.hint is not None
    assert "aijobs db upgrade" in caught.value.hint


def test_a_store_tells_whether_opening_it_made_it(database_url: str, clock: ManualClock) -> None:
    first = open_store(database_url, clock=clock, create=True)
    set_switch(first)
    second = open_store(database_url, clock=clock, create=True)
    third = open_store(database_url, clock=clock)

    assert (first.created, second.created, third.created) == (True, False, False)
    assert count(third) == 1
    for store in (first, second, third):
        store.close()


def test_several_programs_may_make_the_same_store_at_once(database_url: str) -> None:
    opened: list[Store | BaseException] = []
    start = threading.Barrier(4)

    def make() -> None:
        start.wait()
        try:
            opened.append(open_store(database_url, create=True))
        except BaseException as error:
            opened.append(error)

    threads = [threading.Thread(target=make, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [e for e in opened if isinstance(e, BaseException)] == []
    stores = [s for s in opened if isinstance(s, Store)]
    assert sorted(s.created for s in stores) == [False, False, False, True]
    for store in stores:
        store.close()


def test_a_store_may_be_used_again_after_it_was_closed(store: Store) -> None:
    store.close()

    assert count(store) == 0
