"""Whatever the other side does, an adapter answers with a classified failure, sends once, tells no secret."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aijobs.core.clock import SystemClock
from aijobs.core.model import Done, ErrorClass, Failure, Pending, Phase, Reply
from aijobs.core.settings import Kind, ProviderSettings
from aijobs.providers.anthropic import AnthropicAdapter
from aijobs.providers.client import Client
from aijobs.providers.contract import Adapter, PollFailed
from aijobs.providers.endpoint import Endpoint
from aijobs.providers.http import HttpAdapter
from aijobs.providers.openai_chat import ChatAdapter
from aijobs.providers.openai_responses import ResponsesAdapter
from tests.support import hostile as peers
from tests.support.adapters import SECRET, submit
from tests.support.calls import make_call
from tests.support.hostile import hostile

KINDS: dict[str, Callable[[Endpoint], Adapter]] = {
    "openai-responses": ResponsesAdapter,
    "openai-chat": ChatAdapter,
    "anthropic": AnthropicAdapter,
    "http": HttpAdapter,
}
PRIVATE = "the quarterly numbers of somebody who must not be named"

_N, _T = ErrorClass.NETWORK, ErrorClass.NETWORK_TIMEOUT
BROKEN: list[tuple[str, peers.Behaviour, ErrorClass]] = [
    ("hangs up at once", peers.accepts_and_closes, _N),
    ("resets at the first byte", peers.resets_at_the_first_byte, _N),
    ("hangs up after reading", peers.reads_and_closes, _N),
    ("resets after reading", peers.reads_and_resets, _N),
    ("not http", peers.answers_and_closes(b"SSH-2.0-x\r\n\r\n"), _N),
    ("short body", peers.answers_and_closes(peers.response(b'{"a"', length=99)), _N),
    ("cut chunks", peers.cuts_chunks, _N),
    ("resets in body", peers.resets_in_body, _N),
    ("hangs before headers", peers.hangs_before_headers, _T),
    ("hangs in body", peers.hangs_in_body, _T),
    ("drips", peers.drips, _T),
    ("bad gzip", peers.answers(peers.gzipped(b"{}", spoil=True)), ErrorClass.BAD_RESPONSE),
    ("truncated gzip", peers.answers(peers.gzipped(b'{"text":"x"}', cut=4)), ErrorClass.BAD_RESPONSE),
    ("html", peers.answers(peers.response(b"<html>hi</html>")), ErrorClass.BAD_RESPONSE),
    ("half a json", peers.answers(peers.response(b'{"text":')), ErrorClass.BAD_RESPONSE),
    ("redirect", peers.redirects_to_itself, ErrorClass.INVALID_REQUEST),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("behaviour", "error_class"), [pytest.param(*row[1:], id=row[0]) for row in BROKEN])
def test_a_broken_answer_is_classified_after_one_request_that_may_have_been_billed(
    kind: str, behaviour: peers.Behaviour, error_class: ErrorClass
) -> None:
    never_ends = error_class is ErrorClass.NETWORK_TIMEOUT
    with hostile(behaviour) as server:
        reply = submit(kind, server, make_call(prompt="x", seconds=0.25 if never_ends else 10))

        assert server.connections == 1
        assert len(server.requests) <= 1
    if kind == "http" and isinstance(reply, Done):
        assert json.loads(reply.result) == {
            "text": '{"text":'
        }  # half a JSON is text to an endpoint of one's own
        return
    assert isinstance(reply, Failure)
    assert reply.error_class is error_class
    assert reply.maybe_billed is (error_class is not ErrorClass.INVALID_REQUEST)
    assert reply.facts.provider == "p"
    assert reply.facts.client_request_id
    assert reply.facts.phase.maybe_billed


@pytest.mark.parametrize("kind", KINDS)
def test_what_never_left_is_not_billed(kind: str) -> None:
    refused = submit(kind, f"http://127.0.0.1:{peers.closed_port()}", make_call(prompt="x"))
    with peers.unanswered_port() as port:
        unanswered = submit(kind, f"http://127.0.0.1:{port}", make_call(prompt="x", seconds=0.2))
    with hostile(peers.speaks_plainly) as server:
        no_tls = submit(kind, f"https://127.0.0.1:{server.port}", make_call(prompt="x"))
    with hostile(peers.answers_json({}), tls=True) as server:
        not_trusted = submit(kind, server, make_call(prompt="x"))

    outcomes = [reply for reply in (refused, unanswered, no_tls, not_trusted) if isinstance(reply, Failure)]
    assert [failure.error_class for failure in outcomes] == [
        ErrorClass.NETWORK,
        ErrorClass.NETWORK_TIMEOUT,
        ErrorClass.INVALID_REQUEST,
        ErrorClass.INVALID_REQUEST,
    ]
    assert not any(failure.maybe_billed for failure in outcomes)
    assert {failure.facts.phase for failure in outcomes} == {Phase.CONNECTING}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", ["400 Bad Request", "401 Who", "500 Oops"])
def test_no_failure_holds_a_key_or_the_input(kind: str, status: str) -> None:
    echo = {"error": {"message": f"Incorrect key {SECRET}; you said: {PRIVATE}", "code": SECRET, "type": "x"}}
    with hostile(peers.answers_json(echo, status=status)) as server:
        reply = submit(kind, server, make_call(input={"text": PRIVATE}))

    assert isinstance(reply, Failure)
    assert SECRET not in repr(reply)
    assert "quarterly numbers" not in repr(reply)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "behaviour", [peers.accepts_and_closes, peers.hangs_before_headers, peers.redirects_to_itself]
)
def test_a_key_in_the_address_is_not_told_either(kind: str, behaviour: peers.Behaviour) -> None:
    with hostile(behaviour) as server:
        call = make_call(prompt="x", seconds=0.3)
        reply = submit(kind, f"{server.url}/key/abcdef-very-secret", call, api_key=None)

    assert isinstance(reply, Failure)
    assert "very-secret" not in repr(reply)


# --- Any JSON at all --------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
WORDS = (
    "id status output content text type message choices finish_reason usage error code model stop_reason"
    " object incomplete_details reason refusal tool_calls metadata details input_tokens prompt_tokens"
)
NAMES = st.sampled_from(WORDS.split())
VALUES = st.sampled_from(
    [
        "completed",
        "queued",
        "failed",
        "incomplete",
        "message",
        "output_text",
        "response",
        "stop",
        "length",
        "end_turn",
    ]
)
ALMOST = st.recursive(
    JSON | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=25,
)
BODIES = st.one_of(JSON, ALMOST).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=80)


class Answering(httpx.AsyncBaseTransport):
    """Answers with what it is given, in memory."""

    def __init__(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self._response = httpx.Response(status, headers=headers, content=body)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self._response


async def _ask(kind: str, transport: httpx.AsyncBaseTransport, operation: str) -> Reply | PollFailed:
    configured: dict[str, Any] = {"kind": kind, "base_url": "http://a.example"}
    client = Client(clock=SystemClock(), transport=transport)
    endpoint = Endpoint(
        "p",
        ProviderSettings.model_validate(configured),
        client=client,
        clock=SystemClock(),
        base_url="http://a.example",
    )
    adapter = KINDS[kind](endpoint)
    call = make_call(prompt="x")
    try:
        if operation == "submit":
            return await adapter.submit(call)
        if operation == "poll":
            return await adapter.poll(call, "resp_1")
        return await adapter.cancel(call, "resp_1")
    finally:
        await client.close()


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    operation=st.sampled_from(["submit", "poll", "cancel"]),
    status=st.sampled_from([200, 200, 200, 202, 400, 404, 429, 500, 302]),
    body=BODIES,
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                ["retry-after", "openai-poll-after-ms", "x-request-id", "x-should-retry", "date"]
            ),
            st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12),
        ),
        max_size=3,
    ),
)
def test_no_answer_whatever_makes_an_adapter_raise(
    kind: str, operation: str, status: int, body: bytes, headers: list[tuple[str, str]]
) -> None:
    reply = asyncio.run(_ask(kind, Answering(status, body, headers), operation))

    assert isinstance(reply, Done | Pending | Failure | PollFailed)
    if isinstance(reply, Done):
        json.loads(reply.result)
        assert "\0" not in reply.result
    if isinstance(reply, Pending):
        assert reply.provider_job_id
        assert reply.poll_after is None or reply.poll_after >= timedelta(0)


def test_the_table_of_kinds_is_complete() -> None:
    assert set(KINDS) == {kind.value for kind in Kind} - {Kind.PYTHON, Kind.SIMULATOR}
