"""Every row of the tables: which fault, status and words mean which class, with all that goes with it."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.classifier import (
    FAULTS,
    FaultKind,
    Operation,
    TransportFault,
    classify_fault,
)
from aijobs.core.classifier_tables import RESULT_LOST, RULES, SLOW_DOWN, STATUSES
from aijobs.core.model import CallFacts, ErrorClass, Failure, Phase
from aijobs.core.retry import POOL_TIMEOUT
from aijobs.core.retry import RESULT_LOST as RETRIED_RESULT_LOST
from tests.support.refusals import CURRENT_QUOTA, anthropic, context, failure, openai, openrouter

E = ErrorClass
K = FaultKind
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENT = [phase for phase in Phase if phase.maybe_billed]


# --- Table A: no response ---------------------------------------------------------------------------

TABLE_A = [
    # kind, phase, class, maybe billed
    (K.CONNECT_ERROR, Phase.CONNECTING, E.NETWORK, False),
    (K.PROXY_ERROR, Phase.CONNECTING, E.NETWORK, False),
    (K.CONNECT_TIMEOUT, Phase.CONNECTING, E.NETWORK_TIMEOUT, False),
    (K.POOL_TIMEOUT, Phase.CONNECTING, E.INTERNAL, False),
    (K.WRITE_TIMEOUT, Phase.SENT, E.NETWORK_TIMEOUT, True),
    (K.WRITE_ERROR, Phase.SENT, E.NETWORK, True),
    (K.READ_TIMEOUT, Phase.SENT, E.NETWORK_TIMEOUT, True),
    (K.READ_TIMEOUT, Phase.BODY, E.NETWORK_TIMEOUT, True),
    (K.TOTAL_DEADLINE, Phase.CONNECTING, E.NETWORK_TIMEOUT, False),
    (K.TOTAL_DEADLINE, Phase.SENT, E.NETWORK_TIMEOUT, True),
    (K.READ_ERROR, Phase.SENT, E.NETWORK, True),
    (K.CLOSE_ERROR, Phase.BODY, E.NETWORK, True),
    (K.REMOTE_PROTOCOL, Phase.SENT, E.NETWORK, True),
    (K.REMOTE_PROTOCOL, Phase.HEADERS, E.NETWORK, True),
    (K.TLS_CONFIG, Phase.CONNECTING, E.INVALID_REQUEST, False),
    (K.LOCAL_PROTOCOL, Phase.PREPARING, E.INVALID_REQUEST, False),
    (K.UNSUPPORTED_PROTOCOL, Phase.PREPARING, E.INVALID_REQUEST, False),
    (K.INVALID_URL, Phase.PREPARING, E.INVALID_REQUEST, False),
    (K.TOO_MANY_REDIRECTS, Phase.BODY, E.INVALID_REQUEST, True),
    (K.DECODING, Phase.BODY, E.BAD_RESPONSE, True),
    (K.TOO_LARGE, Phase.BODY, E.BAD_RESPONSE, True),
    (K.UNEXPECTED, Phase.PREPARING, E.INTERNAL, False),
    (K.UNEXPECTED, Phase.SENT, E.INTERNAL, True),
]


@pytest.mark.parametrize(("kind", "phase", "error_class", "billed"), TABLE_A)
def test_a_call_without_a_response_is_classified_by_how_it_failed(kind, phase, error_class, billed):
    fault = TransportFault(kind=kind, phase=phase, detail="ReadError", elapsed_seconds=1.5)

    given = classify_fault(fault, context(facts=CallFacts(provider="p", client_request_id="c")))

    assert given.error_class is error_class
    assert given.code == kind.value
    assert given.maybe_billed is billed
    assert given.message.endswith(": ReadError")
    assert (given.facts.phase, given.facts.elapsed_seconds) == (phase, 1.5)
    assert (given.facts.provider, given.facts.client_request_id) == ("p", "c")
    assert given.hint is None
    assert given.force_retry is None


def test_every_kind_of_fault_has_its_row():
    assert set(FAULTS) == set(FaultKind) == {row[0] for row in TABLE_A}


@pytest.mark.parametrize("kind", [K.CONNECT_ERROR, K.CONNECT_TIMEOUT, K.POOL_TIMEOUT, K.TLS_CONFIG])
@pytest.mark.parametrize("phase", SENT)
def test_a_call_that_never_had_a_connection_is_never_billed(kind, phase):
    assert not classify_fault(TransportFault(kind=kind, phase=phase), context()).maybe_billed


def test_a_fault_without_words_still_says_what_happened():
    assert (
        classify_fault(TransportFault(kind=K.READ_TIMEOUT, phase=Phase.SENT), context()).message
        == "no answer in time"
    )


def test_the_codes_that_the_retry_policy_knows_are_the_ones_given():
    assert K.POOL_TIMEOUT.value == POOL_TIMEOUT
    assert RESULT_LOST == RETRIED_RESULT_LOST


# --- Statuses and words --------------------------------------------------------------------------


def test_every_status_of_the_table_has_its_class_without_a_body():
    for status, error_class in STATUSES.items():
        given = failure(status, b"", kind="http")
        assert given is not None
        assert (given.error_class, given.code) == (error_class, str(status))


def test_no_status_escapes_classification():
    for status in [*range(100, 200), *range(300, 1000)]:
        assert isinstance(failure(status, b"", kind="http"), Failure)


def test_messages_are_only_read_on_client_errors():
    for rule in RULES:
        if rule.message:
            assert rule.statuses
            assert all(400 <= status < 500 for status in rule.statuses)


def test_a_page_or_a_text_is_never_searched_for_words():
    body = (
        b"<html>prompt is too long, maximum context length, resource unavailable, call volume quota exceeded"
    )

    for status, error_class in ((400, E.INVALID_REQUEST), (403, E.PERMISSION), (429, E.RATE_LIMITED)):
        for data in (body, body.replace(b"<html>", b"")):
            given = failure(status, data)
            assert given is not None
            assert given.error_class is error_class


def test_a_prompt_that_comes_back_outside_the_message_decides_nothing():
    echo = "You exceeded your current quota; maximum context length; insufficient_quota"
    body = {
        "error": {
            "message": "no",
            "type": "invalid_request_error",
            "code": None,
            "input": echo,
            "value": echo,
        }
    }

    for status, error_class in ((400, E.INVALID_REQUEST), (429, E.RATE_LIMITED)):
        given = failure(status, body)
        assert given is not None
        assert given.error_class is error_class


# --- quota_patterns ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        openai("insufficient_quota", "insufficient_quota"),
        openai(None, None, CURRENT_QUOTA),
        {"error": "INSUFFICIENT QUOTA", "message": "x", "status": 429},
    ],
)
def test_a_provider_that_calls_a_rate_limit_quota_can_be_set_right(body):
    given = failure(429, body, quota_patterns=())

    assert given is not None
    assert given.error_class is E.RATE_LIMITED


@pytest.mark.parametrize(
    ("status", "body", "error_class"),
    [
        (429, {"error": "no tokens left", "message": "x"}, E.QUOTA_EXHAUSTED),
        (418, openai("plan_empty"), E.QUOTA_EXHAUSTED),
        (429, openai("PLAN_EMPTY"), E.QUOTA_EXHAUSTED),
        (429, openai("insufficient_quota"), E.RATE_LIMITED),
        (402, openai("whatever"), E.QUOTA_EXHAUSTED),
        (500, openai("server_error"), E.UNAVAILABLE),
    ],
)
def test_a_providers_own_words_for_empty_replace_the_built_in_ones(status, body, error_class):
    given = failure(status, body, quota_patterns=("no tokens left", "^plan_empty$"))

    assert given is not None
    assert given.error_class is error_class


# --- Polls and cancels ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 410])
def test_a_poll_that_finds_nothing_lost_a_result(status):
    given = failure(status, openai("not_found"), operation=Operation.POLL)

    assert given is not None
    assert (given.error_class, given.code, given.maybe_billed) == (E.BAD_RESPONSE, RESULT_LOST, True)


@pytest.mark.parametrize("operation", [Operation.POLL, Operation.CANCEL])
@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_a_question_about_work_says_nothing_against_the_work_being_billed(operation, status):
    given = failure(status, openai(), operation=operation)

    assert given is not None
    assert given.error_class is failure(status, openai()).error_class  # type: ignore[union-attr]
    assert given.maybe_billed


# --- Billed or not ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "billed"),
    [
        (s, False)
        for s in (302, 400, 401, 402, 403, 404, 409, 413, 422, 429, 503, 521, 523, 525, 526, 529, 530)
    ]
    + [(s, True) for s in (408, 499, 500, 502, 504, 520, 522, 524, 527, 598)],
)
def test_a_refused_request_is_not_billed_and_one_that_broke_may_be(status, billed):
    given = failure(status, b"")

    assert given is not None
    assert given.maybe_billed is billed


def test_an_outcome_that_the_provider_itself_does_not_know_may_be_billed():
    given = failure(503, anthropic("api_error", code="change_outcome_unknown"), kind="anthropic")

    assert given is not None
    assert given.maybe_billed


# --- x-should-retry, hints, notes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"), [("true", True), ("FALSE", False), (" true ", True), ("maybe", None), ("", None)]
)
def test_x_should_retry_is_passed_on(value, said):
    given = failure(400, openai(), headers={"X-Should-Retry": value})

    assert given is not None
    assert given.force_retry is said


def test_a_hint_is_passed_on_and_nonsense_leaves_a_note():
    good = failure(503, openai(), headers=[("retry-after", "30"), ("retry-after", "60")])
    bad = failure(429, openai("rate_limit_exceeded"), headers={"Retry-After": "soon"})

    assert good is not None
    assert good.hint == timedelta(seconds=60)
    assert bad is not None
    assert bad.hint is None
    assert bad.message == "HTTP 429 (retry-after 'soon' is no delay): no"


def test_words_and_resets_only_count_where_a_limit_was_met():
    headers = {"x-ratelimit-reset-requests": "6m0s"}
    message = "try again in 20s"

    limited = failure(429, openai("rate_limit_exceeded", message=message), headers=headers)
    outage = failure(500, openai("server_error", message=message), headers=headers)
    only_reset = failure(429, openai("rate_limit_exceeded"), headers=headers)

    assert limited is not None
    assert limited.hint == timedelta(seconds=20)
    assert outage is not None
    assert outage.hint is None
    assert only_reset is not None
    assert only_reset.hint == timedelta(minutes=6)


def test_a_spend_limit_that_names_its_end_is_a_hint():
    given = failure(403, openrouter(403, limit_source="key_limit", resets_at="2026-01-02T00:00:00Z"))

    assert given is not None
    assert given.hint == timedelta(days=1)


def test_the_codes_that_ask_for_less_load_are_the_ones_given():
    assert {"slow_down", "ramp_limit_exceeded"} == SLOW_DOWN


# --- Errors behind a 200 ----------------------------------------------------------------------------


def test_an_error_in_a_stream_nobody_asked_for_is_found():
    events = (
        b'event: message_start\ndata: {"type":"message_start"}\n\n'
        b'data: {"type":"response.created","response":{"error":null}}\n\ndata: {"error"\n\n'
        b'event: content_block_delta\ndata: {"delta":{"text":"the \\"error\\" is"}}\n\n'
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )

    given = failure(200, events, kind="anthropic")

    assert given is not None
    assert (given.error_class, given.code) == (E.UNAVAILABLE, "overloaded_error")


@pytest.mark.parametrize(
    "body",
    [
        {"id": "x"},
        {"error": None},
        {"error": {}},
        {"error": ""},
        {"error": False},
        {"message": "hello", "detail": "x", "code": 500, "status": 500},
        {"data": {"a": 1}, "errors": [{"message": "partly"}]},
        {"errors": []},
        {"status": "failed", "error": None},
        {"response": None},
        [],
        ["x"],
        "error",
        None,
        3,
    ],
)
def test_a_success_that_names_no_error_is_left_to_the_next_check(body):
    assert failure(200, body) is None


def test_a_delay_in_the_words_of_a_failed_response_is_a_hint():
    body = {
        "status": "failed",
        "error": {"code": "rate_limit_exceeded", "message": "Please try again in 1.5s."},
    }

    given = failure(200, body)

    assert given is not None
    assert given.hint == timedelta(seconds=1.5)


# --- Nothing private comes through ------------------------------------------------------------------


def test_no_key_and_no_input_is_in_a_failure():
    prompt = "The patient Jane Roe was born on the first of May"
    secret = "very-own-key-123"
    said = f"Incorrect API key provided: {secret} and sk-demo-0123456789abcdef for {prompt} of a@b.example"
    body = {"error": {"message": said, "code": "sk-demo-0123456789abcdef", "type": secret}}

    given = failure(401, body, secrets=(secret,), echo_of=lambda: json.dumps({"t": prompt}))

    assert given is not None
    text = f"{given.message} {given.code}"
    for private in (secret, "0123456789", "patient", "Jane", "a@b"):
        assert private not in text


def test_no_key_is_in_a_fault():
    fault = TransportFault(
        kind=K.CONNECT_ERROR, phase=Phase.CONNECTING, detail="https://h/?key=very-own-key-123"
    )

    assert "very-own" not in classify_fault(fault, context()).message


def test_a_page_that_moved_is_not_followed_and_says_so():
    for status in (300, 302, 399):
        given = failure(status, openai("rate_limit_exceeded", message="x"))
        assert given is not None
        assert given.error_class is E.INVALID_REQUEST
        assert not given.maybe_billed
        assert given.message == f"HTTP {status}, moved elsewhere (redirects are not followed): x"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"detail": [{"loc": ["body", "x", 0], "msg": "required"}, {"msg": "odd"}]},
            "body.x.0: required; odd",
        ),
        ({"detail": "not here"}, "not here"),
        ({"title": "Error 524", "detail": "too slow", "status": 524}, "Error 524: too slow"),
        ({"title": "Error 524", "message": "too slow"}, "too slow"),
        ({"error": "INSUFFICIENT QUOTA", "message": "per minute"}, "INSUFFICIENT QUOTA: per minute"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"error": "invalid_grant", "error_description": "expired"}, "expired"),
        ({"errors": [{"message": "first"}, {"message": "second"}]}, "first"),
        ({"message": "plain"}, "plain"),
    ],
)
def test_the_message_is_found_in_every_envelope(body, said):
    given = failure(400, body)

    assert given is not None
    assert given.message == f"HTTP 400: {said}"


def test_a_page_is_told_by_its_title():
    page = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>" + b"x" * 10_000

    given = failure(502, page)

    assert given is not None
    assert given.message == "HTTP 502: a page instead of JSON: 502 Bad Gateway"


def test_an_error_without_a_message_keeps_the_beginning_of_its_body():
    given = failure(400, {"reason_code": 17, "pad": "y " * 5000})

    assert given is not None
    assert '"reason_code": 17' in given.message
    assert len(given.message.encode()) <= 2048


def test_an_answer_without_a_body_is_told_by_its_status_and_what_is_wrong_with_its_headers():
    bare = failure(503, b"")
    odd = failure(429, b"", headers={"Retry-After": "soon"})

    assert bare is not None
    assert bare.message == "HTTP 503: no body"
    assert odd is not None
    assert odd.message == "HTTP 429 (retry-after 'soon' is no delay): no body"


# --- Whatever comes ---------------------------------------------------------------------------------

NAMES = (
    "error",
    "errors",
    "code",
    "type",
    "message",
    "status",
    "detail",
    "details",
    "metadata",
    "innererror",
)
MORE = ("reason", "violations", "quotaId", "limit_source", "response", "object", "rate_limit_exceeded")
WORDS = st.sampled_from((*NAMES, *MORE, "insufficient_quota"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=20,
)


@given(st.integers(100, 999), JSON, st.lists(st.tuples(st.text(), st.text()), max_size=3))
def test_any_body_of_any_status_is_classified_and_bounded(status, body, headers):
    given = failure(status, body, headers=headers)

    if given is None:
        assert 200 <= status < 300
        return
    assert len(given.message.encode()) <= 2048
    assert given.message
    assert given.code
    assert len(given.code) <= 100
    f"{given.message}{given.code}".encode()


@given(st.integers(200, 599), st.binary(max_size=300))
def test_any_bytes_are_classified(status, data):
    failure(status, data)


def test_a_body_made_to_hurt_does_not():
    deep = b'{"error":' * 100_000
    bodies = [
        deep,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"error":' + b"[" * 900 + b"]" * 900 + b"}",
        json.dumps({"error": {"message": "exceeded your current " * 200_000}}).encode(),
        json.dumps({"error": {"code": "x" * 1_000_000, "type": ["y"], "details": [{}] * 100_000}}).encode(),
        b"data: " + b'{"error"' * 200_000,
        (b'data: {"error": {}}\n' * 100_000),
        b"<html><title" + b" " * 1_000_000,
        b'{"error": ' + b"9" * 100_000 + b"}",
    ]

    for data in bodies:
        for status in (200, 400, 429):
            given = failure(status, data)
            assert given is None or len(given.message.encode()) <= 2048
