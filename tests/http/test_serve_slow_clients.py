"""Clients that send nothing, or slowly, or do not read: others are answered all the same."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pytest

from aijobs.http.serve import Bounds
from aijobs.store.engine import Store
from tests.support.serving import TOKEN, Served, serving
from tests.support.wait import eventually

FEW = Bounds(connections=20, read=0.2)
_ESTABLISHED = 1


@pytest.fixture
def narrow(store: Store) -> Iterator[Served]:
    with serving(store, bounds=FEW) as served:
        yield served


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /readyz HTTP/1.1\r\nHos",
        b"POST /webhooks/p HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
    ],
    ids=["silent", "half a header", "half a body"],
)
def test_clients_that_keep_us_waiting_keep_no_request_out(narrow: Served, begun: bytes) -> None:
    with ExitStack() as open_ones:
        for _ in range(3 * FEW.connections):
            client = open_ones.enter_context(socket.create_connection(("127.0.0.1", narrow.port)))
            client.sendall(begun)
        statuses = [httpx.get(f"{narrow.url}/readyz", trust_env=False).status_code for _ in range(5)]

    assert statuses == [200] * 5


def test_the_one_that_goes_is_the_one_that_kept_us_waiting_longest(narrow: Served) -> None:
    with ExitStack() as open_ones:
        clients = [
            open_ones.enter_context(socket.create_connection(("127.0.0.1", narrow.port)))
            for _ in range(FEW.connections + 2)
        ]
        eventually(lambda: [_is_open(client) for client in clients].count(False) == 2, timeout=5)
        clients[2].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = clients[2].recv(100)

    assert answer.startswith(b"HTTP/1.1 200 ")


def test_only_when_every_connection_is_being_served_one_more_is_told_to_wait(store: Store) -> None:
    with serving(store, bounds=Bounds(connections=2)) as served, ExitStack() as open_ones:
        job_id = served.http.post("/jobs", json={"type": "t", "input": {}}).json()["id"]
        for _ in range(2):
            client = open_ones.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            asked = f"GET /jobs/{job_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            client.sendall(asked.encode())
            client.recv(100)
        answer = httpx.get(f"{served.url}/readyz", trust_env=False)

    assert answer.status_code == 503


def test_a_client_that_does_not_read_its_answers_is_hung_up_on(narrow: Served) -> None:
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", narrow.port))
        client.setblocking(False)
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 600
        client.send(asked)

        eventually(lambda: not _is_open(client), timeout=20)


def test_a_client_that_reads_slowly_but_does_gets_all_of_its_answer(narrow: Served) -> None:
    with closing(socket.create_connection(("127.0.0.1", narrow.port))) as client:
        client.settimeout(10)
        client.sendall(
            b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 40
            + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        received = b""
        while chunk := client.recv(20_000):
            received += chunk

    assert received.count(b"HTTP/1.1 200 OK") == 41


def test_a_request_with_a_length_and_chunks_is_refused_with_whatever_hides_behind_it(narrow: Served) -> None:
    hidden = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    lengths = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"

    answer = narrow.raw(b"POST /webhooks/p HTTP/1.1\r\nHost: x\r\n" + lengths + b"\r\n0\r\n\r\n" + hidden)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


def _is_open(client: socket.socket) -> bool:
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
