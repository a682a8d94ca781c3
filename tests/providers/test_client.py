"""The client: one total limit, faults instead of exceptions, nothing kept between calls."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import httpx
import pytest

from aijobs import __version__
from aijobs.core.classifier import FaultKind, TransportFault
from aijobs.core.clock import SystemClock
from aijobs.core.model import Phase
from aijobs.providers.client import Client, Outgoing, Response
from tests.support import hostile as peers
from tests.support.clock import ManualClock
from tests.support.hostile import hostile

T = TypeVar("T")
LONG = timedelta(seconds=20)


def with_client(do: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        client = Client(clock=SystemClock())
        try:
            return await do(client)
        finally:
            await client.close()

    return asyncio.run(run())


def send(url: str, *, deadline: timedelta = LONG, **request: Any) -> Response | TransportFault:
    outgoing = Outgoing(method="POST", url=url, **{"body": "{}", **request})
    return with_client(lambda client: client.send(outgoing, deadline=deadline))


def fault_of(answer: Response | TransportFault) -> tuple[FaultKind, Phase]:
    assert isinstance(answer, TransportFault)
    return answer.kind, answer.phase


def test_a_response_comes_back_whole_whatever_its_status() -> None:
    raw = peers.canned({"a": 1}, status="418 I'm a teapot", headers=("X-Twice: 1", "X-Twice: 2", "X-Empty:"))
    with hostile(peers.answers(raw)) as server:
        answer = send(server.url)

    assert isinstance(answer, Response)
    assert (answer.status, answer.body, answer.phase) == (418, b'{"a": 1}', Phase.BODY)
    assert [value for name, value in answer.headers if name == "x-twice"] == ["1", "2"]
    assert answer.header("x-empty", "x-twice") == "1"
    assert answer.header("x-none") is None
    assert answer.elapsed_seconds >= 0


def test_a_request_says_who_sends_it_and_what_it_can_read() -> None:
    with hostile(peers.answers_json({})) as server:
        send(server.url, headers={"X-Own": "1"}, body='{"é":1}')

        assert server.header("user-agent") == f"aijobs/{__version__}"
        assert server.header("accept") == "application/json"
        assert server.header("accept-encoding") == "gzip, deflate"
        assert server.header("content-type") == "application/json"
        assert server.header("x-own") == "1"
        assert server.body() == {"é": 1}


def test_credentials_in_the_address_go_out_as_a_header_and_not_in_the_request_line() -> None:
    with hostile(peers.answers_json({})) as server:
        send(server.url.replace("://", "://me:p%40ss@"), headers={"authorization": "Bearer other"})

        assert server.header("authorization") == "Basic bWU6cEBzcw=="
        assert b"me:" not in server.requests[0]


def test_a_request_without_a_body_says_nothing_of_its_type() -> None:
    with hostile(peers.answers_json({})) as server:
        send(server.url, body=None)

        assert server.header("content-type") is None
        assert server.requests[0].endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("behaviour", "phase"),
    [
        (peers.hangs_before_headers, Phase.SENT),
        (peers.hangs_in_body, Phase.BODY),
        (peers.drips, Phase.BODY),
    ],
)
def test_the_total_limit_ends_every_sort_of_waiting_and_tells_how_far_it_got(
    behaviour: peers.Behaviour, phase: Phase
) -> None:
    with hostile(behaviour) as server:
        answer = send(server.url, deadline=timedelta(seconds=0.3))

        assert len(server.requests) == 1
    assert fault_of(answer) == (FaultKind.TOTAL_DEADLINE, phase)


def test_no_time_left_means_that_nothing_is_sent() -> None:
    with hostile(peers.answers_json({})) as server:
        answer = send(server.url, deadline=timedelta(0))

        assert server.requests == []
    assert fault_of(answer) == (FaultKind.TOTAL_DEADLINE, Phase.PREPARING)


def test_the_total_limit_may_end_before_there_is_a_connection() -> None:
    with peers.unanswered_port() as port:
        answer = send(f"http://127.0.0.1:{port}", deadline=timedelta(seconds=0.2))

    assert fault_of(answer) == (FaultKind.TOTAL_DEADLINE, Phase.CONNECTING)


def test_the_limit_on_connecting_is_apart() -> None:
    with peers.unanswered_port() as port:
        answer = send(f"http://127.0.0.1:{port}", connect_timeout=timedelta(seconds=0.2))

    assert fault_of(answer) == (FaultKind.CONNECT_TIMEOUT, Phase.CONNECTING)


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (peers.reads_and_closes, FaultKind.REMOTE_PROTOCOL),
        (peers.reads_and_resets, FaultKind.READ_ERROR),
        (peers.cuts_chunks, FaultKind.REMOTE_PROTOCOL),
        (peers.answers(peers.gzipped(b"{}", spoil=True)), FaultKind.DECODING),
        (peers.answers(peers.gzipped(b'{"text":"hello"}', cut=5)), FaultKind.DECODING),
    ],
)
def test_a_broken_answer_is_a_fault_after_the_request_was_sent(
    behaviour: peers.Behaviour, kind: FaultKind
) -> None:
    with hostile(behaviour) as server:
        answer = send(server.url)

        assert len(server.requests) == 1
    found, phase = fault_of(answer)
    assert found is kind
    assert phase.maybe_billed


def test_a_refused_connection_is_a_fault_before_anything_was_sent() -> None:
    answer = send(f"http://127.0.0.1:{peers.closed_port()}")

    assert fault_of(answer) == (FaultKind.CONNECT_ERROR, Phase.CONNECTING)


def test_tls_that_cannot_work_is_a_matter_of_configuration() -> None:
    with hostile(peers.speaks_plainly) as plain, hostile(peers.answers_json({}), tls=True) as unknown:
        to_plain = send(f"https://127.0.0.1:{plain.port}")
        to_unknown = send(unknown.url)

    assert fault_of(to_plain) == (FaultKind.TLS_CONFIG, Phase.CONNECTING)
    assert fault_of(to_unknown) == (FaultKind.TLS_CONFIG, Phase.CONNECTING)


def test_a_tls_handshake_that_is_only_broken_off_is_not() -> None:
    with hostile(peers.accepts_and_closes) as server:
        answer = send(f"https://127.0.0.1:{server.port}")

    assert fault_of(answer) == (FaultKind.CONNECT_ERROR, Phase.CONNECTING)


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        ({"url": "ftp://127.0.0.1"}, FaultKind.UNSUPPORTED_PROTOCOL),
        ({"url": "http://[::1"}, FaultKind.INVALID_URL),
        ({"url": "http://127.0.0.1:99999999"}, FaultKind.LOCAL_PROTOCOL),
        ({"headers": {"X": "a\r\nb"}}, FaultKind.LOCAL_PROTOCOL),
        ({"headers": {"X": "é"}}, FaultKind.LOCAL_PROTOCOL),
        ({"body": '"\ud800"'}, FaultKind.LOCAL_PROTOCOL),
        ({"method": 3}, FaultKind.UNEXPECTED),
    ],
)
def test_a_request_that_cannot_be_made_is_a_fault_while_preparing(
    request_: dict[str, Any], kind: FaultKind
) -> None:
    outgoing = Outgoing(**{"method": "POST", "url": "http://127.0.0.1", "body": "{}", **request_})

    answer = with_client(lambda client: client.send(outgoing, deadline=LONG))

    assert fault_of(answer) == (kind, Phase.PREPARING)


def test_an_answer_above_the_cap_is_a_fault() -> None:
    with hostile(peers.answers(peers.response(b"x" * 2000), peers.gzipped(b"0" * 2000))) as server:
        answers = [send(server.url, max_response_bytes=1000) for _ in range(2)]

    assert [fault_of(answer)[0] for answer in answers] == [FaultKind.TOO_LARGE, FaultKind.TOO_LARGE]


def test_cookies_are_not_kept() -> None:
    async def do(client: Client, url: str) -> None:
        for _ in range(2):
            await client.send(Outgoing(method="GET", url=url), deadline=LONG)

    with hostile(peers.answers_json({}, headers=("Set-Cookie: a=b; Path=/",))) as server:
        with_client(lambda client: do(client, server.url.replace("127.0.0.1", "localhost")))

        assert len(server.requests) == 2
        assert server.header("cookie") is None


def test_a_cancelled_call_is_cancelled() -> None:
    async def do(client: Client, server: peers.Hostile) -> None:
        task = asyncio.create_task(
            client.send(Outgoing(method="POST", url=server.url, body="{}"), deadline=LONG)
        )
        await asyncio.to_thread(peers.wait_for_requests, server, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with hostile(peers.hangs_before_headers) as server:
        with_client(lambda client: do(client, server))


def test_the_time_a_call_took_is_read_from_the_clock() -> None:
    clock = ManualClock()

    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            clock.advance(seconds=1.5)
            return httpx.Response(200, content=b"{}")

    async def run() -> Response | TransportFault:
        client = Client(clock=clock, transport=Slow())
        answer = await client.send(Outgoing(method="POST", url="http://a.example", body="{}"), deadline=LONG)
        await client.close()
        return answer

    answer = asyncio.run(run())

    assert isinstance(answer, Response)
    assert answer.elapsed_seconds == 1.5


def test_a_proxy_in_the_environment_is_used_and_loopback_is_not_sent_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with hostile(peers.answers_json({"from": "proxy"})) as proxy, hostile(peers.answers_json({})) as server:
        for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.url)

        send("http://provider.invalid/v1")
        send(server.url)

        assert len(proxy.requests) == 1
        assert len(server.requests) == 1
