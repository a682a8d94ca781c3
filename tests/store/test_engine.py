"""Opening a store and its transactions."""

from sqlalchemy import func, insert, select

from aijobs.store.engine import Store
from aijobs.store.tables import switches

from tests.support.clock import ManualClock


def _set_switch(store: Store, scope: str) -> None:
    row = {
        "kind": "pause",
        "scope": scope,
        "value": "on",
        "actor": "ann",
        "reason": "test",
        "set_at": store.clock.now(),
    }
    with store.write() as tx:
        tx.execute(insert(switches), row)


def test_what_is_written_can_be_read(store: Store, clock: ManualClock) -> None:
    _set_switch(store, "a")

    with store.read() as tx:
        rows = tx.execute(select(switches.c.scope, switches.c.set_at)).all()

    assert [tuple(row) for row in rows] == [("a", clock.now())]


def test_each_test_starts_with_an_empty_store(store: Store) -> None:
    with store.read() as tx:
        count = tx.execute(select(func.count()).select_from(switches)).scalar_one()

    assert count == 0
