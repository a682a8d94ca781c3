"""Kind `anthropic`: what is sent, and what becomes of every stop reason."""

import json
from typing import Any

import pytest

from aijobs.core.model import Done, ErrorClass, Failure
from tests.support import hostile as peers
from tests.support.adapters import SECRET, submit
from tests.support.calls import make_call
from tests.support.hostile import hostile

KIND = "anthropic"


def message(*content: Any, stop: Any = "end_turn", **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "model": "c-1-2026",
        "content": list(content) or [{"type": "text", "text": "hello"}],
        "stop_reason": stop,
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 7},
        **fields,
    }


def test_a_call_has_a_token_limit_and_no_sampling_parameters() -> None:
    with hostile(peers.answers_json(message())) as server:
        submit(KIND, server, make_call(prompt="say hello"))

        assert server.first_line() == "POST /messages HTTP/1.1"
        assert server.body() == {
            "model": "m-1",
            "max_tokens": 4096,
            "messages": [{"role": "user", "content": "say hello"}],
        }
        assert server.header("x-api-key") == SECRET
        assert server.header("authorization") is None
        assert server.header("anthropic-version") == "2023-06-01"


def test_limit_version_and_system_prompt_are_the_configurations() -> None:
    with hostile(peers.answers_json(message())) as server:
        submit(
            KIND,
            server,
            make_call(prompt="x", request={"max_tokens": 50, "system": "be short"}),
            anthropic_version="2026-10-21",
        )

        body = server.body()
        assert isinstance(body, dict)
        assert (body["max_tokens"], body["system"]) == (50, "be short")
        assert server.header("anthropic-version") == "2026-10-21"


def test_a_whole_message_is_a_result_of_the_same_shape_as_any_models() -> None:
    with hostile(peers.answers_json(message(), headers=("request-id: req_1",))) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert json.loads(reply.result) == {
        "text": "hello",
        "finish_reason": "end_turn",
        "model": "c-1-2026",
        "id": "msg_1",
    }
    assert reply.facts.usage.input_tokens == 120  # the cached part included, as everybody else counts
    assert reply.facts.provider_request_id == "req_1"


def test_thinking_is_not_kept_and_tool_use_is() -> None:
    thinking = {"type": "thinking", "thinking": "hm"}
    text = {"type": "text", "text": "a"}
    tool = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    with hostile(peers.answers_json(message(thinking, text))) as server:
        plain = submit(KIND, server, make_call(prompt="x"))
    with hostile(peers.answers_json(message(text, tool, stop="tool_use"))) as server:
        with_tool = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(plain, Done)
    assert isinstance(with_tool, Done)
    assert "output" not in json.loads(plain.result)
    assert json.loads(with_tool.result)["output"] == [text, tool]


@pytest.mark.parametrize(
    ("stop", "error_class"),
    [
        ("max_tokens", ErrorClass.OUTPUT_TRUNCATED),
        ("model_context_window_exceeded", ErrorClass.OUTPUT_TRUNCATED),
        ("refusal", ErrorClass.CONTENT_POLICY),
        ("pause_turn", ErrorClass.BAD_RESPONSE),
        ("something_new", ErrorClass.BAD_RESPONSE),
        (None, ErrorClass.BAD_RESPONSE),
    ],
)
def test_a_message_that_is_not_whole_is_a_failure(stop: object, error_class: ErrorClass) -> None:
    with hostile(peers.answers_json(message(stop=stop))) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Failure)
    assert reply.error_class is error_class
    assert reply.facts.usage.output_tokens == 7


EVENTS = (
    b"event: message_start\ndata: {}\n\n",
    b'event: content_block_delta\ndata: {"delta":{"text":"half a"}}\n\n',
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
)


def test_a_stream_that_nobody_asked_for_is_never_a_result() -> None:
    stopped = peers.response(b"".join(EVENTS[:2]), headers=("Content-Type: text/event-stream",))
    failed = peers.response(b"".join(EVENTS), headers=("Content-Type: text/event-stream",))
    with hostile(peers.answers(stopped, failed)) as server:
        first = submit(KIND, server, make_call(prompt="x"))
        second = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(first, Failure)
    assert first.error_class is ErrorClass.BAD_RESPONSE
    assert isinstance(second, Failure)
    assert second.error_class is ErrorClass.UNAVAILABLE
