"""Kind `openai-responses`: what is sent, and what becomes of every status, on submit, poll and cancel."""

import json
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.model import Done, ErrorClass, Failure, Pending, Phase
from aijobs.providers.contract import PollFailed
from tests.support import hostile as peers
from tests.support.adapters import SECRET, cancel, poll, submit
from tests.support.calls import JOB, make_call
from tests.support.clock import ManualClock
from tests.support.hostile import Hostile, hostile

KIND = "openai-responses"


def response(status: str = "completed", **fields: Any) -> dict[str, Any]:
    """A response object; completed ones say hello."""
    said = {"type": "message", "content": [{"type": "output_text", "text": "hello"}]}
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "model": "m-1-2026",
        "output": [said] if status == "completed" else [],
        "error": None,
        "incomplete_details": None,
        "usage": {"input_tokens": 5, "output_tokens": 7} if status == "completed" else None,
        **fields,
    }


def answers(value: object, **options: Any) -> peers.Behaviour:
    return peers.answers_json(value, **options)


def sent(server: Hostile, index: int = -1) -> dict[str, Any]:
    body = server.body(index)
    assert isinstance(body, dict)
    return body


# --- What is sent -----------------------------------------------------------------------------------


def test_a_foreground_call_sends_model_input_and_the_ids_that_find_it_again() -> None:
    with hostile(answers(response())) as server:
        submit(KIND, server, make_call(prompt="say hello", traceparent="00-aa-bb-01"))

        assert server.first_line() == "POST /responses HTTP/1.1"
        assert sent(server) == {
            "model": "m-1",
            "input": "say hello",
            "metadata": {"aijobs_job_id": JOB, "aijobs_attempt": "1"},
        }
        assert server.header("authorization") == f"Bearer {SECRET}"
        assert server.header("x-client-request-id") == f"aijobs-{JOB}-1"
        assert server.header("idempotency-key") == f"{JOB}-1"
        assert server.header("traceparent") == "00-aa-bb-01"


def test_a_background_call_asks_to_be_kept() -> None:
    with hostile(answers(response("queued"))) as server:
        submit(KIND, server, make_call(prompt="x", background=True, completion_window="8h"))

        assert sent(server)["background"] is True
        assert sent(server)["store"] is True
        assert sent(server)["background_options"] == {"completion_window": "8h"}


def test_the_types_request_is_merged_but_our_ids_stay_and_nothing_streams() -> None:
    request = {
        "max_output_tokens": 800,
        "store": False,
        "stream": True,
        "background": False,
        "metadata": {"team": "a", "aijobs_job_id": "forged"},
        "background_options": {"continuation_id": "c"},
    }
    with hostile(answers(response("queued"))) as server:
        submit(KIND, server, make_call(prompt="x", background=True, completion_window="2h", request=request))

        assert sent(server) == {
            "model": "m-1",
            "input": "x",
            "background": True,
            "store": False,
            "max_output_tokens": 800,
            "background_options": {"completion_window": "2h", "continuation_id": "c"},
            "metadata": {"team": "a", "aijobs_job_id": JOB, "aijobs_attempt": "1"},
        }


def test_the_soonest_window_is_the_providers_default_and_not_sent() -> None:
    with hostile(answers(response("queued"))) as server:
        submit(KIND, server, make_call(prompt="x", background=True, completion_window="soonest"))

        assert "background_options" not in sent(server)


def test_a_schema_is_asked_for_as_the_text_format() -> None:
    schema = {"type": "object", "additionalProperties": False}
    with hostile(answers(response())) as server:
        submit(KIND, server, make_call(prompt="x", response_format=schema))

        assert sent(server)["text"] == {
            "format": {"type": "json_schema", "name": "summarize", "schema": schema, "strict": True}
        }


def test_messages_in_the_input_are_sent_as_they_are() -> None:
    messages = [{"role": "user", "content": "hi"}]
    with hostile(answers(response())) as server:
        submit(KIND, server, make_call(input={"messages": messages}))

        assert sent(server)["input"] == messages


def test_organisation_project_and_own_headers_go_along() -> None:
    with hostile(answers(response())) as server:
        submit(
            KIND,
            server,
            make_call(prompt="x"),
            organization="org-1",
            project="proj-1",
            headers={"X-Team": "blue"},
            idempotency_header="X-Once",
            auth_header="X-Key",
        )

        assert server.header("openai-organization") == "org-1"
        assert server.header("openai-project") == "proj-1"
        assert server.header("x-team") == "blue"
        assert server.header("x-once") == f"{JOB}-1"
        assert server.header("idempotency-key") is None
        assert server.header("x-key") == SECRET
        assert server.header("authorization") is None


# --- What comes back --------------------------------------------------------------------------------


def test_a_completed_response_is_a_result_of_one_shape_with_its_usage() -> None:
    with hostile(answers(response(), headers=("X-Request-Id: req_9",))) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert json.loads(reply.result) == {
        "text": "hello",
        "finish_reason": "stop",
        "model": "m-1-2026",
        "id": "resp_1",
    }
    assert (reply.facts.usage.input_tokens, reply.facts.usage.output_tokens) == (5, 7)
    assert reply.facts.http_status == 200
    assert reply.facts.model == "m-1-2026"
    assert reply.facts.provider_job_id == "resp_1"
    assert reply.facts.provider_request_id == "req_9"
    assert reply.facts.client_request_id == f"aijobs-{JOB}-1"
    assert reply.facts.phase is Phase.BODY


def test_output_that_is_more_than_text_is_kept_as_it_came() -> None:
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    with hostile(answers(response(output=[{"type": "reasoning"}, call]))) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Done)
    assert json.loads(reply.result)["output"] == [{"type": "reasoning"}, call]


def test_json_that_was_expected_is_in_the_result_parsed() -> None:
    said = {"type": "message", "content": [{"type": "output_text", "text": ' {"a": 1}\n'}]}
    with hostile(answers(response(output=[said]))) as server:
        reply = submit(KIND, server, make_call(prompt="x", expects_json=True))

    assert isinstance(reply, Done)
    assert json.loads(reply.result)["json"] == {"a": 1}


def test_text_that_is_not_the_expected_json_is_a_bad_response() -> None:
    with hostile(answers(response())) as server:
        reply = submit(KIND, server, make_call(prompt="x", expects_json=True))

    assert isinstance(reply, Failure)
    assert (reply.error_class, reply.code) == (ErrorClass.BAD_RESPONSE, "invalid_output")


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_the_status_tells_whether_work_goes_on_whatever_was_asked(status: str, background: bool) -> None:
    with hostile(answers(response(status), headers=("openai-poll-after-ms: 1500",))) as server:
        reply = submit(KIND, server, make_call(prompt="x", background=background))

    assert isinstance(reply, Pending)
    assert reply.provider_job_id == "resp_1"
    assert reply.provider_status == status
    assert reply.poll_after == timedelta(seconds=1.5)


def test_a_background_call_that_is_done_at_once_is_a_result() -> None:
    with hostile(answers(response())) as server:
        reply = submit(KIND, server, make_call(prompt="x", background=True))

    assert isinstance(reply, Done)


def test_a_plain_retry_after_also_says_when_to_ask_again() -> None:
    with hostile(answers(response("queued"), headers=("Retry-After: 7",))) as server:
        reply = submit(KIND, server, make_call(prompt="x", background=True))

    assert isinstance(reply, Pending)
    assert reply.poll_after == timedelta(seconds=7)


@pytest.mark.parametrize("bad_id", [None, "", 7, "a\nb", "x" * 2000])
def test_work_without_a_usable_id_is_a_bad_response_that_may_have_been_billed(bad_id: object) -> None:
    with hostile(answers(response("queued", id=bad_id))) as server:
        reply = submit(KIND, server, make_call(prompt="x", background=True))

    assert isinstance(reply, Failure)
    assert (reply.error_class, reply.code) == (ErrorClass.BAD_RESPONSE, "no_id")
    assert reply.maybe_billed


FAILED: list[tuple[dict[str, Any], ErrorClass]] = [
    (response("failed", error={"code": "server_error", "message": "x"}), ErrorClass.UNAVAILABLE),
    (response("failed", error={"code": "rate_limit_exceeded", "message": "x"}), ErrorClass.RATE_LIMITED),
    (
        response("failed", error={"code": "context_length_exceeded", "message": "x"}),
        ErrorClass.CONTEXT_LENGTH,
    ),
    (response("failed"), ErrorClass.BAD_RESPONSE),
    (
        response("incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ErrorClass.OUTPUT_TRUNCATED,
    ),
    (response("incomplete", incomplete_details={"reason": "content_filter"}), ErrorClass.CONTENT_POLICY),
    (response("cancelled"), ErrorClass.CANCELLED),
    (response("expired"), ErrorClass.BAD_RESPONSE),
    (response("completed", output=[]), ErrorClass.BAD_RESPONSE),
    (response("completed", output=None), ErrorClass.BAD_RESPONSE),
]


@pytest.mark.parametrize(("value", "error_class"), FAILED)
def test_work_that_ended_badly_is_a_failure_on_submit_and_on_poll(
    value: dict[str, Any], error_class: ErrorClass
) -> None:
    with hostile(answers(value)) as server:
        submitted = submit(KIND, server, make_call(prompt="x"))
        polled = poll(server, make_call(prompt="x"), "resp_1")

    assert isinstance(submitted, Failure)
    assert isinstance(polled, Failure)
    assert submitted.error_class is error_class
    assert polled.error_class is error_class
    assert polled.facts.provider_job_id == "resp_1"


def test_tokens_of_a_failed_response_are_counted_too() -> None:
    value = response(
        "incomplete",
        incomplete_details={"reason": "max_output_tokens"},
        usage={"input_tokens": 3, "output_tokens": 900},
    )
    with hostile(answers(value)) as server:
        reply = submit(KIND, server, make_call(prompt="x"))

    assert isinstance(reply, Failure)
    assert reply.facts.usage.output_tokens == 900


# --- Poll -------------------------------------------------------------------------------------------


def test_a_poll_asks_once_with_get_and_without_an_idempotency_key() -> None:
    with hostile(answers(response("in_progress"))) as server:
        reply = poll(server, make_call(), "resp_a/b?c")

        assert server.first_line() == "GET /responses/resp_a%2Fb%3Fc HTTP/1.1"
        assert server.requests[0].endswith(b"\r\n\r\n")
        assert server.header("idempotency-key") is None
        assert server.header("x-client-request-id") == f"aijobs-{JOB}-1"
        assert len(server.requests) == 1
    assert isinstance(reply, Pending)


def test_a_finished_response_is_a_result_when_polled() -> None:
    with hostile(answers(response())) as server:
        reply = poll(server, make_call(), "resp_1")

    assert isinstance(reply, Done)


def test_a_provider_that_knows_no_such_work_says_so_apart() -> None:
    error = {"error": {"message": "no such response", "code": "not_found"}}
    with hostile(answers(error, status="404 Not Found")) as server:
        reply = poll(server, make_call(), "resp_1")

    assert isinstance(reply, PollFailed)
    assert reply.gone
    assert (reply.failure.error_class, reply.failure.code) == (ErrorClass.BAD_RESPONSE, "result_lost")
    assert reply.failure.maybe_billed
    assert reply.failure.facts.provider_job_id == "resp_1"


@pytest.mark.parametrize(
    ("raw", "error_class"),
    [
        (peers.canned({"error": {"message": "busy"}}, status="503 Busy"), ErrorClass.UNAVAILABLE),
        (peers.canned({"error": {"message": "slow down"}}, status="429 Slow"), ErrorClass.RATE_LIMITED),
        (peers.canned({"error": {"message": "who?"}}, status="401 Who"), ErrorClass.AUTH),
        (peers.canned({"error": {"code": 502, "message": "upstream"}}), ErrorClass.UNAVAILABLE),
        (peers.response(b"<html>gateway</html>"), ErrorClass.BAD_RESPONSE),
        (peers.response(b""), ErrorClass.BAD_RESPONSE),
        (peers.response(b"null"), ErrorClass.BAD_RESPONSE),
        (peers.canned({"choices": []}), ErrorClass.BAD_RESPONSE),
        (peers.response(b'{"status":"completed"', length=21), ErrorClass.BAD_RESPONSE),
    ],
)
def test_a_question_that_went_wrong_says_nothing_of_the_work(raw: bytes, error_class: ErrorClass) -> None:
    with hostile(peers.answers(raw)) as server:
        reply = poll(server, make_call(), "resp_1")

        assert len(server.requests) == 1
    assert isinstance(reply, PollFailed)
    assert not reply.gone
    assert reply.failure.error_class is error_class


@pytest.mark.parametrize(
    "behaviour", [peers.reads_and_closes, peers.reads_and_resets, peers.cuts_chunks, peers.accepts_and_closes]
)
def test_a_question_that_broke_off_is_not_asked_again(behaviour: peers.Behaviour) -> None:
    with hostile(behaviour) as server:
        reply = poll(server, make_call(), "resp_1")

        assert server.connections == 1
    assert isinstance(reply, PollFailed)
    assert reply.failure.error_class is ErrorClass.NETWORK


# --- Cancel -----------------------------------------------------------------------------------------


def test_cancelling_says_what_became_of_the_work() -> None:
    outcomes = []
    for status in ("cancelled", "completed", "in_progress"):
        with hostile(answers(response(status))) as server:
            outcomes.append(cancel(server, make_call(), "resp_1"))

            assert server.first_line() == "POST /responses/resp_1/cancel HTTP/1.1"
            assert len(server.requests) == 1
    cancelled, done, pending = outcomes

    assert isinstance(cancelled, Failure)
    assert (cancelled.error_class, cancelled.code) == (ErrorClass.CANCELLED, "cancelled")
    assert isinstance(done, Done)
    assert isinstance(pending, Pending)


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "405 No", "409 Conflict"])
def test_a_refused_cancel_looks_at_the_real_state(status: str) -> None:
    refusal = peers.canned({"error": {"message": "already finished"}}, status=status)
    with hostile(peers.answers(refusal, peers.canned(response()))) as server:
        reply = cancel(server, make_call(), "resp_1")

        assert server.first_line(0) == "POST /responses/resp_1/cancel HTTP/1.1"
        assert server.first_line(1) == "GET /responses/resp_1 HTTP/1.1"
    assert isinstance(reply, Done)


@pytest.mark.parametrize("status", ["401 Who", "429 Slow", "500 Oops", "503 Busy"])
def test_a_cancel_that_went_wrong_says_nothing_of_the_work(status: str) -> None:
    with hostile(answers({"error": {"message": "x"}}, status=status)) as server:
        reply = cancel(server, make_call(), "resp_1")

        assert len(server.requests) == 1
    assert isinstance(reply, PollFailed)
    assert reply.failure.facts.provider_job_id == "resp_1"


def test_a_cancel_that_used_up_its_time_is_not_followed_by_a_look() -> None:
    clock = ManualClock()

    def refuse_late(peer: peers.Peer) -> None:
        peer.read_request()
        clock.advance(seconds=11)
        peer.send(peers.canned({"error": {"message": "x"}}, status="409 Conflict"))

    with hostile(refuse_late) as server:
        reply = cancel(server, make_call(seconds=10), "resp_1", clock=clock)

        assert len(server.requests) == 1
    assert isinstance(reply, PollFailed)


def test_the_look_after_a_cancel_has_only_what_time_is_left() -> None:
    clock = ManualClock()

    def refuse_late_and_hang(peer: peers.Peer) -> None:
        peer.read_request()
        clock.advance(seconds=3599.9)
        peer.send(peers.canned({"error": {"message": "x"}}, status="409 Conflict"))
        peer.read_request()
        peer.hang()

    with hostile(refuse_late_and_hang) as server:
        reply = cancel(server, make_call(seconds=3600), "resp_1", clock=clock)

    assert isinstance(reply, PollFailed)
    assert reply.failure.error_class is ErrorClass.NETWORK_TIMEOUT
