"""Targets with a peer: providers that answer, bytes on a socket, requests to `serve`, the command line."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx

from aijobs.core.clock import SystemClock, seeded_chance
from aijobs.core.errors import AijobsError
from aijobs.core.model import Done, Failure, Pending
from aijobs.core.settings import ProviderSettings
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.http.serve import Serving, build
from aijobs.providers.anthropic import AnthropicAdapter
from aijobs.providers.client import Client, Outgoing
from aijobs.providers.contract import PollFailed
from aijobs.providers.endpoint import Endpoint
from aijobs.providers.http import HttpAdapter
from aijobs.providers.openai_chat import ChatAdapter
from aijobs.providers.openai_responses import ResponsesAdapter
from aijobs.services.coordinator import Coordinator
from aijobs.services.webhooks import Webhooks
from aijobs.store.engine import Store, open_store
from tests.fuzz.mutations import NASTY, misspelt, respelt, spoilt, text, to_json, value
from tests.fuzz.targets import _LINE, NOW, REFUSED, SECRET, TAKEN, Attempt, Target, _headers, refusal
from tests.support.calls import make_call
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine
from tests.support.serving import ALL, TOKEN, with_webhooks
from tests.support.workers import Heard

# --- Answers of providers -------------------------------------------------------------------------------

_ADAPTERS: dict[str, Any] = {
    "openai-responses": ResponsesAdapter,
    "openai-chat": ChatAdapter,
    "anthropic": AnthropicAdapter,
    "http": HttpAdapter,
}
_RIGHT: dict[str, object] = {
    "openai-responses": {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "error": None,
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
        "usage": {"input_tokens": 3, "output_tokens": 5},
        "metadata": {"aijobs_job_id": "x"},
    },
    "openai-chat": {
        "id": "c1",
        "model": "m",
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
    },
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}],
        "usage": {"input_tokens": 3, "output_tokens": 5},
    },
    "http": {"data": {"items": [{"text": "hi"}]}},
}
_WRONG: tuple[object, ...] = (
    {
        "error": {
            "message": "slow down",
            "type": "rate_limit_error",
            "code": "rate_limit_exceeded",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20s"}],
        }
    },
    {"detail": [{"loc": ["body", 0], "msg": "wrong"}]},
    {"errors": [{"message": "m"}]},
    [{"error": {"code": 429}}],
    {"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "m"}}]},
    {"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "x"}]}}]},
)


class _Canned(httpx.AsyncBaseTransport):
    answer: httpx.Response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.answer


def _answer(chance: Random) -> tuple[str, str, int, list[tuple[str, str]], bytes]:
    kind = chance.choice(sorted(_ADAPTERS))
    given = chance.choice((_RIGHT[kind], _RIGHT[kind], chance.choice(_WRONG), value(chance)))
    body = to_json(respelt(respelt(given, chance), chance), chance)
    if chance.random() < 0.05:
        body = chance.choice((b"data: ", b"event: error\ndata: ", b"<html>", b"\xef\xbb\xbf")) + body
    status = chance.choice(
        (200, 200, 200, 201, 202, 204, 302, 400, 401, 403, 404, 409, 422, 429, 500, 503, 529)
    )
    headers = [(name, said.encode("latin-1", "replace").decode("latin-1")) for name, said in _headers(chance)]
    headers = [
        (n.encode("ascii", "replace").decode(), v.replace("\r", "").replace("\n", "").replace("\0", ""))
        for n, v in headers
    ]
    return kind, chance.choice(("submit", "poll", "cancel")), status, headers, body


@contextmanager
def _provider_answers(_: Path) -> Iterator[Attempt]:
    transport = _Canned()
    clock = SystemClock()
    with asyncio.Runner() as runner:
        client = Client(clock=clock, transport=transport)
        adapters = {
            (kind, schema): make(_endpoint(kind, client))
            for kind, make in _ADAPTERS.items()
            for schema in (False, True)
        }

        def tried(given: tuple[str, str, int, list[tuple[str, str]], bytes]) -> str:
            kind, operation, status, headers, body = given
            pairs = [
                (name.encode("latin-1", "replace"), said.encode("latin-1", "replace"))
                for name, said in headers
            ]
            transport.answer = httpx.Response(status, headers=pairs, content=body)
            wants = {"type": "object"} if len(body) % 2 else None
            adapter = adapters[kind, wants is not None]
            call = make_call(prompt="x", response_format=wants)
            asked = (
                adapter.submit(call) if operation == "submit" else getattr(adapter, operation)(call, "resp_1")
            )
            reply = runner.run(asked)
            assert isinstance(reply, Done | Pending | Failure | PollFailed), type(reply)
            return _judged(reply)

        yield tried


def _endpoint(kind: str, client: Client) -> Endpoint:
    url = "http://a.example"
    settings = ProviderSettings.model_validate({"kind": kind, "base_url": url})
    return Endpoint("p", settings, client=client, clock=client._clock, base_url=url)


def _judged(reply: object) -> str:
    """Whatever is kept of a reply can be stored and shown."""
    failure = reply.failure if isinstance(reply, PollFailed) else reply
    if isinstance(reply, Done):
        json.loads(reply.result)
        reply.result.encode()
        assert "\0" not in reply.result
    if isinstance(failure, Failure):
        refusal(ValueError(failure.message))
        assert failure.code is None or failure.code.isprintable()
        return REFUSED
    facts = reply.facts  # type: ignore[attr-defined]
    for kept in (facts.model, facts.provider_job_id, facts.provider_request_id, facts.owner):
        assert kept is None or (kept.isprintable() and kept.encode() is not None)
    return TAKEN


# --- Bytes of a provider on a socket --------------------------------------------------------------------

_RESPONSES = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"a": true}',
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'5\r\n{"a":\r\n6;x=y\r\n true}\r\n0\r\nX-T: 1\r\n\r\n'
    ),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n",
    (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 22\r\n\r\n"
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00"
    ),
    b'HTTP/1.0 200 OK\r\nContent-Type: text/html; charset="x"\r\nSet-Cookie: a=b\r\n\r\n<html>',
    (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nConnection: close\r\n\r\n"
        b"x\x9c\xab\xae\x05\x00\x01u\x00\xf9"
    ),
)


def _wire(chance: Random) -> bytes:
    return spoilt(chance.choice(_RESPONSES), chance)


@contextmanager
def _wires(_: Path) -> Iterator[Attempt]:
    with asyncio.Runner() as runner:
        given = b""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(given)
                await writer.drain()
            except (OSError, EOFError):
                pass
            finally:
                writer.close()

        server = runner.run(_listen(answer))
        port = server.sockets[0].getsockname()[1]
        client = Client(clock=SystemClock())

        def tried(raw: bytes) -> str:
            nonlocal given
            given = raw
            outgoing = Outgoing(method="GET", url=f"http://127.0.0.1:{port}/", max_response_bytes=1 << 20)
            reply = runner.run(client.send(outgoing, deadline=make_call(seconds=5).timeout))
            kind = getattr(reply, "kind", None)
            if kind is None:
                return TAKEN
            assert kind.value != "unexpected", reply
            return REFUSED

        yield tried
        server.close()
        runner.run(client.close())


async def _listen(answer: Any) -> asyncio.Server:
    return await asyncio.start_server(answer, "127.0.0.1", 0)


# --- Webhooks, serve, the command line ------------------------------------------------------------------


def _store(folder: Path, name: str) -> Store:
    return open_store(f"sqlite:///{folder / name}", clock=ManualClock(), create=True)


def _event(chance: Random) -> tuple[str, bytes]:
    right = {
        "object": "event",
        "type": "response.completed",
        "created_at": 1767225600,
        "data": {"id": "resp_1"},
    }
    return chance.choice(("wh_1", "wh_2", f"wh_{chance.random()}")), to_json(respelt(right, chance), chance)


@contextmanager
def _deliveries(folder: Path) -> Iterator[Attempt]:
    store = _store(folder, "hooks.db")
    settings = with_webhooks()
    intake = Webhooks(Coordinator(store, settings, chance=seeded_chance(1)), settings)

    def tried(given: tuple[str, bytes]) -> str:
        name, body = given
        signed = sign(name, body, keys=[decode_key(SECRET)], now=NOW)
        try:
            intake.intake("p", [(key.encode(), told.encode()) for key, told in signed.items()], body)
        except AijobsError as error:
            return refusal(error)
        return TAKEN

    yield tried
    store.close()


_PATHS = (
    "/jobs",
    "/jobs/01890000-0000-7000-8000-000000000001",
    "/jobs/x/cancel",
    "/jobs/x/events",
    "/webhooks/p",
    "/tick",
    "/metrics",
    "/healthz",
    "/readyz",
    "/openapi.json",
)
_MORE_HEADERS = (
    b"idempotency-key",
    b"last-event-id",
    b"webhook-id",
    b"webhook-signature",
    b"content-encoding",
    b"cookie",
)
_ANSWERS = frozenset({200, 202, 204, 400, 401, 404, 405, 409, 413, 415, 422})


def _request(chance: Random) -> tuple[str, bytes, list[tuple[bytes, bytes]], bytes]:
    path = chance.choice(_PATHS)
    path = misspelt(path, chance) if chance.random() < 0.4 else path
    headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/json")]
    headers += [
        (name, text(chance).encode("utf-8", "replace")[:9000])
        for name in _MORE_HEADERS
        if chance.random() < 0.15
    ]
    if chance.random() < 0.1:
        headers[0] = (b"authorization", spoilt(headers[0][1], chance)[:9000])
    body = to_json(respelt(dict(_LINE), chance), chance)[:200_000]
    return (
        chance.choice(("GET", "POST", "POST", "HEAD", "PUT", "OPTIONS")),
        path.encode("utf-8", "replace"),
        headers,
        body,
    )


@contextmanager
def _requests(folder: Path) -> Iterator[Attempt]:
    store = _store(folder, "serve.db")
    with asyncio.Runner() as runner:
        log = Heard()
        serving = runner.run(_made(store, log))
        app = build(serving)

        def tried(given: tuple[str, bytes, list[tuple[bytes, bytes]], bytes]) -> str:
            status, body = runner.run(_through(app, *given))
            assert status in _ANSWERS, (
                f"{status} {body[:200]!r} {log.lines[-1:] if hasattr(log, 'lines') else ''}"
            )
            if status >= 400 and given[0] != "HEAD":
                message = json.loads(body)["error"]["message"]
                refusal(ValueError(message))
            return TAKEN if status < 300 else REFUSED

        yield tried
        serving.threads.close(timeout=5)
    store.close()


async def _made(store: Store, log: Heard) -> Serving:
    return Serving(store, with_webhooks(), secrets=ALL, chance=seeded_chance(5), log=log)


async def _through(
    app: Any, method: str, path: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> tuple[int, bytes]:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": b"",
        "headers": headers,
        "root_path": "",
        "client": ("127.0.0.1", 1),
        "server": ("x", 80),
        "state": {},
    }
    sent: list[Any] = []
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(20):
        await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("inspect", "--type", "?"),
    ("inspect", "--user", "?", "--status", "queued"),
    ("inspect", "?"),
    ("enqueue", "t", "--input", "?"),
    ("enqueue", "t", "--key", "?", "--user", "?"),
    ("enqueue", "t", "--delay", "?"),
    ("cancel", "?"),
    ("result", "?"),
    ("retry", "?"),
    ("deadletter", "list", "--type", "?"),
    ("deadletter", "show", "?"),
    ("inspect", "--since", "?"),
    ("inspect", "--key", "?"),
    ("schedule", "preview", "?"),
    ("pause", "--type", "?"),
    ("diagnose", "?"),
    ("stats", "--since", "?"),
    ("provider", "show", "?"),
    ("webhook", "ingest", "?"),
    ("deadletter", "list", "--error-code", "?"),
    ("inspect", "--cursor", "?"),
    ("enqueue", "?"),
    ("webhook", "ingest", "p", "--header", "?"),
    ("switch", "set", "?", "?"),
    ("inspect", "--limit", "?"),
    ("enqueue", "t", "--traceparent", "?", "--request-id", "?"),
)


def _words(chance: Random) -> tuple[str, ...]:
    """What a shell can hand over: bytes that are no UTF-8 come as half surrogate pairs, NUL cannot come."""
    given = (
        chance.choice(NASTY) if chance.random() < 0.6 else misspelt(text(chance), chance) for _ in range(9)
    )
    usable = ("".join(c for c in word if c != "\0" and not "\ud800" <= c < "\udc80") for word in given)
    return tuple(next(usable)[:5000] if word == "?" else word for word in chance.choice(_COMMANDS))


@contextmanager
def _command_line(folder: Path) -> Iterator[Attempt]:
    config = folder / "cli.yaml"
    config.write_text("providers: {p: {kind: simulator}}\ntypes: {t: {provider: p}}\n", encoding="utf-8")
    line = CommandLine(f"sqlite:///{folder / 'cli.db'}", environ={"AIJOBS_CONFIG": str(config)})
    line("db", "upgrade")

    def tried(words: tuple[str, ...]) -> str:
        done = line(*words)
        assert "Traceback" not in done.err, done.err[-600:]
        assert "internal" not in done.err.lower(), done.err[-600:]
        harmful = [c for c in done.out + done.err if not c.isprintable() and c != "\n"]
        assert not harmful, harmful
        assert done.code in (0, 1, 2, 3, 4), (done.code, done.err)
        return TAKEN if done.code == 0 else REFUSED

    yield tried


WITH_PEERS: dict[str, Target] = {
    "answers": Target(_answer, _provider_answers, 12),
    "wire": Target(_wire, _wires, 4),
    "deliveries": Target(_event, _deliveries, 5),
    "requests": Target(_request, _requests, 6),
    "commands": Target(_words, _command_line, 1),
}
