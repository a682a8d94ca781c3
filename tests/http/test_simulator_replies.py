"""Every answer that is an error, or only looks like success, in each API's own form."""

from collections.abc import Callable
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.faults import REPLIES
from aijobs.http.simulator import RunningSimulator, start_in_thread
from tests.support.asking import chat, echo, message, response
from tests.support.clock import ManualClock

Ask = Callable[..., httpx.Response]
BROKEN = {
    "close_before_headers", "rst", "not_http", "short_body", "chunked_cut", "header_hang", "body_hang",
    "gzip_bad",
}  # fmt: skip


@pytest.mark.parametrize("fault", sorted(REPLIES.keys() - BROKEN - {"slow", "drip"}))
@pytest.mark.parametrize("ask", [response, chat, message, echo])
def test_every_named_fault_is_answered_by_every_api(http: httpx.Client, ask: Ask, fault: str) -> None:
    answer = ask(http, fault=fault)

    leading = fault[:3]
    if leading.isdigit():
        assert answer.status_code == int(leading)
    else:
        assert answer.status_code == 200


@pytest.mark.parametrize("status", [418, 451, 502, 504, 521, 599])
@pytest.mark.parametrize("ask", [response, chat, message, echo])
def test_any_error_status_can_be_asked_for(http: httpx.Client, ask: Ask, status: int) -> None:
    answer = ask(http, fault=str(status))

    assert answer.status_code == status
    assert answer.json()["error"]


@pytest.mark.parametrize("ask", [response, chat])
def test_errors_come_in_openais_envelope(http: httpx.Client, ask: Ask) -> None:
    error = ask(http, fault="429").json()["error"]

    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")


def test_errors_come_in_anthropics_envelope(http: httpx.Client) -> None:
    answer = message(http, fault="429_spend_limit")

    body = answer.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == "rate_limit_error"
    assert body["error"]["details"] == {"error_code": "enforced_spend_limit_reached"}
    assert body["request_id"] == answer.headers["request-id"]
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(
    "code",
    [
        "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded", "insufficient_quota",
    ],
)  # fmt: skip
def test_running_out_of_money_has_its_codes_and_no_hint(http: httpx.Client, code: str) -> None:
    answer = response(http, fault=f"429_{code}")

    assert (answer.json()["error"]["code"], answer.json()["error"]["type"]) == (code, "insufficient_quota")
    assert not {name for name in answer.headers if name.startswith("retry")}


def test_retry_after_is_seconds(http: httpx.Client) -> None:
    assert response(http, fault="429").headers["retry-after"] == "1"
    assert response(http, fault="429=7").headers["retry-after"] == "7"
    assert response(http, fault="429=0.5").headers["retry-after"] == "0.5"


def test_retry_after_comes_in_milliseconds_beside_seconds(http: httpx.Client) -> None:
    headers = response(http, fault="429_ms").headers

    assert (headers["retry-after-ms"], headers["retry-after"]) == ("1500", "2")


def test_retry_after_as_a_date_is_counted_from_the_servers_clock(clock: ManualClock) -> None:
    with (
        start_in_thread(clock=clock, chance=seeded_chance(1)) as simulator,
        httpx.Client(base_url=simulator.url, trust_env=False) as http,
    ):
        headers = response(http, fault="429_httpdate=30").headers

    assert parsedate_to_datetime(headers["retry-after"]) == clock.now() + timedelta(seconds=30)
    assert parsedate_to_datetime(headers["date"]).astimezone(UTC) == clock.now()


def test_only_the_reset_headers_tell_when_to_come_back(http: httpx.Client) -> None:
    headers = response(http, fault="429_reset_6m0s").headers

    assert "retry-after" not in headers
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-ratelimit-reset-requests"] == "6m0s"
    assert headers["x-ratelimit-reset-tokens"] == "1.2s"


def test_anthropics_reset_is_an_instant(clock: ManualClock) -> None:
    with (
        start_in_thread(clock=clock) as simulator,
        httpx.Client(base_url=simulator.url, trust_env=False) as http,
    ):
        headers = message(http, fault="429=60").headers

    assert headers["anthropic-ratelimit-requests-reset"] == "2026-01-01T00:01:00Z"
    assert headers["anthropic-ratelimit-requests-remaining"] == "0"


def test_hints_can_be_missing_unknown_or_nonsense(http: httpx.Client) -> None:
    azure = response(http, fault="429_azure").headers

    assert (azure["x-ratelimit-remaining-tokens"], azure["x-ratelimit-reset-tokens"]) == ("-1", "0")
    assert response(http, fault="429_nonsense").headers["retry-after"] == "soon"
    assert "retry-after" not in response(http, fault="429_no_hint").headers


def test_a_server_may_say_whether_to_retry(http: httpx.Client) -> None:
    assert response(http, fault="500_no_retry").headers["x-should-retry"] == "false"
    assert response(http, fault="400_should_retry").headers["x-should-retry"] == "true"


def test_a_budget_in_flight_is_a_402_that_says_when_to_come_back(http: httpx.Client) -> None:
    assert "retry-after" in response(http, fault="402_inflight").headers
    assert "retry-after" not in response(http, fault="402").headers


def test_a_gateways_errors_keep_their_odd_forms(http: httpx.Client) -> None:
    assert response(http, fault="429_scaleway_string").json()["error"] == "INSUFFICIENT QUOTA"
    assert response(http, fault="422_budget").json()["error"]["type"] == "budget_exceeded"
    assert response(http, fault="500_html").text.startswith("<!DOCTYPE html>")
    assert response(http, fault="524_html").headers["content-type"].startswith("text/html")
    assert response(http, fault="524_problem_json").json()["status"] == 524
    assert response(http, fault="302").headers["location"] == "/elsewhere"


def test_an_error_may_repeat_what_must_not_be_logged(http: httpx.Client) -> None:
    echoed = response(http, "my secret plan", fault="400_echo").json()["error"]["message"]
    key = http.post(
        "/v1/responses", json={"model": "m", "input": "x"},
        headers={"authorization": "Bearer sk-live-1", "x-simulator-fault": "401_echo_key"},
    )  # fmt: skip

    assert "my secret plan" in echoed
    assert "sk-live-1" in key.json()["error"]["message"]


@pytest.mark.parametrize("ask", [response, chat, message, echo])
def test_success_that_is_none_comes_with_status_200(http: httpx.Client, ask: Ask) -> None:
    def body(fault: str) -> bytes:
        answer = ask(http, fault=fault)
        assert answer.status_code == 200
        return answer.content

    assert body("200_null") == b"null"
    assert body("200_empty") == b""
    assert body("200_array").startswith(b"[{")
    assert body("200_html").startswith(b"<!DOCTYPE")
    assert b'"error":' in body("200_error_obj")
    with pytest.raises(ValueError, match=r"JSON|Unterminated|Expecting"):
        ask(http, fault="200_truncated_json").json()


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("finish_length", ("incomplete", "max_output_tokens", True)),
        ("finish_length_null_content", ("incomplete", "max_output_tokens", True)),
        ("finish_filter", ("incomplete", "content_filter", False)),
        ("finish_error", ("failed", None, False)),
        ("choices_empty", ("completed", None, False)),
        ("empty_output", ("completed", None, True)),
        ("refusal", ("completed", None, True)),
        ("status_in_progress", ("in_progress", None, False)),
        ("status_unknown", ("paused", None, True)),
        ("status_missing", (None, None, True)),
    ],
)
def test_a_response_may_finish_without_being_finished(
    http: httpx.Client, fault: str, expected: tuple[str | None, str | None, bool]
) -> None:
    body = response(http, fault=fault).json()

    reason = (body["incomplete_details"] or {}).get("reason")
    assert (body.get("status"), reason, bool(body["output"])) == expected


@pytest.mark.parametrize(
    ("fault", "some"), [("finish_length", True), ("finish_length_null_content", False), ("refusal", False)]
)
def test_an_unfinished_response_has_text_or_none(http: httpx.Client, fault: str, some: bool) -> None:
    (item,) = response(http, fault=fault).json()["output"]

    texts = [part["text"] for part in item.get("content", []) if part["type"] == "output_text"]
    assert bool(texts) is some


@pytest.mark.parametrize(
    ("fault", "finish", "content"),
    [
        ("finish_length", "length", True),
        ("finish_length_null_content", "length", False),
        ("finish_filter", "content_filter", False),
        ("finish_error", "error", True),
        ("refusal", "stop", False),
        ("empty_output", "stop", False),
        ("status_missing", None, True),
        ("status_unknown", "paused", True),
    ],
)
def test_a_chat_completion_may_finish_without_being_finished(
    http: httpx.Client, fault: str, finish: str | None, content: bool
) -> None:
    (choice,) = chat(http, fault=fault).json()["choices"]

    assert choice.get("finish_reason") == finish
    assert bool(choice["message"]["content"]) is content


def test_choices_may_be_empty_or_null(http: httpx.Client) -> None:
    assert chat(http, fault="choices_empty").json()["choices"] == []
    assert chat(http, fault="choices_null").json()["choices"] is None
    assert message(http, fault="choices_empty").json()["content"] == []


@pytest.mark.parametrize(
    ("fault", "stop"),
    [
        ("finish_length", "max_tokens"),
        ("refusal", "refusal"),
        ("finish_filter", "refusal"),
        ("status_in_progress", "pause_turn"),
        ("status_missing", None),
    ],
)
def test_a_message_may_stop_for_other_reasons(http: httpx.Client, fault: str, stop: str | None) -> None:
    assert message(http, fault=fault).json().get("stop_reason") == stop


def test_a_message_may_carry_an_error_under_status_200(http: httpx.Client) -> None:
    answer = message(http, fault="finish_error")

    assert (answer.status_code, answer.json()["error"]["type"]) == (200, "overloaded_error")


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [("failed_server_error", 500, "server_error"), ("failed_context", 400, "context_length_exceeded")],
)
def test_work_that_fails_is_an_error_where_there_are_no_response_objects(
    http: httpx.Client, fault: str, status: int, code: str
) -> None:
    answer = chat(http, fault=fault)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_work_that_is_incomplete_shows_in_the_finish_reason(http: httpx.Client) -> None:
    assert chat(http, fault="incomplete_max").json()["choices"][0]["finish_reason"] == "length"
    assert message(http, fault="incomplete_filter").json()["stop_reason"] == "refusal"


def test_slow_takes_its_time(simulator: RunningSimulator, http: httpx.Client) -> None:
    response(http, fault="slow=0.2")

    (call,) = simulator.calls()
    assert call.finished_at is not None
    assert call.finished_at - call.at >= timedelta(seconds=0.2)


@pytest.mark.parametrize("ask", [response, chat, message, echo])
def test_the_same_question_gets_the_same_answer(http: httpx.Client, ask: Ask) -> None:
    def said(text: str) -> Any:
        return _text(ask(http, text).json())

    assert said("The sea is wide.") == said("The sea is wide.")
    assert "The sea is wide." in said("The sea is wide.")
    assert said("The sea is wide.") != said("The sky is blue.")


def _text(body: dict[str, Any]) -> str:
    match body:
        case {"choices": [{"message": {"content": text}}]} | {"content": [{"text": text}]}:
            return str(text)
        case {"output": [{"content": [{"text": text}]}]} | {"output": text}:
            return str(text)
        case _:
            raise AssertionError(body)


def test_usage_grows_with_the_text_and_speaks_each_apis_words(http: httpx.Client) -> None:
    long = "word " * 400

    assert response(http, long).json()["usage"]["input_tokens"] == 500
    assert chat(http, long).json()["usage"]["prompt_tokens"] == 500
    assert message(http, long).json()["usage"]["input_tokens"] == 500


def test_the_output_bound_cuts_the_answer(http: httpx.Client) -> None:
    body = response(http, max_output_tokens=4).json()

    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert body["usage"]["output_tokens"] == 4
    assert chat(http, max_tokens=4).json()["choices"][0]["finish_reason"] == "length"
    assert message(http, max_tokens=4).json()["stop_reason"] == "max_tokens"


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/responses", {"input": "x"}, {}),
        ("/v1/responses", {"model": "m"}, {}),
        ("/v1/responses", {"model": "m", "input": "x", "metadata": {"a": 1}}, {}),
        ("/v1/responses", {"model": "m", "input": "x", "metadata": {"a" * 65: "x"}}, {}),
        ("/v1/responses", {"model": "m", "input": "x", "metadata": {str(i): "x" for i in range(17)}}, {}),
        ("/v1/responses", {"model": "m", "input": "x"}, {"x-client-request-id": "x" * 513}),
        ("/v1/responses", {"model": "m", "input": "x", "stream": True}, {}),
        ("/v1/chat/completions", {"model": "m", "messages": []}, {}),
        (
            "/v1/messages",
            {"model": "m", "messages": [{"role": "user", "content": "x"}]},
            {"anthropic-version": "1"},
        ),
        ("/v1/messages", {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}, {}),
        (
            "/v1/messages",
            {
                "model": "m",
                "max_tokens": 1,
                "temperature": 0.1,
                "messages": [{"role": "user", "content": "x"}],
            },
            {"anthropic-version": "2026-10-21"},
        ),
        ("/v1/responses", {"model": "m", "input": "x", "simulator": {"fault": "no_such"}}, {}),
        ("/v1/responses", {"model": "m", "input": "x", "simulator": {"falt": "429"}}, {}),
        ("/v1/responses", {"model": "m", "input": "x"}, {"x-simulator-latency": "soon"}),
    ],
)
def test_what_the_real_api_would_not_take_is_refused(
    http: httpx.Client, path: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    answer = http.post(path, json=body, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(http: httpx.Client, content: bytes) -> None:
    assert http.post("/v1/responses", content=content).status_code == 400


def test_a_body_that_is_too_large_is_refused(http: httpx.Client) -> None:
    assert http.post("/v1/echo", content=b" " * (33 << 20)).status_code == 413


@pytest.mark.parametrize("ask", [response, chat, message])
def test_a_model_that_is_not_there_is_not_found(ask: Ask) -> None:
    with (
        start_in_thread(models=("m-2", "m-3")) as simulator,
        httpx.Client(base_url=simulator.url, trust_env=False) as http,
    ):
        missing, present = ask(http, model="m-1"), ask(http, model="m-3")
        listed = [model["id"] for model in http.get("/v1/models").json()["data"]]

    assert (missing.status_code, present.status_code) == (404, 200)
    assert "'m-1' does not exist" in missing.json()["error"]["message"]
    assert listed == ["m-2", "m-3"]
    assert simulator.billed() == 1
