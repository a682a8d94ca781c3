"""Every way a peer can fail a call, on our own transport: the right httpx class and phase, sent once."""

import asyncio
import gzip
import json
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp
import httpx
import pytest
from aiohttp.http_exceptions import BadHttpMessage

from aijobs.core.model import Phase
from aijobs.providers import transport
from aijobs.providers.compression import ResponseTooLarge, decode
from aijobs.providers.proxies import Proxies
from aijobs.providers.transport import AiohttpTransport, Progress
from tests.support import hostile as peers
from tests.support.hostile import hostile

T = TypeVar("T")

NEVER_SENT = {
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
}
PATIENT = httpx.Timeout(10)
IMPATIENT = httpx.Timeout(10, read=0.2)


def with_client(do: Callable[[httpx.AsyncClient], Awaitable[T]], over: AiohttpTransport | None = None) -> T:
    async def run() -> T:
        async with httpx.AsyncClient(transport=over or AiohttpTransport()) as client:
            return await do(client)

    return asyncio.run(run())


def post(
    url: str,
    *,
    timeout: httpx.Timeout = PATIENT,
    over: AiohttpTransport | None = None,
    method: str = "POST",
    cap: int = 1_000_000,
) -> tuple[httpx.Response | httpx.RequestError, Phase]:
    """One call; its response or its error, and how far it got."""
    progress = Progress()

    async def do(client: httpx.AsyncClient) -> httpx.Response | httpx.RequestError:
        try:
            return await client.request(
                method,
                url,
                json={"a": 1},
                timeout=timeout,
                extensions={"progress": progress, "max_response_bytes": cap},
            )
        except httpx.RequestError as error:
            return error

    return with_client(do, over), progress.phase


def trusting() -> AiohttpTransport:
    return AiohttpTransport(tls=ssl.create_default_context(cafile=str(peers.CERTIFICATE)))


# --- Not sent: always safe to send again -----------------------------------------------------------


def test_a_refused_connection_is_a_connect_error_before_anything_was_sent() -> None:
    error, phase = post(f"http://127.0.0.1:{peers.closed_port()}")

    assert type(error) is httpx.ConnectError
    assert phase is Phase.CONNECTING
    assert not phase.maybe_billed


def test_an_unknown_host_is_a_connect_error_before_anything_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: object, **_kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    error, phase = post("http://nowhere.invalid")

    assert type(error) is httpx.ConnectError
    assert "Name or service not known" in str(error)
    assert phase is Phase.CONNECTING


def test_a_host_name_that_cannot_be_looked_up_is_not_sent() -> None:
    error, phase = post(f"http://{'a' * 70}.invalid")

    assert isinstance(error, (httpx.ConnectError, httpx.LocalProtocolError))
    assert not phase.maybe_billed


def test_a_connection_that_is_never_taken_is_a_connect_timeout() -> None:
    with peers.unanswered_port() as port:
        error, phase = post(f"http://127.0.0.1:{port}", timeout=httpx.Timeout(10, connect=0.2))

    assert type(error) is httpx.ConnectTimeout
    assert phase is Phase.CONNECTING


def test_a_tls_handshake_that_stalls_is_a_connect_timeout() -> None:
    with hostile(peers.hangs) as server:
        error, phase = post(f"https://127.0.0.1:{server.port}", timeout=httpx.Timeout(10, connect=0.2))

    assert type(error) is httpx.ConnectTimeout
    assert phase is Phase.CONNECTING


def test_tls_to_a_port_that_speaks_plainly_is_a_connect_error_with_the_tls_error_as_its_cause() -> None:
    with hostile(peers.speaks_plainly) as server:
        error, phase = post(f"https://127.0.0.1:{server.port}")

    assert type(error) is httpx.ConnectError
    assert "WRONG_VERSION_NUMBER" in str(error)
    assert any(isinstance(cause, ssl.SSLError) for cause in causes(error))
    assert phase is Phase.CONNECTING


def test_a_certificate_nobody_vouches_for_is_a_connect_error_with_the_verification_as_its_cause() -> None:
    with hostile(peers.answers_json({}), tls=True) as server:
        error, phase = post(server.url)

        assert server.requests == []
    assert type(error) is httpx.ConnectError
    assert any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error))
    assert phase is Phase.CONNECTING


@pytest.mark.parametrize("behaviour", [peers.accepts_and_closes, peers.resets_at_the_first_byte])
def test_a_peer_that_hangs_up_during_the_tls_handshake_got_no_request(behaviour: peers.Behaviour) -> None:
    with hostile(behaviour) as server:
        error, phase = post(f"https://127.0.0.1:{server.port}")

    assert type(error) is httpx.ConnectError
    assert phase is Phase.CONNECTING


def test_waiting_for_a_connection_of_a_full_pool_is_a_pool_timeout() -> None:
    progress = Progress()

    async def do(client: httpx.AsyncClient, server: peers.Hostile) -> None:
        first = asyncio.create_task(client.post(server.url, timeout=PATIENT))
        await asyncio.to_thread(peers.wait_for_requests, server, 1)
        with pytest.raises(httpx.PoolTimeout):
            await client.post(
                server.url, timeout=httpx.Timeout(10, connect=0.1), extensions={"progress": progress}
            )
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    with hostile(peers.hangs_before_headers) as server:
        with_client(lambda client: do(client, server), AiohttpTransport(limit=1))

        assert len(server.requests) == 1
    assert progress.phase is Phase.CONNECTING


def test_a_call_that_waited_for_a_connection_and_got_it_is_not_said_to_wait_any_longer() -> None:
    async def do(client: httpx.AsyncClient, server: peers.Hostile) -> None:
        first = asyncio.create_task(client.post(server.url))
        second = asyncio.create_task(client.post(server.url, json={"second": True}))
        assert (await first).json() == {"ok": True}
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await second

    with hostile(peers.closes_when_reused) as server:
        with_client(lambda client: do(client, server), AiohttpTransport(limit=1))

        assert server.connections == 1


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "ws://127.0.0.1/", "http:///path", "127.0.0.1/path"])
def test_a_url_that_cannot_be_called_is_refused_while_preparing(url: str) -> None:
    error, phase = post(url)

    assert type(error) is httpx.UnsupportedProtocol
    assert phase is Phase.PREPARING


def test_a_header_that_would_break_the_request_is_refused_before_it_is_sent() -> None:
    async def do(client: httpx.AsyncClient, server: peers.Hostile) -> None:
        for value in (b"a\r\nX-Smuggled: 1", b"\xff"):
            with pytest.raises(httpx.LocalProtocolError):
                await client.post(server.url, headers=[(b"X-Own", value)])

    with hostile(peers.answers_json({})) as server:
        with_client(lambda client: do(client, server))

        assert server.requests == []


# --- Sent: the outcome is unknown -------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", [peers.accepts_and_closes, peers.resets_at_the_first_byte])
def test_a_peer_that_hangs_up_at_once_may_have_got_the_request(behaviour: peers.Behaviour) -> None:
    with hostile(behaviour) as server:
        error, phase = post(server.url)

    assert isinstance(error, (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError))
    assert phase is Phase.SENT
    assert phase.maybe_billed


def test_a_peer_that_hangs_up_after_reading_the_request_is_a_protocol_error_and_maybe_billed() -> None:
    with hostile(peers.reads_and_closes) as server:
        error, phase = post(server.url)

        assert len(server.requests) == 1
    assert type(error) is httpx.RemoteProtocolError
    assert phase is Phase.SENT
    assert phase.maybe_billed


def test_a_reset_after_the_request_was_read_is_a_read_error() -> None:
    with hostile(peers.reads_and_resets) as server:
        error, phase = post(server.url)

        assert len(server.requests) == 1
    assert type(error) is httpx.ReadError
    assert phase is Phase.SENT


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: eleven\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    ],
    ids=["ssh", "tls-alert", "status", "length", "long-header"],
)
def test_bytes_that_are_not_http_are_a_protocol_error(garbage: bytes) -> None:
    with hostile(peers.answers_and_closes(garbage)) as server:
        error, phase = post(server.url)

    assert type(error) is httpx.RemoteProtocolError
    assert phase is Phase.SENT


def test_a_body_shorter_than_told_is_a_protocol_error() -> None:
    with hostile(peers.answers_and_closes(peers.response(b'{"a":', length=100))) as server:
        error, phase = post(server.url)

    assert type(error) is httpx.RemoteProtocolError
    assert phase is Phase.BODY


def test_a_chunked_body_that_is_cut_is_a_protocol_error() -> None:
    with hostile(peers.cuts_chunks) as server:
        error, phase = post(server.url)

    assert type(error) is httpx.RemoteProtocolError
    assert phase.maybe_billed


def test_a_broken_chunk_header_is_a_protocol_error() -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
    with hostile(peers.answers_and_closes(raw)) as server:
        error, phase = post(server.url)

    assert type(error) is httpx.RemoteProtocolError
    assert phase.maybe_billed


def test_a_reset_in_the_middle_of_the_body_is_a_read_error() -> None:
    with hostile(peers.resets_in_body) as server:
        error, phase = post(server.url)

    assert isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError))
    assert phase.maybe_billed


def test_silence_before_the_headers_is_a_read_timeout() -> None:
    with hostile(peers.hangs_before_headers) as server:
        error, phase = post(server.url, timeout=IMPATIENT)

    assert type(error) is httpx.ReadTimeout
    assert phase is Phase.SENT


def test_silence_in_the_middle_of_the_body_is_a_read_timeout() -> None:
    with hostile(peers.hangs_in_body) as server:
        error, phase = post(server.url, timeout=IMPATIENT)

    assert type(error) is httpx.ReadTimeout
    assert phase is Phase.BODY


def test_a_call_cut_off_from_outside_still_tells_how_far_it_got() -> None:
    progress = Progress()

    async def do(client: httpx.AsyncClient, url: str) -> None:
        async with asyncio.timeout(0.3):
            await client.post(url, timeout=PATIENT, extensions={"progress": progress})

    with hostile(peers.drips) as server, pytest.raises(TimeoutError):
        with_client(lambda client: do(client, server.url))

    assert progress.phase is Phase.BODY


def test_every_error_of_aiohttp_has_a_place_whether_or_not_the_request_was_sent() -> None:
    known = {
        value
        for module in (aiohttp.client_exceptions, aiohttp.http_exceptions)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    sent, not_sent = Progress(), Progress()
    sent.phase = Phase.SENT

    for one in known:
        error = one.__new__(one)

        assert issubclass(transport._httpx_class(error, sent), httpx.RequestError)
        assert transport._httpx_class(error, sent) not in NEVER_SENT
        assert transport._httpx_class(error, not_sent) in NEVER_SENT
    assert len(known) > 25


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (aiohttp.ClientConnectionResetError("Cannot write to closing transport"), httpx.WriteError),
        (BadHttpMessage("odd"), httpx.RemoteProtocolError),
        (aiohttp.SocketTimeoutError(), httpx.ReadTimeout),
        (ConnectionResetError(), httpx.ReadError),
        (ssl.SSLError(), httpx.ReadError),
    ],
)
def test_errors_that_are_hard_to_bring_about_have_their_class_too(
    error: Exception, expected: type[Exception]
) -> None:
    progress = Progress()
    progress.phase = Phase.SENT

    assert transport._httpx_class(error, progress) is expected


# --- Bodies -----------------------------------------------------------------------------------------


def test_a_gzip_body_arrives_unpacked_and_without_the_headers_that_described_it() -> None:
    with hostile(peers.answers(peers.gzipped(b'{"text":"hello"}'))) as server:
        answer, phase = post(server.url)

    assert isinstance(answer, httpx.Response)
    assert answer.json() == {"text": "hello"}
    assert "content-encoding" not in answer.headers
    assert phase is Phase.BODY


@pytest.mark.parametrize("window", [15, -15], ids=["zlib", "raw"])
def test_a_deflate_body_arrives_unpacked_in_both_spellings(window: int) -> None:
    pack = zlib.compressobj(wbits=window)
    packed = pack.compress(b"plain words " * 40) + pack.flush()
    with hostile(peers.answers(peers.response(packed, headers=("Content-Encoding: deflate",)))) as server:
        answer, _ = post(server.url)

    assert isinstance(answer, httpx.Response)
    assert answer.content == b"plain words " * 40


def test_two_gzip_members_and_padding_are_one_body() -> None:
    packed = gzip.compress(b"one,") + gzip.compress(b"two") + b"\0\0\0"
    with hostile(peers.answers(peers.response(packed, headers=("Content-Encoding: gzip",)))) as server:
        answer, _ = post(server.url)

    assert isinstance(answer, httpx.Response)
    assert answer.content == b"one,two"


@pytest.mark.parametrize(
    "raw",
    [
        peers.gzipped(b'{"text":"hello"}', spoil=True),
        peers.gzipped(b'{"text":"hello"}', cut=9),
        peers.gzipped(b'{"text":"hello"}', cut=1),
        peers.response(b"{}", headers=("Content-Encoding: gzip",)),
        peers.response(b"{}", headers=("Content-Encoding: br",)),
    ],
    ids=["bad", "truncated", "truncated-by-one", "not-gzip", "not-asked-for"],
)
def test_broken_or_truncated_compression_is_a_decoding_error(raw: bytes) -> None:
    with hostile(peers.answers(raw)) as server:
        error, phase = post(server.url)

    assert type(error) is httpx.DecodingError
    assert phase is Phase.BODY


def test_a_body_above_the_cap_is_not_read_to_its_end() -> None:
    with hostile(peers.answers(peers.response(b"x" * 5000))) as server:
        error, phase = post(server.url, cap=4999)

    assert type(error) is ResponseTooLarge
    assert phase is Phase.BODY


def test_a_body_as_large_as_the_cap_is_fine() -> None:
    with hostile(peers.answers(peers.response(b"x" * 5000))) as server:
        answer, _ = post(server.url, cap=5000)

    assert isinstance(answer, httpx.Response)
    assert len(answer.content) == 5000


def test_a_small_body_that_unpacks_to_more_than_the_cap_is_refused() -> None:
    with hostile(peers.answers(peers.gzipped(b"0" * 1_000_000))) as server:
        error, _ = post(server.url, cap=10_000)

    assert type(error) is ResponseTooLarge


def test_a_body_of_countless_empty_members_is_refused_without_unpacking_them_all() -> None:
    body = gzip.compress(b"", mtime=0) * 20_000

    with pytest.raises(httpx.DecodingError, match="more than 10000 members"):
        decode(body, "gzip", limit=1000)


def test_a_body_of_many_members_and_pieces_is_put_together() -> None:
    text = bytes(range(256)) * 4096
    packed = [gzip.compress(part, compresslevel=0, mtime=0) for part in (text, b"", b"x", text)]

    assert decode(b"\0\0".join(packed), "gzip", limit=len(text) * 2 + 1) == text + b"x" + text


@pytest.mark.parametrize("body", [b"<html>busy</html>", b"", b"null"], ids=["html", "empty", "null"])
def test_a_useless_but_complete_body_is_handed_on_as_it_is(body: bytes) -> None:
    with hostile(peers.answers(peers.response(body))) as server:
        answer, _ = post(server.url)

    assert isinstance(answer, httpx.Response)
    assert (answer.status_code, answer.content) == (200, body)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    with hostile(peers.answers_and_closes(b'HTTP/1.1 200 OK\r\n\r\n{"a":1}')) as server:
        answer, _ = post(server.url)

    assert isinstance(answer, httpx.Response)
    assert answer.json() == {"a": 1}


def test_long_headers_are_read() -> None:
    raw = peers.canned({}, headers=(f"X-Long: {'y' * 40_000}",))
    with hostile(peers.answers(raw)) as server:
        answer, _ = post(server.url)

    assert isinstance(answer, httpx.Response)
    assert len(answer.headers["x-long"]) == 40_000


@pytest.mark.parametrize(
    "before", [b"", b"Transfer-Encoding: chunked\r\n\r\n0\r\n"], ids=["headers", "trailers"]
)
def test_headers_and_trailers_without_end_are_a_protocol_error(before: bytes) -> None:
    def floods(peer: peers.Peer) -> None:
        peer.read_request()
        peer.send(b"HTTP/1.1 200 OK\r\n" + before)
        while not peer.server.closing.is_set():
            peer.sock.sendall(b"X-More: x\r\n" * 100)

    with hostile(floods) as server:
        error, _ = post(server.url)

    assert type(error) is httpx.RemoteProtocolError


def test_informational_responses_are_passed_over() -> None:
    raw = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + peers.canned({"a": 1})
    with hostile(peers.answers(raw)) as server:
        answer, _ = post(server.url)

    assert isinstance(answer, httpx.Response)
    assert answer.json() == {"a": 1}


# --- Once, and as asked -------------------------------------------------------------------------------


def test_a_redirect_is_an_answer_and_never_followed() -> None:
    with hostile(peers.redirects_to_itself) as server:
        answer, _ = post(server.url)

        assert len(server.requests) == 1
    assert isinstance(answer, httpx.Response)
    assert answer.status_code == 307


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize(
    "behaviour",
    [
        peers.accepts_and_closes,
        peers.resets_at_the_first_byte,
        peers.reads_and_closes,
        peers.reads_and_resets,
        peers.cuts_chunks,
        peers.redirects_to_itself,
        peers.answers(peers.response(b"", status="503 Service Unavailable", headers=("Retry-After: 0",))),
    ],
)
def test_whatever_the_peer_does_a_request_is_sent_once(behaviour: peers.Behaviour, method: str) -> None:
    with hostile(behaviour) as server:
        post(server.url, method=method)

        assert server.connections == 1
        assert len(server.requests) <= 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_a_kept_alive_connection_that_dies_is_an_error_and_not_a_second_request(method: str) -> None:
    async def do(client: httpx.AsyncClient, server: peers.Hostile) -> None:
        await client.request(method, server.url)
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await client.request(method, server.url)

    with hostile(peers.closes_when_reused) as server:
        with_client(lambda client: do(client, server))

        assert server.connections == 1
        assert len(server.requests) == 2


def test_a_connection_is_used_again_for_the_next_call() -> None:
    async def do(client: httpx.AsyncClient, url: str) -> None:
        for _ in range(3):
            await client.post(url, json={})

    with hostile(peers.answers_json({})) as server:
        with_client(lambda client: do(client, server.url))

        assert server.connections == 1
        assert len(server.requests) == 3


def test_a_response_that_was_not_read_to_its_end_is_not_mixed_up_with_the_next() -> None:
    def behave(peer: peers.Peer) -> None:
        first = peer.server.connections == 1
        peer.read_request()
        peer.send(peers.response(b"x" * 200, length=1000) if first else peers.canned({"second": True}))
        peer.hang()

    async def do(client: httpx.AsyncClient, url: str) -> object:
        with pytest.raises(ResponseTooLarge):
            await client.post(url, extensions={"max_response_bytes": 100})
        return (await client.post(url)).json()

    with hostile(behave) as server:
        assert with_client(lambda client: do(client, server.url)) == {"second": True}


def test_two_hundred_calls_at_once_need_no_waiting_for_the_pool() -> None:
    async def do(client: httpx.AsyncClient, url: str) -> list[int]:
        answers = await asyncio.gather(*(client.post(url, json={"n": n}) for n in range(200)))
        return [answer.status_code for answer in answers]

    with hostile(peers.answers_json({})) as server:
        assert with_client(lambda client: do(client, server.url)) == [200] * 200
        assert sorted(json.loads(r.partition(b"\r\n\r\n")[2])["n"] for r in server.requests) == list(
            range(200)
        )


def test_what_is_sent_is_what_httpx_was_given() -> None:
    async def do(client: httpx.AsyncClient, url: str) -> None:
        await client.post(
            f"{url}/v1/a%2Fb?q=1%2B1&q=2", json={"a": "é"}, headers=[("X-Twice", "1"), ("X-Twice", "2")]
        )

    with hostile(peers.answers_json({})) as server:
        with_client(lambda client: do(client, server.url))

        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/a%2Fb?q=1%2B1&q=2 HTTP/1.1\r\n")
    assert head.lower().count(b"\r\nx-twice: ") == 2
    for name in (b"host", b"user-agent", b"accept", b"accept-encoding", b"content-type", b"content-length"):
        assert head.lower().count(b"\r\n" + name + b":") == 1
    assert json.loads(body) == {"a": "é"}


def test_credentials_in_the_url_become_one_header() -> None:
    async def do(client: httpx.AsyncClient, port: int) -> None:
        await client.post(f"http://user:word@127.0.0.1:{port}/x")

    with hostile(peers.answers_json({})) as server:
        with_client(lambda client: do(client, server.port))

        assert server.header("authorization") == "Basic dXNlcjp3b3Jk"
        assert server.first_line() == "POST /x HTTP/1.1"


def test_a_streamed_request_body_is_sent_with_its_length() -> None:
    async def parts():  # type: ignore[no-untyped-def]
        yield b"one"
        yield b"two"

    async def do(client: httpx.AsyncClient, url: str) -> None:
        await client.post(url, content=parts())

    with hostile(peers.answers_json({})) as server:
        with_client(lambda client: do(client, server.url))

        assert server.requests[0].endswith(b"\r\n\r\nonetwo")
        assert server.header("transfer-encoding") is None


def test_tls_works_with_a_certificate_that_is_vouched_for() -> None:
    with hostile(peers.answers_json({"a": 1}), tls=True) as server:
        answer, _ = post(server.url, over=trusting())

    assert isinstance(answer, httpx.Response)
    assert answer.json() == {"a": 1}


def test_idle_sockets_are_kept_alive_by_the_system() -> None:
    from aijobs.providers.transport import _open_socket  # the option is invisible from outside

    with _open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_transport_that_was_closed_opens_again_when_used() -> None:
    ours = AiohttpTransport()

    async def do(client: httpx.AsyncClient, url: str) -> int:
        await client.post(url)
        await ours.aclose()
        return (await client.post(url)).status_code

    with hostile(peers.answers_json({})) as server:
        assert with_client(lambda client: do(client, server.url), ours) == 200
        assert server.connections == 2


# --- Proxies -------------------------------------------------------------------------------------------


def through(proxy: peers.Hostile, *, no: str = "") -> AiohttpTransport:
    url = f"http://me:secret@127.0.0.1:{proxy.port}"
    return AiohttpTransport(proxies=Proxies({"http": url, "https": url, "no": no}))


def test_a_plain_call_goes_to_the_proxy_with_the_whole_url_and_the_proxys_credentials() -> None:
    with hostile(peers.answers_json({"from": "proxy"})) as proxy:
        answer, _ = post("http://provider.invalid/v1", over=through(proxy))

        assert proxy.first_line() == "POST http://provider.invalid/v1 HTTP/1.1"
        assert proxy.header("proxy-authorization") == "Basic bWU6c2VjcmV0"
    assert isinstance(answer, httpx.Response)
    assert answer.json() == {"from": "proxy"}


def test_a_proxy_that_refuses_the_tunnel_is_a_proxy_error_before_anything_was_sent() -> None:
    refusal = peers.response(b"", status="403 Forbidden", headers=())
    with hostile(peers.answers_and_closes(refusal)) as proxy:
        error, phase = post("https://provider.invalid/v1", over=through(proxy))

        assert proxy.first_line() == "CONNECT provider.invalid:443 HTTP/1.1"
        assert proxy.header("proxy-authorization") == "Basic bWU6c2VjcmV0"
    assert type(error) is httpx.ProxyError
    assert phase is Phase.CONNECTING


@pytest.mark.parametrize(
    "behaviour",
    [peers.reads_and_closes, peers.reads_and_resets, peers.answers_and_closes(b"SSH-2.0-x\r\n\r\n")],
)
def test_a_proxy_that_breaks_during_the_tunnel_got_no_request(behaviour: peers.Behaviour) -> None:
    with hostile(behaviour) as proxy:
        error, phase = post("https://provider.invalid/v1", over=through(proxy))

    assert isinstance(error, (httpx.ProxyError, httpx.ConnectError))
    assert phase is Phase.CONNECTING


def test_a_proxy_that_nobody_runs_is_a_proxy_error() -> None:
    proxies = Proxies({"http": f"http://127.0.0.1:{peers.closed_port()}"})

    error, phase = post("http://provider.invalid/v1", over=AiohttpTransport(proxies=proxies))

    assert type(error) is httpx.ProxyError
    assert phase is Phase.CONNECTING


def test_loopback_never_goes_through_a_proxy() -> None:
    with (
        hostile(peers.answers_json({"from": "proxy"})) as proxy,
        hostile(peers.answers_json({"a": 1})) as server,
    ):
        answer, _ = post(server.url, over=through(proxy))

        assert proxy.requests == []
    assert isinstance(answer, httpx.Response)
    assert answer.json() == {"a": 1}


def causes(error: BaseException | httpx.Response) -> list[BaseException]:
    found: list[BaseException] = []
    cause = error if isinstance(error, BaseException) else None
    while cause is not None:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found
