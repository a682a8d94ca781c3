"""Webhooks that are written together: each has its own answer, after its commit, whatever befalls others."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest

from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.http.serve import Bounds
from aijobs.http.serve.group_commit import GroupCommit
from aijobs.http.serve.threads import Threads
from aijobs.services.webhooks import Webhooks
from aijobs.store import deliveries
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Store
from tests.support.kept import count_unmatched
from tests.support.serving import SECRET, Served, body_of, serving
from tests.support.wait import eventually

KEY = decode_key(SECRET)


class Held:
    """The first transaction that writes deliveries waits for `let_go`; others go through at once."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.written: list[list[str]] = []
        self.let_go = threading.Event()
        self._read = 0
        record, read = deliveries.record, Webhooks.read

        def holding(tx: Any, found: Sequence[Delivery]) -> Any:
            ids = sorted(one.delivery_id for one in found)
            self.written.append(ids)
            if len(self.written) == 1:
                self.let_go.wait(20)
            if "wh_bad" in ids:
                raise ValueError("a text that no database takes")
            return record(tx, found)

        def counted(*given: Any) -> Delivery:
            self._read += 1
            return read(*given)

        patch.setattr(deliveries, "record", holding)
        patch.setattr(Webhooks, "read", counted)

    def wait_for(self, count: int) -> None:
        """Until *count* deliveries wait or are being written."""
        eventually(lambda: self._read >= count and self.written)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    one = Held(monkeypatch)
    yield one
    one.let_go.set()


@contextmanager
def sending(served: Served, held: Held, *names: str) -> Iterator[list[Future[httpx.Response]]]:
    """One delivery is being written, and those called *names* have come meanwhile."""
    with ThreadPoolExecutor(len(names) + 1) as pool:
        first = pool.submit(served.deliver, name="wh_first")
        held.wait_for(1)
        sent = [pool.submit(served.deliver, name=name) for name in names]
        held.wait_for(len(names) + 1)
        try:
            yield [first, *sent]
        finally:
            held.let_go.set()


def outcomes(sent: Sequence[Future[httpx.Response]]) -> list[str]:
    answers = [one.result() for one in sent]
    return sorted(
        str(one.json()["outcome"]) if one.status_code == 200 else f"HTTP {one.status_code}" for one in answers
    )


def test_what_comes_while_one_is_written_is_written_together_and_of_copies_one_counts(
    store: Store, held: Held
) -> None:
    with serving(store) as served, sending(served, held, "wh_1", "wh_1", "wh_1", "wh_2") as sent:
        answered = [one.done() for one in sent]
        held.let_go.set()

        assert outcomes(sent) == ["duplicate"] * 2 + ["unmatched"] * 3

    assert answered == [False] * 5
    assert held.written == [["wh_first"], ["wh_1", "wh_2"]]


def test_one_that_cannot_be_written_fails_alone(store: Store, held: Held) -> None:
    with serving(store) as served, sending(served, held, "wh_1", "wh_bad", "wh_2") as sent:
        held.let_go.set()

        assert outcomes(sent) == ["HTTP 500"] + ["unmatched"] * 3

    with store.read() as tx:
        assert count_unmatched(tx) == 3


def test_one_more_than_may_wait_is_to_come_again(store: Store, held: Held) -> None:
    bounds = Bounds(deliveries=2)
    with serving(store, bounds=bounds) as served, sending(served, held, "wh_1", "wh_2") as sent:
        refused = served.deliver(name="wh_3")
        held.let_go.set()

        assert outcomes(sent) == ["unmatched"] * 3
        assert served.deliver(name="wh_3").json() == {"outcome": "unmatched"}

    assert (refused.status_code, int(refused.headers["retry-after"])) == (503, 5)


def test_who_waits_no_longer_while_the_store_hangs_is_dropped_and_later_ones_are_written() -> None:
    written: list[list[Any]] = []
    go_on = threading.Event()

    def write(found: Sequence[Any]) -> Sequence[Any]:
        written.append(list(found))
        go_on.wait(20)
        return found

    async def run() -> list[Any]:
        threads = Threads(1, patience=20)
        line = GroupCommit(write, threads, most=9, patience=20)
        for lost in ("first", "second"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(line.add(lost), 0.05)
        go_on.set()
        found = await asyncio.gather(line.add("third"), line.add("fourth"))
        threads.close(timeout=5)
        return found

    assert asyncio.run(run()) == ["third", "fourth"]
    assert written == [["first"], ["third", "fourth"]]


def test_a_sender_that_hangs_up_harms_nobody(store: Store, held: Held) -> None:
    with serving(store) as served, sending(served, held, "wh_1") as sent:
        with socket.create_connection(("127.0.0.1", served.port)) as leaving:
            leaving.sendall(request("wh_gone", served.clock.now()))
            held.wait_for(3)
        held.let_go.set()

        assert outcomes(sent) == ["unmatched"] * 2
        assert served.deliver(name="wh_gone").json() == {"outcome": "duplicate"}


def request(name: str, now: datetime) -> bytes:
    body = body_of()
    fields = {"host": "x", "content-length": str(len(body))} | sign(name, body, keys=[KEY], now=now)
    lines = "".join(f"{field}: {value}\r\n" for field, value in fields.items())
    return f"POST /webhooks/p HTTP/1.1\r\n{lines}\r\n".encode() + body
