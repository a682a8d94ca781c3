"""Every way in which a 200 is not a success, and every way in which it is (cases B07, B08, B10, B11, B13)."""

# ruff: noqa: E501  # a row a line: a table is read across

import json

import pytest

from aijobs.core.answers import Usable, Working, is_about_work, read_answer
from aijobs.core.classifier import Operation
from aijobs.core.envelope import read_body
from aijobs.core.model import CallFacts, ErrorClass, Failure, Usage
from aijobs.core.retry import BY_PROVIDER
from tests.support.refusals import anthropic, context, openai

E = ErrorClass
RESPONSES, CHAT, MESSAGES = "openai-responses", "openai-chat", "anthropic"
KINDS = (RESPONSES, CHAT, MESSAGES)


def read(kind: str, body: object, **changes: object) -> Usable | Working | Failure:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(context(kind, **changes), status=200, headers={}, body=read_body(data))


def response(status: object = "completed", *parts: object, **more: object) -> dict[str, object]:
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": list(parts)}]
    return {"id": "resp_1", "object": "response", "status": status, "error": None, "output": output, **more}


def said(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text}


def chat(finish: object = "stop", content: object = "hello", **message: object) -> dict[str, object]:
    return {"id": "c", "choices": [{"finish_reason": finish, "message": {"content": content, **message}}]}


def message(stop: object = "end_turn", *blocks: object, **more: object) -> dict[str, object]:
    return {"id": "msg_1", "type": "message", "content": list(blocks), "stop_reason": stop, **more}


def block(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def gemini(finish: object = "STOP", *parts: object) -> dict[str, object]:
    return {"candidates": [{"finishReason": finish, "content": {"parts": list(parts)}}]}


def incomplete(reason: object) -> dict[str, object]:
    return response("incomplete", said("half"), incomplete_details={"reason": reason})


# --- Whole answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "body", "text", "finish"),
    [
        (RESPONSES, response("completed", said("hel"), said("lo")), "hello", "stop"),
        (RESPONSES, {**response(), "output": [{"type": "function_call", "name": "f"}]}, "", "stop"),
        (CHAT, chat(), "hello", "stop"),
        (CHAT, chat("STOP"), "hello", "STOP"),
        (
            CHAT,
            chat(content=[{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]),
            "hello",
            "stop",
        ),
        (CHAT, chat("tool_calls", None, tool_calls=[{"id": "t"}]), "", "tool_calls"),
        (CHAT, chat("function_call", None, function_call={"name": "f"}), "", "function_call"),
        (CHAT, chat("eos"), "hello", "eos"),
        (MESSAGES, message("end_turn", block("hel"), block("lo")), "hello", "end_turn"),
        (MESSAGES, message("stop_sequence", block("hello")), "hello", "stop_sequence"),
        (MESSAGES, message("tool_use", {"type": "tool_use", "id": "t"}), "", "tool_use"),
        (CHAT, gemini("STOP", {"text": "hel"}, {"text": "lo"}), "hello", "STOP"),
        (CHAT, gemini("STOP", {"functionCall": {}}), "", "STOP"),
        # A simulator, or a gateway, speaks the language that its answer shows.
        ("simulator", response("completed", said("hello")), "hello", "stop"),
        ("simulator", chat(), "hello", "stop"),
        ("simulator", message("end_turn", block("hello")), "hello", "end_turn"),
        (CHAT, response("completed", said("hello")), "hello", "stop"),
    ],
)
def test_a_whole_answer_is_usable(kind, body, text, finish):
    assert read(kind, body) == Usable(value=body, text=text, finish=finish)


@pytest.mark.parametrize("value", [{"x": 1}, [1], "text", 0, False, {"status": "queued"}, {"choices": []}])
def test_any_json_but_null_is_an_answer_of_a_plain_endpoint(value):
    assert read("http", value) == Usable(value=value, text=value if isinstance(value, str) else "")


@pytest.mark.parametrize("finish", [None, 3])
def test_a_missing_finish_reason_is_noted_and_the_text_has_to_do(finish):
    read_as = read(CHAT, chat(finish))

    assert isinstance(read_as, Usable)
    assert read_as.text == "hello"
    assert read_as.notes == ("the provider gave no finish_reason",)


def test_a_content_filter_that_did_not_run_is_noted():
    body = chat()
    body["choices"][0]["content_filter_results"] = {"error": {"code": "x"}}

    assert read(CHAT, body).notes == ("the provider's content filter did not run",)


# --- Unfinished work --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["queued", "in_progress"])
@pytest.mark.parametrize("operation", Operation)
def test_unfinished_work_is_polled_whether_or_not_it_was_asked_for(status, operation):
    body = response(status)

    assert read(RESPONSES, body, operation=operation) == Working(value=body, status=status)


# --- Table C: what is no answer ---------------------------------------------------------------------

TRUNCATED = [
    (RESPONSES, incomplete("max_output_tokens"), "max_output_tokens"),
    (RESPONSES, incomplete("max_messages"), "max_messages"),
    (RESPONSES, {**incomplete("max_output_tokens"), "output": [{"type": "reasoning"}]}, "max_output_tokens"),
    (CHAT, chat("length"), "length"),
    (CHAT, chat("length", None), "length"),
    (CHAT, {"choices": [{"finish_reason": "length", "message": None}]}, "length"),
    (CHAT, chat("model_length"), "model_length"),
    (MESSAGES, message("max_tokens", block("half")), "max_tokens"),
    (MESSAGES, message("max_tokens"), "max_tokens"),
    (MESSAGES, message("model_context_window_exceeded", block("half")), "model_context_window_exceeded"),
    (CHAT, gemini("MAX_TOKENS", {"text": "half"}), "MAX_TOKENS"),
]
REFUSED = [
    (RESPONSES, incomplete("content_filter"), "content_filter"),
    (RESPONSES, response("completed", {"type": "refusal", "refusal": "no"}), "refusal"),
    (RESPONSES, response("completed", said("I "), {"type": "refusal", "refusal": "no"}), "refusal"),
    (CHAT, chat("content_filter"), "content_filter"),
    (CHAT, chat("content_filter", None), "content_filter"),
    (CHAT, chat("stop", None, refusal="no"), "refusal"),
    (MESSAGES, message("refusal", block("half")), "refusal"),
    (MESSAGES, message("refusal", stop_details={"category": "bio"}), "refusal"),
    *[(CHAT, {"promptFeedback": {"blockReason": reason}}, reason) for reason in ("SAFETY", "OTHER", "JAILBREAK")],
    *[(CHAT, gemini(reason), reason) for reason in (
        "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_OTHER")],
]  # fmt: skip
MALFORMED = [
    *[(kind, data, code) for kind in (*KINDS, "http") for data, code in (
        (b"", "not_json_empty"), (b" \n", "not_json_empty"), (b"<html><body>hi", "not_json_html"), (b"hi", "not_json_text"),
        (b'{"a": 1', "not_json_text"), (b"null", "null"), (b'data: {"a": 1}\n\n', "not_json_events"))],
    *[(kind, data, "not_an_object") for kind in KINDS for data in (b"[]", b'[{"id": "x"}]', b"3", b'"x"', b"true")],
    (CHAT, {"id": "x"}, "no_choices"),
    (CHAT, {"choices": None}, "no_choices"),
    (CHAT, {"choices": []}, "no_choices"),
    (CHAT, {"choices": [None]}, "no_choices"),
    (CHAT, {"choices": {}}, "no_choices"),
    (CHAT, {"choices": [], "prompt_filter_results": []}, "no_choices"),
    (CHAT, {"choices": [{"finish_reason": "stop"}]}, "no_message"),
    (CHAT, {"choices": [{"finish_reason": "stop", "message": []}]}, "no_message"),
    (CHAT, {"choices": [{"message": {"content": None}}]}, "empty_output"),
    (CHAT, chat("stop", ""), "empty_output"),
    (CHAT, chat("stop", None), "empty_output"),
    (CHAT, chat("stop", 3), "empty_output"),
    (CHAT, chat("stop", [{"type": "image"}, None]), "empty_output"),
    (CHAT, chat("tool_calls", None, tool_calls=[]), "empty_output"),
    (CHAT, chat(None, None), "empty_output"),
    (CHAT, chat("paused"), "paused"),
    (CHAT, {"candidates": []}, "no_choices"),
    (CHAT, {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}, "no_finish_reason"),
    (CHAT, gemini("STOP"), "empty_output"),
    *[(CHAT, gemini(reason), reason) for reason in ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "OTHER", "NEW")],
    (RESPONSES, response(), "empty_output"),
    (RESPONSES, response("completed", said("")), "empty_output"),
    (RESPONSES, response("completed", {"type": "summary_text", "text": "x"}), "empty_output"),
    (RESPONSES, response("completed", {"type": "output_text", "text": None}), "empty_output"),
    (RESPONSES, {**response(), "output": None}, "empty_output"),
    (RESPONSES, {**response(), "output": [{"type": "reasoning"}]}, "empty_output"),
    (RESPONSES, {**response(), "output": [None, {"type": "message", "content": None}]}, "empty_output"),
    (RESPONSES, response("incomplete"), "incomplete"),
    (RESPONSES, incomplete("steered"), "steered"),
    (RESPONSES, incomplete("brand_new"), "brand_new"),
    (RESPONSES, response("failed"), "failed"),
    (MESSAGES, message("end_turn"), "empty_output"),
    (MESSAGES, message("end_turn", block("")), "empty_output"),
    (MESSAGES, message("tool_use"), "empty_output"),
    (MESSAGES, message("pause_turn", block("half")), "pause_turn"),
    (MESSAGES, message("brand_new", block("x")), "brand_new"),
    (MESSAGES, message(None, block("x")), "no_stop_reason"),
    (MESSAGES, {"id": "x", "content": [block("x")]}, "no_stop_reason"),
    (MESSAGES, {**message(), "content": None}, "empty_output"),
]  # fmt: skip
TABLE_C = [
    *[(*row, E.OUTPUT_TRUNCATED) for row in TRUNCATED],
    *[(*row, E.CONTENT_POLICY) for row in REFUSED],
    *[(*row, E.BAD_RESPONSE) for row in MALFORMED],
    (CHAT, chat("insufficient_system_resource"), "insufficient_system_resource", E.UNAVAILABLE),
]


@pytest.mark.parametrize(("kind", "body", "code", "error_class"), TABLE_C)
def test_what_is_no_whole_answer_is_a_failure_that_may_have_been_billed(kind, body, code, error_class):
    given = read(kind, body, facts=CallFacts(usage=Usage(output_tokens=9)))

    assert isinstance(given, Failure)
    assert (given.error_class, given.code) == (error_class, code)
    assert given.maybe_billed
    assert given.message
    assert given.facts.http_status == 200
    assert given.facts.usage.output_tokens == 9


@pytest.mark.parametrize("status", ["expired", "paused", "", None, 3, ["queued"], "COMPLETED"])
def test_a_status_nobody_has_seen_is_final_and_shown(status):
    given = read(RESPONSES, response(status, said("x")))

    assert isinstance(given, Failure)
    assert (given.error_class, given.code) == (E.BAD_RESPONSE, "unknown_status")
    assert repr(status) in given.message


def test_a_missing_status_is_final_too():
    body = response("completed", said("x"))
    del body["status"]

    given = read(RESPONSES, body)

    assert isinstance(given, Failure)
    assert given.code == "unknown_status"


@pytest.mark.parametrize(
    ("operation", "code"),
    [(Operation.SUBMIT, BY_PROVIDER), (Operation.POLL, BY_PROVIDER), (Operation.CANCEL, "cancelled")],
)
def test_cancelled_work_is_told_from_work_that_we_cancelled(operation, code):
    given = read(RESPONSES, response("cancelled"), operation=operation)

    assert isinstance(given, Failure)
    assert (given.error_class, given.code) == (E.CANCELLED, code)


# --- Errors in disguise -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "body", "error_class", "word"),
    [
        (CHAT, {"error": {"code": 429, "message": "slow down"}}, E.RATE_LIMITED, "slow down"),
        (CHAT, {**chat(), "error": {"code": 502, "message": "upstream"}}, E.UNAVAILABLE, "upstream"),
        (RESPONSES, {**response("failed"), "error": {"code": "server_error", "message": "oops"}}, E.UNAVAILABLE, "oops"),
        (RESPONSES, {**response("completed", said("x")), "error": {"code": "server_error"}}, E.UNAVAILABLE, "server_error"),
        (MESSAGES, anthropic("overloaded_error", "Overloaded"), E.UNAVAILABLE, "Overloaded"),
        ("http", openai("slow_down", message="ease off"), E.RATE_LIMITED, "ease off"),
    ],
)  # fmt: skip
def test_an_error_object_goes_before_everything_else_in_a_200(kind, body, error_class, word):
    given = read(kind, body)

    assert isinstance(given, Failure)
    assert given.error_class is error_class
    assert word in f"{given.message} {given.code}"


@pytest.mark.parametrize(
    ("choice", "error_class", "code"),
    [
        ({"error": {"code": 502, "message": "x"}}, E.UNAVAILABLE, "502"),
        ({"error": {"code": 429, "message": "x"}}, E.RATE_LIMITED, "429"),
        ({"error": {"code": "context_length_exceeded"}}, E.CONTEXT_LENGTH, "context_length_exceeded"),
        ({"native_finish_reason": "MALFORMED_FUNCTION_CALL"}, E.BAD_RESPONSE, "malformed_function_call"),
        ({"native_finish_reason": "SAFETY"}, E.CONTENT_POLICY, "safety"),
        ({"error": None}, E.BAD_RESPONSE, "error_in_answer"),
        ({"error": {}}, E.BAD_RESPONSE, "error_in_answer"),
        ({}, E.BAD_RESPONSE, "error_in_answer"),
    ],
)
def test_a_model_that_failed_half_way_is_classified_by_what_the_gateway_says(choice, error_class, code):
    body = {"choices": [{"finish_reason": "error", "message": {"content": "half"}, **choice}]}

    given = read(CHAT, body)

    assert isinstance(given, Failure)
    assert (given.error_class, given.code) == (error_class, code)


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        (MESSAGES, [{"type": "message_start"}, {"type": "content_block_delta", "delta": {"text": "half"}}]),
        (CHAT, [{"choices": [{"delta": {"content": "half"}}]}]),
        (CHAT, [{"choices": [{"delta": {"content": "half"}, "finish_reason": "stop"}]}]),
    ],
)
def test_a_stream_that_nobody_asked_for_is_never_taken_for_an_answer(kind, events):
    data = (
        b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    )

    given = read(kind, data)

    assert isinstance(given, Failure)
    assert (given.error_class, given.code) == (E.BAD_RESPONSE, "not_json_events")


# --- JSON wanted ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["plain", "```json\n{}\n```", '{"a": 1', "{} {}"])
@pytest.mark.parametrize("make", [lambda t: (RESPONSES, response("completed", said(t))), lambda t: (CHAT, chat("stop", t)),
                                  lambda t: (MESSAGES, message("end_turn", block(t)))])  # fmt: skip
def test_text_that_is_no_json_fails_where_json_was_asked_for(text, make):
    kind, body = make(text)

    given = read(kind, body, expects_json=True)

    assert isinstance(given, Failure)
    assert (given.error_class, given.code) == (E.BAD_RESPONSE, "invalid_output")
    assert isinstance(read(kind, body), Usable)


def test_json_where_json_was_asked_for_is_usable():
    assert isinstance(read(CHAT, chat("stop", ' {"a": [1]}\n'), expects_json=True), Usable)
    assert isinstance(read("http", {"a": 1}, expects_json=True), Usable)


# --- What else --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "about"),
    [
        (response("queued"), True),
        (response("paused"), True),
        ({"id": "x", "object": "response"}, True),
        ({"id": "x", "status": "failed"}, True),
        ({"id": "x"}, False),
        ({"status": "queued"}, False),
        (openai(), False),
        (None, False),
        ([], False),
    ],
)
def test_an_account_of_the_work_is_told_from_an_answer_that_went_wrong(value, about):
    assert is_about_work(value) is about


def test_a_refusal_says_what_it_is_about():
    given = read(MESSAGES, message("refusal", stop_details={"category": "bio"}))

    assert isinstance(given, Failure)
    assert given.message == "the model refuses: bio"
    assert read(MESSAGES, message("refusal")).message == "the model refuses: no category given"


def test_a_malformed_answer_keeps_a_bounded_copy_without_the_input():
    prompt = "the quick brown fox jumps over the lazy dog"
    body = f"<html>{prompt} a@b.example {'pad ' * 3000}".encode()

    given = read(CHAT, body, echo_of=lambda: prompt)

    assert isinstance(given, Failure)
    assert "[input]" in given.message
    assert "fox" not in given.message
    assert "a@b" not in given.message
    assert len(given.message.encode()) <= 2048


def test_a_deep_answer_is_read_or_refused_and_never_a_crash():
    for depth in (50, 500, 900, 990, 5000, 100_000):
        for kind in (*KINDS, "http"):
            read(kind, b'{"choices":' + b"[" * depth + b"]" * depth + b"}")
            read(kind, b'{"output":' * depth + b"1" + b"}" * depth)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", [{}, [], 7, None], ids=str)
def test_a_part_whose_type_is_no_text_is_passed_over(kind, odd):
    body = {
        RESPONSES: response("completed", said("hello")),
        CHAT: chat(content=[{"type": odd, "text": "hello"}]),
        MESSAGES: message("end_turn", {"type": odd}, {"type": "text", "text": "hello"}),
    }[kind]
    if kind == RESPONSES:
        body["output"].append({"type": odd, "content": []})

    found = read(kind, body)

    assert isinstance(found, Usable)
    assert found.text == "hello"
