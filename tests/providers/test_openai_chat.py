"""Kind `openai-chat`: what is sent to OpenAI, Azure and gateways, and what their answers are."""

import json
from typing import Any

import pytest

from aijobs.core.clock import SystemClock
from aijobs.core.model import Done, ErrorClass, Failure
from aijobs.core.settings import ProviderSettings
from aijobs.providers.client import Client
from aijobs.providers.contract import PollFailed
from aijobs.providers.endpoint import Endpoint
from tests.support import hostile as peers
from tests.support.adapters import SECRET, submit, with_adapter
from tests.support.calls import JOB, make_call
from tests.support.hostile import hostile

KIND = "openai-chat"


def completion(content: Any = "hello", *, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m-1-2026",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"content": content, **message}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
    }


def test_a_call_is_one_message_with_the_ids_that_find_it_again() -> None:
    with hostile(peers.answers_json(completion())) as server:
        submit(KIND, f"{server.url}/v1", make_call(prompt="say hello"))

        assert server.first_line() == "POST /v1/chat/completions HTTP/1.1"
        assert server.body() == {"model": "m-1", "messages": [{"role": "user", "content": "say hello"}]}
        assert server.header("authorization") == f"Bearer {SECRET}"
        assert server.header("x-client-request-id") == f"aijobs-{JOB}-1"


def test_a_system_message_and_a_schema_come_from_the_type() -> None:
    system = {"role": "system", "content": "be short"}
    call = make_call(
        prompt="hi",
        request={"messages": [system], "max_completion_tokens": 9, "stream": True},
        response_format={"type": "object"},
    )
    with hostile(peers.answers_json(completion())) as server:
        submit(KIND, server, call)

        assert server.body() == {
            "model": "m-1",
            "messages": [system, {"role": "user", "content": "hi"}],
            "max_completion_tokens": 9,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "summarize", "schema": {"type": "object"}, "strict": False},
            },
        }


def test_a_whole_answer_is_a_result_of_the_same_shape_as_any_models() -> None:
    with hostile(peers.answers_json(completion())) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert json.loads(reply.result) == {
        "text": "hello",
        "finish_reason": "stop",
        "model": "m-1-2026",
        "id": "chatcmpl-1",
    }
    assert (reply.facts.usage.input_tokens, reply.facts.usage.output_tokens) == (5, 7)


def test_tool_calls_are_kept_with_the_message() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    with hostile(peers.answers_json(completion(None, finish="tool_calls", tool_calls=calls))) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert json.loads(reply.result)["output"] == {"content": None, "tool_calls": calls}


def test_what_a_gateway_says_the_call_cost_is_counted() -> None:
    answer = peers.answers_json(completion(), headers=("x-litellm-response-cost: 0.0123",))
    with hostile(answer) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert reply.facts.usage.reported_cost == 0.0123


def test_what_the_headers_say_of_limits_is_kept() -> None:
    headers = ("x-ratelimit-limit-requests: 100", "x-ratelimit-remaining-requests: 3")
    with hostile(peers.answers_json(completion(), headers=headers)) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert json.loads(reply.facts.rate_limits or "")["requests"]["remaining"] == 3


def test_an_answer_without_a_finish_reason_is_taken_with_a_note() -> None:
    with hostile(peers.answers_json(completion(finish=None))) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert json.loads(reply.result)["notes"]


@pytest.mark.parametrize(
    ("value", "error_class"),
    [
        (completion(None, finish="length"), ErrorClass.OUTPUT_TRUNCATED),
        (completion("half", finish="length"), ErrorClass.OUTPUT_TRUNCATED),
        (completion("", finish="content_filter"), ErrorClass.CONTENT_POLICY),
        (completion(None, refusal="I can't"), ErrorClass.CONTENT_POLICY),
        (completion(""), ErrorClass.BAD_RESPONSE),
        ({"choices": []}, ErrorClass.BAD_RESPONSE),
        ({"choices": None}, ErrorClass.BAD_RESPONSE),
        ({"choices": [{"message": {"content": None}}]}, ErrorClass.BAD_RESPONSE),
        ({"id": "x"}, ErrorClass.BAD_RESPONSE),
        ({"error": {"code": 429, "message": "slow down"}}, ErrorClass.RATE_LIMITED),
        ({"object": "response", "status": "queued", "id": "r"}, ErrorClass.BAD_RESPONSE),
        ([1], ErrorClass.BAD_RESPONSE),
        (None, ErrorClass.BAD_RESPONSE),
    ],
)
def test_a_200_that_is_no_answer_is_a_failure(value: object, error_class: ErrorClass) -> None:
    with hostile(peers.answers_json(value)) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

        assert len(server.requests) == 1
    assert isinstance(reply, Failure)
    assert reply.error_class is error_class


def test_the_words_of_an_error_behind_a_200_reach_the_operator() -> None:
    with hostile(peers.answers_json({"error": {"code": 429, "message": "slow down"}})) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Failure)
    assert "slow down" in reply.message


def test_money_that_ran_out_is_told_from_a_rate_limit_and_can_be_configured() -> None:
    error = {"error": {"message": "x", "type": "insufficient_quota", "code": "insufficient_quota"}}
    with hostile(peers.answers_json(error, status="429 Too Many")) as server:
        by_default = submit(KIND, server, make_call(prompt="x"))
        overridden = submit(KIND, server, make_call(prompt="x"), quota_patterns=[])

    assert isinstance(by_default, Failure)
    assert isinstance(overridden, Failure)
    assert by_default.error_class is ErrorClass.QUOTA_EXHAUSTED
    assert overridden.error_class is ErrorClass.RATE_LIMITED


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("https://mine.openai.azure.com/openai/v1", "api-key"),
        ("https://mine.services.ai.azure.com/openai/v1", "api-key"),
        ("https://api.openai.com/v1", "Authorization"),
        ("https://openai.azure.com.evil.example/v1", "Authorization"),
    ],
)
def test_azure_is_given_its_key_under_its_own_name(url: str, header: str) -> None:
    settings = ProviderSettings.model_validate({"kind": KIND, "base_url": url, "api_key": SECRET})
    endpoint = Endpoint("p", settings, client=Client(clock=SystemClock()), clock=SystemClock(), base_url=url)

    assert header in endpoint._headers


def test_a_chat_provider_has_no_work_to_poll_or_cancel() -> None:
    async def ask(adapter: Any) -> list[object]:
        return [await adapter.poll(make_call(), "x"), await adapter.cancel(make_call(), "x")]

    answers = with_adapter(ask, kind=KIND)

    assert all(isinstance(answer, PollFailed) and answer.gone for answer in answers)


def test_an_answer_above_the_limit_on_results_is_cut_and_says_so() -> None:
    with hostile(peers.answers_json(completion("x" * 5000))) as server:
        reply = submit(KIND, server, make_call(result_bytes=2000))

    assert isinstance(reply, Done)
    assert len(reply.result) <= 2000
    assert json.loads(reply.result)["aijobs_truncated"]["max_bytes"] == 2000
