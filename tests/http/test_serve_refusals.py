"""What `serve` refuses is counted, behind the answers and seldom, and at the latest when it stops."""

from typing import Any

import pytest

from aijobs.core.errors import StoreUnreachable
from aijobs.core.log_events import LogEvent
from aijobs.core.totals import REFUSALS
from aijobs.http.serve import Bounds
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
    monkeypatch.setattr(Refusals, "write", lambda self: (writes.append(self.pending), write(self)))
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
