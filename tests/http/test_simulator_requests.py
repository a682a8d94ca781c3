"""What the simulator makes of a request, whatever is in it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aijobs.core.clock import seeded_chance
from aijobs.http.simulator.answers import GOOD, usage
from aijobs.http.simulator.request import Api, Asked, Refused, parse_latency, understand
from aijobs.http.simulator.text import answer, count_tokens, count_words, json_answer
from aijobs.http.simulator.webhooks import WebhookTarget

NAMES = st.sampled_from(
    [
        "model", "input", "messages", "metadata", "simulator", "text", "format", "type", "schema",
        "response_format", "json_schema", "properties", "items", "enum", "max_tokens", "instructions",
        "system", "content", "role", "background", "fault", "latency", "user", "aijobs_job_id",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["json_schema", "object", "array", "429", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


def asked(body: dict[str, Any], headers: dict[str, str] | None = None, api: Api = Api.RESPONSES) -> Asked:
    full = {"model": "m", "input": "x", **body}
    given_headers = {"anthropic-version": "2023-06-01", **(headers or {})}
    return understand(api, given_headers, raw=json.dumps(full).encode(), request_id="req_1")


@settings(deadline=None)
@given(api=st.sampled_from(list(Api)), body=st.dictionaries(NAMES, VALUES, max_size=8))
def test_no_json_object_is_more_than_refused(api: Api, body: dict[str, Any]) -> None:
    try:
        understood = asked(body, api=api)
    except Refused:
        return

    good = GOOD[api](understood, "1", 0) if api in GOOD else usage(api, understood.text, "")
    json.dumps(good)


@pytest.mark.parametrize(
    ("headers", "metadata", "job"),
    [
        ({"x-client-request-id": "aijobs-j1-3"}, {}, "j1"),
        ({"x-client-request-id": "aijobs-0190-aaaa-12"}, {}, "0190-aaaa"),
        ({"x-client-request-id": "aijobs-j1-3"}, {"aijobs_job_id": "j2"}, "j2"),
        ({"x-client-request-id": "mine", "idempotency-key": "k"}, {}, "k"),
        ({"x-client-request-id": "mine"}, {}, "mine"),
    ],
)
def test_the_job_is_known_by_the_best_name_there_is(
    headers: dict[str, str], metadata: dict[str, str], job: str
) -> None:
    assert asked({"metadata": metadata}, headers).job == job


def test_without_a_name_equal_bodies_are_one_job() -> None:
    assert asked({}).job == asked({}).job
    assert asked({}).job != asked({"input": "y"}).job


@pytest.mark.parametrize(
    "body",
    [
        {"simulator": {"fault": "429x2", "key": "k"}},
        {"metadata": {"simulator": '{"fault": "429x2", "key": "k"}'}},
        {"input": '{"text": "x", "simulator": {"fault": "429x2", "key": "k"}}'},
        {"instructions": "Be brief.", "input": 'Read {"simulator": {"fault": "429x2", "key": "k"}} aloud'},
        {"input": [{"role": "user", "content": [{"text": '{"simulator": {"fault": "429x2", "key": "k"}}'}]}]},
    ],
)
def test_a_request_says_what_it_wants_in_any_of_these_places(body: dict[str, Any]) -> None:
    orders = asked(body).orders

    assert (orders.fault, orders.key) == ("429x2", "k")


def test_metadata_may_name_just_the_fault() -> None:
    assert asked({"metadata": {"simulator": "429x2"}}).orders.fault == "429x2"


def test_a_header_overrules_the_body() -> None:
    orders = asked({"simulator": {"fault": "500", "latency": 1}}, {"x-simulator-fault": "429"}).orders

    assert orders.fault == "429"
    assert orders.latency == parse_latency("1")


@pytest.mark.parametrize("fault", [429, "429"])
def test_a_fault_may_be_a_number(fault: object) -> None:
    assert asked({"simulator": {"fault": fault}}).orders.fault == "429"


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("0.2", 0.2, 0.2), ("200ms", 0.2, 0.2), ("1m30s", 90, 90), ("1s-3s", 1, 3), (" 50ms - 2 ", 0.05, 2)],
)
def test_latency_is_a_time_or_a_range(text: str, low: float, high: float) -> None:
    latency = parse_latency(text)

    assert (latency.low, latency.high) == (low, high)
    assert low <= latency.draw(seeded_chance(1)) <= high


@pytest.mark.parametrize("text", ["", "soon", "-1", "0.5s", "2-1", "1e3", "٣", "inf"])
def test_what_is_no_latency_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="latency"):
        parse_latency(text)


def test_the_answer_holds_the_first_sentence_and_the_length() -> None:
    assert "One thing." in answer("One thing. Another thing.")
    assert "(4 read)" in answer("One thing. Another thing.")
    assert answer("  ") == answer("")


def test_a_long_first_sentence_is_cut() -> None:
    assert len(answer("word " * 1000)) < 250


def test_text_without_blanks_is_counted_by_characters() -> None:
    assert count_words("大海很宽阔" * 10) == 50
    assert count_tokens("大海") == 2


def test_json_answers_follow_a_simple_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kind": {"enum": ["a", "b"]},
            "list": {"type": "array", "items": {"type": "integer"}},
            "flag": {"type": "boolean"},
            "none": {"type": ["null", "string"]},
            "fixed": {"const": 7},
        },
    }

    said = json.loads(json_answer("Some text.", schema))

    assert isinstance(said["name"], str)
    assert said["kind"] in ("a", "b")
    assert [type(item) for item in said["list"]] == [int]
    assert (said["flag"], said["none"], said["fixed"]) == (True, None, 7)
    assert json.loads(json_answer("Some text."))["words"] == 2


@pytest.mark.parametrize(
    ("url", "secret"),
    [("ftp://x", None), ("localhost:1", None), ("http://x", "whsec_short"), ("http://x", "my secret")],
)
def test_a_webhook_target_that_cannot_work_is_refused(url: str, secret: str | None) -> None:
    with pytest.raises(ValueError, match=r"webhook|decodes|base64"):
        WebhookTarget(url=url, **({"secret": secret} if secret else {}))
