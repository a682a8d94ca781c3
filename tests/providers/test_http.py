"""Kind `http`: any endpoint of one's own."""

from typing import Any

import pytest

from aijobs.core.model import Done, ErrorClass, Failure
from tests.support import hostile as peers
from tests.support.adapters import SECRET, submit
from tests.support.calls import JOB, make_call
from tests.support.hostile import hostile

KIND = "http"


def result_of(raw: bytes, **settings: Any) -> object:
    """The stored result, or the class and code of the failure."""
    with hostile(peers.answers(raw)) as server:
        reply = submit(KIND, server, make_call(input={"a": 1}), **settings)
    if isinstance(reply, Done):
        return reply.result
    assert isinstance(reply, Failure)
    return reply.error_class, reply.code


def test_the_input_is_sent_with_the_types_request_merged_in() -> None:
    with hostile(peers.answers_json({})) as server:
        submit(KIND, server, make_call(input={"a": {"x": 1}}, request={"a": {"y": 2}}), path="/run?mode=fast")

        assert server.first_line() == "POST /run?mode=fast HTTP/1.1"
        assert server.body() == {"a": {"x": 1, "y": 2}}
        assert server.header("idempotency-key") == f"{JOB}-1"
        assert server.header("authorization") == f"Bearer {SECRET}"


def test_the_idempotency_key_is_the_same_over_the_attempts_and_the_request_id_is_not() -> None:
    first = make_call()
    second = make_call()
    object.__setattr__(second, "attempt", 2)
    object.__setattr__(second, "client_request_id", f"aijobs-{JOB}-2")
    with hostile(peers.answers_json({})) as server:
        submit(KIND, server, first)
        submit(KIND, server, second)

        assert server.header("idempotency-key", 0) == server.header("idempotency-key", 1)
        assert server.header("x-client-request-id", 0) != server.header("x-client-request-id", 1)


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("input", {"a": 1}),
        ("prompt", {"prompt": "rendered"}),
        (
            "envelope",
            {"job": JOB, "type": "summarize", "attempt": 1, "input": {"a": 1}, "prompt": "rendered"},
        ),
    ],
)
def test_the_body_has_one_of_three_forms(form: str, body: object) -> None:
    with hostile(peers.answers_json({})) as server:
        submit(KIND, server, make_call(input={"a": 1}, prompt="rendered"), body=form)

        assert server.body() == body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_the_method_is_the_configurations(method: str) -> None:
    with hostile(peers.answers_json({})) as server:
        submit(KIND, server, make_call(), method=method)

        assert server.first_line().startswith(f"{method} / ")


def test_get_sends_no_body() -> None:
    with hostile(peers.answers_json({"state": "fine"})) as server:
        reply = submit(KIND, server, make_call(input={"a": 1}), method="GET")

        assert server.requests[0].endswith(b"\r\n\r\n")
        assert server.header("content-type") is None
    assert isinstance(reply, Done)


@pytest.mark.parametrize(
    ("raw", "result"),
    [
        (peers.canned({"b": [1, 2.5, "é"]}), '{"b":[1,2.5,"é"]}'),
        (peers.canned([1]), "[1]"),
        (peers.canned("text"), '"text"'),
        (peers.canned({"ok": True}, status="201 Created"), '{"ok":true}'),
        (peers.response(b"plain words", headers=("Content-Type: text/plain",)), '{"text":"plain words"}'),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "null"),
        (peers.response(b""), "null"),
    ],
)
def test_a_2xx_answer_is_the_result(raw: bytes, result: str) -> None:
    assert result_of(raw) == result


@pytest.mark.parametrize(
    ("raw", "error_class"),
    [
        (peers.response(b"<!doctype html><p>Sign in</p>"), ErrorClass.BAD_RESPONSE),
        (peers.response(b"data: {}\n\n"), ErrorClass.BAD_RESPONSE),
        (peers.canned({"error": "out of order", "message": "x"}), ErrorClass.BAD_RESPONSE),
        (peers.response(b"", status="302 Found", headers=("Location: /login",)), ErrorClass.INVALID_REQUEST),
        (peers.canned({"detail": "no"}, status="422 No"), ErrorClass.INVALID_REQUEST),
        (peers.canned({}, status="404 No"), ErrorClass.NOT_FOUND),
        (peers.canned({}, status="429 Slow"), ErrorClass.RATE_LIMITED),
        (peers.response(b"oops", status="500 Oops"), ErrorClass.UNAVAILABLE),
        (peers.response(b"<html>", status="504 Gateway Timeout"), ErrorClass.NETWORK_TIMEOUT),
    ],
)
def test_anything_else_is_a_failure(raw: bytes, error_class: ErrorClass) -> None:
    found = result_of(raw)

    assert isinstance(found, tuple)
    assert found[0] is error_class


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("data", '{"items":[{"text":"deep"}]}'),
        ("data.items.0.text", '"deep"'),
        ("data.items.1", (ErrorClass.BAD_RESPONSE, "no_result")),
        ("data.items.-1", (ErrorClass.BAD_RESPONSE, "no_result")),
        ("data.items.first", (ErrorClass.BAD_RESPONSE, "no_result")),
        ("nothing", (ErrorClass.BAD_RESPONSE, "no_result")),
        ("none.deeper", (ErrorClass.BAD_RESPONSE, "no_result")),
        ("none", "null"),
    ],
)
def test_the_result_may_stand_somewhere_inside_the_answer(path: str, result: object) -> None:
    raw = peers.canned({"data": {"items": [{"text": "deep"}]}, "none": None})

    assert result_of(raw, result=path) == result


def test_the_limits_on_connecting_and_on_the_answer_are_the_providers() -> None:
    with peers.unanswered_port() as port:
        too_slow = submit(KIND, f"http://127.0.0.1:{port}", make_call(), connect_timeout="200ms")
    with hostile(peers.answers_json("x" * 200)) as server:
        too_large = submit(KIND, server, make_call(), max_response_bytes=100)

    assert isinstance(too_slow, Failure)
    assert isinstance(too_large, Failure)
    assert (too_slow.code, too_large.code) == ("connect_timeout", "too_large")


def test_text_where_json_was_expected_is_a_failure() -> None:
    with hostile(peers.answers(peers.response(b"words", headers=("Content-Type: text/plain",)))) as server:
        reply = submit(KIND, server, make_call(expects_json=True))

    assert isinstance(reply, Failure)
    assert reply.error_class is ErrorClass.BAD_RESPONSE
