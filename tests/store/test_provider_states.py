"""Why a breaker opened: found by the instant, however much has been written down since."""

import re
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert

from aijobs.core.model import Event
from aijobs.store import history, provider_states
from aijobs.store.engine import Store, Tx, open_store
from aijobs.store.tables import events
from tests.support.clock import START, ManualClock

CROWD = 2100
OPENED = START - timedelta(hours=1)


def said(store: Store, what: str, at: datetime, provider: str = "p") -> None:
    detail: dict[str, object] = {"provider": provider, "what": what}
    with store.write() as tx:
        history.add_events(tx, [Event(kind="provider", actor="system", at=at, detail=detail)])


def why(store: Store, until: datetime, provider: str = "p") -> str | None:
    with store.read() as tx:
        return provider_states.why_opened(tx, provider, until)


def crowd(store: Store, began: datetime) -> None:
    """Events of no job, one a second: more than are looked through."""
    rows = [
        {"at": began + timedelta(seconds=n), "kind": "schedule_skipped", "actor": "system"}
        for n in range(CROWD)
    ]
    with store.write() as tx:
        tx.execute(insert(events), rows)


def test_an_open_breaker_keeps_its_reason_whatever_happened_before_and_since(store: Store) -> None:
    crowd(store, START - timedelta(days=1))
    said(store, "breaker opened: 5 failures", OPENED)
    said(store, "breaker opened: of another", OPENED, provider="p2")
    said(store, "paused: too fast", OPENED + timedelta(seconds=1))
    crowd(store, OPENED + timedelta(seconds=1))
    said(store, "breaker opened: much later", START + timedelta(days=1))

    assert why(store, OPENED) == "5 failures"
    assert why(store, OPENED + timedelta(minutes=1)) == "5 failures"
    assert why(store, OPENED, "p2") == "of another"
    assert why(store, START) is None  # from where it stands otherwise, the look back has an end


@pytest.mark.parametrize("end", ["breaker closed: the slow start is over", "reset"])
def test_a_slow_start_after_a_hold_is_not_put_down_to_an_outage_that_was_over(store: Store, end: str) -> None:
    said(store, "breaker opened: 5 failures", OPENED)
    said(store, end, OPENED + timedelta(seconds=40))
    said(store, "held: the quota is used up", OPENED + timedelta(seconds=50))
    said(store, "slow start: a probe succeeded", START)

    assert why(store, START) is None
    assert why(store, OPENED + timedelta(seconds=39)) == "5 failures"


@pytest.mark.postgres
def test_postgresql_reads_little_for_it(postgres_store_url: str, clock: ManualClock) -> None:
    with closing(open_store(postgres_store_url, clock=clock)) as store:
        crowd(store, START - timedelta(days=1))
        said(store, "breaker opened: 5 failures", OPENED)
        with store.write() as tx:
            tx.exec_driver_sql("ANALYZE events")
        plans: list[str] = []

        def note(tx: Tx, _: object, statement: str, values: Any, *__: object) -> None:
            cursor = tx.connection.driver_connection.cursor()  # type: ignore[union-attr]
            plans.extend(row[0] for row in cursor.execute(f"EXPLAIN ANALYZE {statement}", values).fetchall())

        event.listen(store.engine, "before_cursor_execute", note)
        why(store, OPENED)

    (scan,) = [step for step in plans if "Scan Backward using ix_events_of_none" in step]
    assert re.search(r"rows=1(\.00)? loops", scan)
