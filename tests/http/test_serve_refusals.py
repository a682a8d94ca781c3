"""What `serve` refuses is counted, behind the answers and seldom, and at the latest when it stops."""

import threading
from typing import Any

import pytest

from aijobs.core.errors import StoreLocked, StoreUnreachable
from aijobs.core.log_events import LogEvent
from aijobs.core.totals import REFUSALS
from aijobs.http.serve import Bounds
from aijobs.http.serve.late_notes import LateNotes
from aijobs.http.serve.threads import Threads
from aijobs.services.refusals import Refusals
from aijobs.store import refusals, rollups
from aijobs.store.engine import Store
from tests.support.serving import serving
from tests.support.wait import eventually

BAD = {"webhook-signature": "v1,AAAA"}
NEVER = Bounds(refusals=3600)


def counted(store: Store) -> dict[str, float]:
    """What was refused, by the labels of its total."""
    with store.read() as tx:
        return {labels: value for (metric, labels), value in rollups.sums(tx).items() if metric == REFUSALS}


def test_the_first_is_written_at_once_and_all_the_others_together_when_the_server_stops(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    write = Refusals.write
    monkeypatch.setattr(
        Refusals, "write", lambda self, **how: writes.append(self.pending) or write(self, **how)
    )
    with serving(store, bounds=NEVER) as served:
        served.deliver(headers=BAD)
        first = eventually(lambda: counted(store))
        for _ in range(20):
            served.deliver(headers=BAD)
        served.http.post("/webhooks/p", content=b"{}")
        served.deliver(b"x", headers={"content-encoding": "gzip"})
        served.http.post("/webhooks/nobody", content=b"{}")
        meanwhile = counted(store)

    assert first == meanwhile == {'{"provider":"p","reason":"bad_signature"}': 1}
    assert counted(store) == {
        '{"provider":"p","reason":"bad_signature"}': 21,
        '{"provider":"p","reason":"malformed"}': 2,
        '{"provider":"other","reason":"no_secret"}': 1,
    }
    assert writes == [1, 23]


def test_a_store_that_is_away_is_said_once_and_changes_no_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def away(*_: object) -> Any:
        tries.append(1)
        raise StoreUnreachable("postgresql://user@host is away")

    monkeypatch.setattr(refusals, "add", away)
    with serving(store, bounds=Bounds(refusals=0.01)) as served:
        statuses = {served.deliver(headers=BAD).status_code for _ in range(5)}
        eventually(lambda: len(tries) > 2)
        monkeypatch.undo()
        eventually(lambda: sum(counted(store).values()) == 5)
        said = served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED)

    assert statuses == {401}
    assert [one["error"] for one in said] == ["StoreUnreachable"]


def test_what_cannot_be_written_at_the_stop_either_is_said(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise ValueError("a defect")

    monkeypatch.setattr(refusals, "add", broken)
    with serving(store, bounds=NEVER) as served:
        served.deliver(headers=BAD)
        eventually(lambda: served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED))
        served.deliver(headers=BAD)

    said = served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED)
    assert said == [{"count": 1, "error": "ValueError"}, {"count": 2, "error": "ValueError"}]


def test_writes_that_outlast_our_patience_are_one_outage_and_lose_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = [threading.Event(), threading.Event()]
    began: list[int] = []
    skipped: list[int] = []
    add, write = refusals.add, Refusals.write

    def locked(*given: Any) -> None:
        began.append(1)
        number = len(began)
        assert number > 2 or freed[number - 1].wait(10)
        add(*given)

    def noted(self: Refusals, **how: Any) -> bool:
        done = write(self, **how)
        if not done:
            skipped.append(1)
        return done

    monkeypatch.setattr(refusals, "add", locked)
    monkeypatch.setattr(Refusals, "write", noted)
    with serving(store, bounds=Bounds(store=0.05, refusals=0.01)) as served:
        served.deliver(headers=BAD)
        for one in freed:  # either ends when nobody waits for it any more, and others found it at work
            eventually(lambda: skipped)
            served.deliver(headers=BAD)
            one.set()
            skipped.clear()
        eventually(lambda: sum(counted(store).values()) == 3)
        said = served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED)

    assert said == [{"count": 1, "error": "StoreLocked"}]


def test_an_outage_is_over_when_a_write_that_was_given_up_did_it_after_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, write_on = Refusals.write, LateNotes._write_on
    tried: list[Refusals] = []
    ended: list[int] = []

    def away(self: Refusals, **_: object) -> bool:
        tried.append(self)
        raise StoreLocked("locked")

    async def to_the_end(self: LateNotes) -> None:
        await write_on(self)
        ended.append(1)

    monkeypatch.setattr(Refusals, "write", away)
    monkeypatch.setattr(LateNotes, "_write_on", to_the_end)
    with serving(store, bounds=Bounds(refusals=0.01)) as served:
        served.deliver(headers=BAD)
        eventually(lambda: served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED))
        write(tried[0])
        eventually(lambda: ended)
        served.deliver(headers=BAD)
        eventually(lambda: len(served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED)) == 2)


def test_all_that_a_write_under_way_keeps_waiting_at_the_stop_is_said(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed, close = threading.Event(), Threads.close
    monkeypatch.setattr(refusals, "add", lambda *_: freed.wait(10))
    monkeypatch.setattr(Threads, "close", lambda self, **how: freed.set() or close(self, **how))
    with serving(store, bounds=Bounds(store=0.05, refusals=3600)) as served:
        served.deliver(headers=BAD)
        eventually(lambda: served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED))
        served.deliver(headers=BAD)
        served.deliver(headers=BAD)

    assert [one["count"] for one in served.log.fields_of(LogEvent.REFUSALS_NOT_SAVED)] == [1, 3]
