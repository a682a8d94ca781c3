"""Webhooks over HTTP: what is refused and how, what is taken, and that nothing is promised too early."""

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from standardwebhooks import Webhook

from aijobs.core.errors import StoreUnreachable
from aijobs.core.log_events import LogEvent
from aijobs.core.signature import sign
from aijobs.http.serve import Bounds
from aijobs.services.webhooks import LONGEST_BODY
from aijobs.store import deliveries
from aijobs.store.engine import Store, open_store
from tests.support.clock import ManualClock
from tests.support.kept import count_unmatched
from tests.support.postgres import restartable_server
from tests.support.serving import SECRET, Served, body_of, serving
from tests.support.wait import eventually

BOUNDS = Bounds(body=0.5, head=0.5, store=1.0)
REFUSED = {"error": {"kind": "unauthorized", "message": "the delivery could not be verified"}}


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    with serving(store, bounds=BOUNDS) as one:
        yield one


def test_a_delivery_is_written_down_before_it_is_answered(served: Served, store: Store) -> None:
    answer = served.deliver()

    assert (answer.status_code, answer.json()) == (200, {"outcome": "unmatched"})
    with store.read() as tx:
        assert count_unmatched(tx) == 1


def test_copies_and_unknown_events_are_good_too(served: Served) -> None:
    served.deliver()

    assert served.deliver().json() == {"outcome": "duplicate"}
    assert served.deliver(body_of("future.event"), name="wh_2").json() == {"outcome": "ignored"}


def test_the_reference_library_signs_for_us(served: Served, clock: ManualClock) -> None:
    body = body_of()
    signature = Webhook(SECRET).sign("wh_9", clock.now(), body.decode())

    answer = served.deliver(body, name="wh_9", headers={"webhook-signature": signature})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "signature",
    ["garbage", "v1,AAAA,v1,BBBB", "v1,", "", "v1," + "A" * 44, b"v1,\xc3\xa9", "v1,A" + " v1,A" * 6000],
)
def test_no_signature_can_hurt_and_each_is_refused_in_the_same_words(
    served: Served, signature: str | bytes
) -> None:
    answer = served.deliver(headers={"webhook-signature": signature})

    assert answer.status_code == 401
    assert answer.json() == REFUSED
    assert served.deliver().status_code == 200


def test_a_good_signature_after_a_bad_one_is_found(served: Served, clock: ManualClock) -> None:
    good = sign("wh_1", body_of(), keys=[b"0123456789abcdef0123456789abcdef"], now=clock.now())

    answer = served.deliver(
        headers={"webhook-signature": b"v1,\xc3\xa9 " + good["webhook-signature"].encode()}
    )

    assert answer.status_code == 200


def test_too_old_is_refused_in_the_same_words_and_the_log_knows_why(
    served: Served, clock: ManualClock
) -> None:
    body = body_of()
    old = sign("wh_1", body, keys=[b"0123456789abcdef0123456789abcdef"], now=clock.now() - timedelta(hours=1))

    answer = served.deliver(body, headers=old)

    assert (answer.status_code, answer.json()) == (401, REFUSED)
    (said,) = served.log.fields_of(LogEvent.DELIVERY_REFUSED)
    assert "3600 s old" in str(said["reason"])


def test_doubled_and_missing_headers_are_malformed(served: Served, clock: ManualClock) -> None:
    body = body_of()
    signed = sign("wh_1", body, keys=[b"0123456789abcdef0123456789abcdef"], now=clock.now())
    twice = [*signed.items(), ("webhook-timestamp", signed["webhook-timestamp"])]

    doubled = served.http.post("/webhooks/p", content=body, headers=twice)
    missing = served.http.post("/webhooks/p", content=body)

    assert doubled.status_code == missing.status_code == 400
    assert doubled.json() == missing.json()


def test_headers_in_capitals_are_the_same_headers(served: Served, clock: ManualClock) -> None:
    body = body_of()
    signed = sign("wh_1", body, keys=[b"0123456789abcdef0123456789abcdef"], now=clock.now())

    answer = served.http.post(
        "/webhooks/p", content=body, headers={name.upper(): value for name, value in signed.items()}
    )

    assert answer.status_code == 200


def test_a_compressed_body_is_refused_before_it_is_read(served: Served) -> None:
    packed = gzip.compress(body_of())

    assert served.deliver(packed, headers={"content-encoding": "gzip"}).status_code == 415


def test_chunks_are_taken_like_any_body(served: Served, clock: ManualClock) -> None:
    body = body_of()
    signed = sign("wh_1", body, keys=[b"0123456789abcdef0123456789abcdef"], now=clock.now())

    answer = served.http.post("/webhooks/p", content=iter([body[:7], body[7:]]), headers=signed)

    assert answer.status_code == 200


@pytest.mark.parametrize("provider", ["nobody", "bare", "p/q", "..%2fp"])
def test_who_has_no_secret_has_no_address(served: Served, provider: str) -> None:
    assert served.http.post(f"/webhooks/{provider}", content=b"{}").status_code == 404


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("HEAD", 405), ("DELETE", 405), ("PUT", 405)])
def test_other_methods_are_told_which_one(served: Served, method: str, status: int) -> None:
    answer = served.http.request(method, "/webhooks/p")

    assert (answer.status_code, answer.headers["allow"]) == (status, "POST")


# --- Size and speed -------------------------------------------------------------------------------


def head(length: int | str, path: str = "/webhooks/p") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode()


def test_an_announced_giant_is_refused_without_being_read(served: Served) -> None:
    answer = served.raw(head(50_000_000) + b"x" * 1000)

    assert answer.startswith(b"HTTP/1.1 413")


def test_a_giant_that_does_not_say_so_is_cut_off(served: Served) -> None:
    begun = b"POST /webhooks/p HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    answer = served.raw(begun + chunk * (LONGEST_BODY // 0x10000 + 1))

    assert answer.startswith(b"HTTP/1.1 413")


def test_a_body_that_is_never_whole_is_given_up_and_nobody_waits_for_it(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as slow:
        slow.sendall(head(10) + b"12345")

        assert served.deliver().status_code == 200
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_a_header_that_is_never_whole_is_hung_up_on(served: Served) -> None:
    assert served.raw(b"POST /webhooks/p HTTP/1.1\r\nhost:") == b""


def test_a_second_header_that_is_never_whole_is_hung_up_on_too(served: Served) -> None:
    answer = served.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /healthz HT")

    assert answer.count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", head("ten"), b"GET /\xff HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_http_is_refused(served: Served, junk: bytes) -> None:
    assert served.raw(junk + b"\r\n\r\n").startswith((b"HTTP/1.1 400", b""))
    assert served.deliver().status_code == 200


def test_headers_without_end_are_refused(served: Served) -> None:
    answer = served.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000)

    assert not answer.startswith(b"HTTP/1.1 200")
    assert served.deliver().status_code == 200


# --- The store ------------------------------------------------------------------------------------


def test_without_the_store_the_sender_is_asked_to_try_again_and_may(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> bool:
        raise StoreUnreachable("postgresql://user@host is away")

    monkeypatch.setattr(deliveries, "record", away)
    down = served.deliver()
    monkeypatch.undo()
    up = served.deliver()

    assert (down.status_code, up.status_code) == (503, 200)
    assert int(down.headers["retry-after"]) > 0
    assert "host" not in down.text
    assert up.json() == {"outcome": "unmatched"}  # nothing was kept of the first but in the sender's queue


def test_a_store_that_hangs_is_503_in_time_and_the_retry_is_taken_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    record = deliveries.record

    def hanging(*given: object) -> bool:
        go_on.wait(20)
        return record(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(deliveries, "record", hanging)
    slow = served.deliver()
    go_on.set()
    again = eventually(lambda: served.deliver())

    assert slow.status_code == 503
    assert again.json()["outcome"] in ("unmatched", "duplicate")  # it was given up, or had begun to commit
    assert served.deliver().json() == {"outcome": "duplicate"}


@contextmanager
def locked(store: Store) -> Iterator[None]:
    with store.write():
        yield


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_locked_file_is_503_in_time(served: Served, store: Store) -> None:
    with locked(store):
        answer = served.deliver()

    assert answer.status_code == 503
    assert eventually(lambda: served.deliver().status_code == 200)


# --- The log --------------------------------------------------------------------------------------


def test_the_log_holds_names_and_outcomes_and_nothing_else(served: Served) -> None:
    body = json.dumps({"type": "response.completed", "data": {"id": "resp_1"}, "x": "private"}).encode()

    served.deliver(body)

    (said,) = served.log.fields_of(LogEvent.DELIVERY_TAKEN)
    assert said == {
        "provider": "p",
        "event_type": "response.completed",
        "delivery_id": "wh_1",
        "job": None,
        "outcome": "unmatched",
    }


def test_a_body_that_differs_from_the_first_is_said(served: Served) -> None:
    served.deliver()
    served.deliver(body_of("response.failed"))

    assert len(served.log.fields_of(LogEvent.DELIVERY_CONTRADICTS)) == 1


@pytest.mark.postgres
def test_a_stopped_server_is_503_at_once_and_a_started_one_takes_the_retry() -> None:
    with restartable_server() as server:
        store = open_store(server.server.url, create=True)
        with serving(store) as served:
            before = served.deliver(name="wh_0").status_code
            server.stop()
            down = served.deliver()
            server.start()
            up = eventually(lambda: answer if (answer := served.deliver()).status_code != 503 else None, 20)
        store.close()

    assert (before, down.status_code) == (200, 503)
    assert down.elapsed.total_seconds() < 10  # the patience of senders
    assert up is not None
    assert up.json() == {"outcome": "unmatched"}
