"""What is broken is really broken on the wire: seen with bare sockets, byte for byte."""

import gzip
import json
import socket
import zlib

import httpx
import pytest

from aijobs.http.simulator import RunningSimulator
from tests.support.asking import response
from tests.support.rawhttp import exchange, read_to_end, request
from tests.support.wait import eventually


def test_a_good_answer_is_whole_and_keeps_the_connection(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "ok")

    assert seen.ending == "open"
    assert len(seen.body) == int(seen.head["content-length"])
    assert json.loads(seen.body)["status"] == "completed"


def test_closing_before_the_headers_sends_nothing(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "close_before_headers")

    assert (seen.received, seen.ending) == (b"", "closed")


def test_a_reset_is_a_reset(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "rst")

    assert (seen.received, seen.ending) == (b"", "reset")


def test_a_reset_for_a_caller_who_has_left_already_is_no_error(
    simulator: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    simulator.set_latency(0.3)

    with socket.create_connection(("127.0.0.1", simulator.port)) as connection:
        connection.sendall(request("rst", "/v1/responses"))
        eventually(lambda: simulator.asked())
    eventually(lambda: simulator.calls()[0].finished_at)

    assert [record.getMessage() for record in caplog.records] == []


def test_bytes_that_are_no_http_are_sent_and_the_connection_closed(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "not_http")

    assert not seen.received.startswith(b"HTTP/")
    assert len(seen.received) > 0
    assert seen.ending == "closed"


def test_a_short_body_ends_before_its_announced_length(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "short_body")

    assert seen.received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert len(seen.body) == int(seen.head["content-length"]) - 100
    assert seen.ending == "closed"


def test_a_cut_chunked_body_lacks_its_last_chunk(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "chunked_cut")

    assert seen.head["transfer-encoding"] == "chunked"
    assert "content-length" not in seen.head
    assert not seen.body.endswith(b"0\r\n\r\n")
    assert seen.ending == "closed"


def test_a_hang_before_the_headers_sends_nothing_and_keeps_the_line_open(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "header_hang")

    assert (seen.received, seen.ending) == (b"", "open")


def test_a_hang_with_a_number_ends_after_so_many_seconds(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "header_hang=0.05", patience=5)

    assert (seen.received, seen.ending) == (b"", "closed")


def test_a_hanging_call_is_over_when_its_caller_leaves(simulator: RunningSimulator) -> None:
    exchange(simulator, "timeout", patience=0.05)

    (call,) = simulator.calls()
    assert eventually(lambda: call.finished_at)
    assert call.status is None


def test_a_hang_in_the_body_stops_half_way(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "body_hang")

    assert 0 < len(seen.body) < int(seen.head["content-length"])
    assert seen.ending == "open"


def test_truncated_gzip_has_the_right_length_and_the_wrong_content(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "gzip_truncated")

    assert seen.head["content-encoding"] == "gzip"
    assert len(seen.body) == int(seen.head["content-length"])
    assert 0 < len(zlib.decompressobj(31).decompress(seen.body)) < 900
    with pytest.raises(EOFError):
        gzip.decompress(seen.body)


def test_bad_gzip_is_not_compressed_at_all(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "gzip_bad")

    assert seen.head["content-encoding"] == "gzip"
    assert json.loads(seen.body)["status"] == "completed"


def test_a_drip_arrives_byte_by_byte_and_whole(simulator: RunningSimulator) -> None:
    with socket.create_connection(("127.0.0.1", simulator.port)) as connection:
        connection.settimeout(5)
        connection.sendall(request("drip=0.001"))
        reads = [connection.recv(65536) for _ in range(5)]
        connection.settimeout(0.3)
        rest = read_to_end(connection)

    head, _, begun = b"".join(reads).partition(b"\r\n\r\n")
    assert b"content-length" in head
    assert len(begun) < 20
    assert json.loads(begun + rest.received)["status"] == "completed"


def test_a_kept_connection_closes_after_the_answer_without_a_word(simulator: RunningSimulator) -> None:
    seen = exchange(simulator, "close_after_reply", patience=5)

    assert "connection" not in seen.head
    assert json.loads(seen.body)["status"] == "completed"
    assert seen.ending == "closed"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("close_before_headers", httpx.RemoteProtocolError),
        ("rst", httpx.ReadError),
        ("not_http", httpx.RemoteProtocolError),
        ("short_body", httpx.RemoteProtocolError),
        ("chunked_cut", httpx.RemoteProtocolError),
        ("header_hang", httpx.ReadTimeout),
        ("body_hang", httpx.ReadTimeout),
        ("gzip_bad", httpx.DecodingError),
    ],
)
def test_a_client_sees_the_failure_it_would_see_from_a_real_server(
    simulator: RunningSimulator, fault: str, error: type[httpx.HTTPError]
) -> None:
    with httpx.Client(base_url=simulator.url, timeout=0.3, trust_env=False) as http, pytest.raises(error):
        response(http, fault=fault)


@pytest.mark.parametrize("fault", ["poll_rst", "poll_close_before_headers", "poll_header_hang"])
def test_the_question_about_background_work_breaks_as_well(simulator: RunningSimulator, fault: str) -> None:
    with httpx.Client(base_url=simulator.url, timeout=0.3, trust_env=False) as http:
        begun = response(http, background=True, fault=f"{fault}x1").json()
        with pytest.raises(httpx.TransportError):
            http.get(f"/v1/responses/{begun['id']}")

        assert http.get(f"/v1/responses/{begun['id']}").json()["status"] == "completed"


def test_a_broken_answer_was_still_paid_for(simulator: RunningSimulator) -> None:
    exchange(simulator, "rst")

    (call,) = simulator.calls()
    assert (call.status, call.billed, call.fault) == (None, True, "rst")


def test_the_server_goes_on_after_every_kind_of_break(simulator: RunningSimulator) -> None:
    for fault in ("rst", "not_http", "short_body", "chunked_cut", "close_before_headers", "body_hang"):
        exchange(simulator, fault, patience=0.05)

    assert exchange(simulator, "ok").ending == "open"
