"""Usage objects of every provider in one normal form, and what they cost."""

import json
from dataclasses import dataclass
from datetime import date

import pytest

from aijobs.core.model import NO_USAGE, Usage
from aijobs.core.usage import cost, normalise, usage_of

RESPONSES = {
    "input_tokens": 120,
    "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 5},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 30},
    "total_tokens": 160,
}
CHAT = {
    "prompt_tokens": 120,
    "completion_tokens": 40,
    "total_tokens": 160,
    "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 5, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 30},
}
ANTHROPIC = {
    "input_tokens": 15,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 100,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 40,
    "output_tokens_details": {"thinking_tokens": 30},
    "service_tier": "standard",
}
GEMINI = {
    "promptTokenCount": 110,
    "cachedContentTokenCount": 100,
    "candidatesTokenCount": 10,
    "thoughtsTokenCount": 30,
    "toolUsePromptTokenCount": 10,
    "totalTokenCount": 160,
}


def counts(usage: Usage) -> tuple[int | None, ...]:
    return (
        usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens,
        usage.reasoning_tokens,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        ("openai-responses", RESPONSES, (120, 100, 5, 40, 30)),
        ("openai-chat", CHAT, (120, 100, 5, 40, 30)),
        ("anthropic", ANTHROPIC, (120, 100, 5, 40, 30)),
        ("openai-chat", GEMINI, (120, 100, None, 40, 30)),
        ("openai-chat", {"prompt_tokens": 7, "completion_tokens": 3, "total": 10}, (7, None, None, 3, None)),
        ("http", {"prompt_eval_count": 7, "eval_count": 3}, (7, None, None, 3, None)),
        ("anthropic", {"input_tokens": 15, "output_tokens": 4}, (15, None, None, 4, None)),
        # A gateway that answers in another dialect than its kind's.
        ("openai-responses", CHAT, (120, 100, 5, 40, 30)),
        ("openai-chat", RESPONSES, (120, 100, 5, 40, 30)),
        ("http", ANTHROPIC, (120, 100, 5, 40, 30)),
        ("anthropic", CHAT, (120, 100, 5, 40, 30)),
        ("openai-chat", {**CHAT, "cache_read_input_tokens": 100}, (120, 100, 5, 40, 30)),
        ("http", {"candidatesTokenCount": 1}, (None, None, None, 1, None)),
        ("http", {"thoughtsTokenCount": 30, "promptTokenCount": 1}, (1, None, None, 30, 30)),
        # Unknown is None, never 0; and what is 0 is 0.
        ("openai-responses", {}, (None, None, None, None, None)),
        ("openai-responses", {"input_tokens": 0, "output_tokens": None}, (0, None, None, None, None)),
        ("openai-chat", {"prompt_tokens": 5, "prompt_tokens_details": None}, (5, None, None, None, None)),
        ("openai-chat", {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}, (5, 0, None, None, None)),  # noqa: E501
        # No counts.
        ("openai-chat", {"prompt_tokens": -1, "completion_tokens": "7"}, (None, None, None, None, None)),
        ("openai-chat", {"prompt_tokens": True, "completion_tokens": 1.5}, (None, None, None, None, None)),
        ("openai-chat", {"prompt_tokens": 2.0, "completion_tokens": 2**63}, (2, None, None, None, None)),
        ("openai-chat", {"prompt_tokens": float("nan"), "completion_tokens": float("inf")}, (None,) * 5),
        ("http", {"promptTokenCount": 2**63 - 1, "toolUsePromptTokenCount": 1}, (None,) * 5),
    ],
)  # fmt: skip
def test_a_usage_object_becomes_the_normal_form(kind, raw, expected):
    assert counts(normalise(kind, raw)) == expected


@pytest.mark.parametrize("raw", [None, [], "x", 3])
def test_no_usage_object_is_no_usage(raw):
    assert normalise("openai-chat", raw) == NO_USAGE


def test_the_raw_object_is_kept_and_bounded():
    assert json.loads(normalise("openai-chat", CHAT).raw or "") == CHAT
    assert len(normalise("http", {"x": "ä\ud800" * 9999}).raw or "") <= 4096


def test_the_tier_really_used_and_the_cost_reported_are_kept():
    assert normalise("anthropic", ANTHROPIC, service_tier="auto").service_tier == "standard"
    assert normalise("openai-responses", RESPONSES, service_tier="flex").service_tier == "flex"
    assert normalise("openai-responses", RESPONSES, service_tier=3).service_tier is None
    assert normalise("openai-chat", {**CHAT, "cost": 0.25}, reported_cost="9").reported_cost == 0.25
    assert normalise("openai-chat", {**CHAT, "cost": 0}, reported_cost="9").reported_cost == 0
    assert normalise("openai-chat", CHAT, reported_cost="0.5").reported_cost == 0.5
    assert normalise("openai-chat", None, reported_cost="0.5").reported_cost == 0.5


@pytest.mark.parametrize("value", ["", "free", "nan", "inf", -1, True, [], 10**400])
def test_what_is_no_amount_is_not_known(value):
    assert normalise("openai-chat", CHAT, reported_cost=value).reported_cost is None


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"usage": CHAT}, CHAT),
        ({"usageMetadata": GEMINI}, GEMINI),
        ({"eval_count": 3, "prompt_eval_count": 7}, {"eval_count": 3, "prompt_eval_count": 7}),
        ({"usage": None}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_usage_object_is_found_in_the_answer(body, found):
    assert usage_of(body) == found


# --- Cost -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Price:
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    since: date | None = None


TODAY = date(2026, 6, 1)
USED = Usage(
    input_tokens=1_000_000, cache_read_tokens=600_000, cache_write_tokens=100_000, output_tokens=200_000
)


def test_a_cost_counts_every_kind_of_token_once():
    full = Price(input=10, output=50, cache_read=1, cache_write=20)

    assert cost(USED, [full], day=TODAY) == 3 + 0.6 + 2 + 10
    assert cost(USED, [Price(input=10, output=50)], day=TODAY) == 20
    assert cost(USED, [Price(input=10, output=50, cache_read=0)], day=TODAY) == 14


def test_the_price_in_force_on_the_day_counts():
    prices = [
        Price(input=1, output=0, since=date(2026, 6, 1)),
        Price(input=2, output=0),
        Price(input=3, output=0, since=date(2026, 6, 2)),
    ]

    assert cost(USED, prices, day=date(2026, 5, 31)) == 2
    assert cost(USED, prices, day=date(2026, 6, 1)) == 1
    assert cost(USED, prices, day=date(2026, 7, 1)) == 3
    assert cost(USED, prices[2:], day=date(2026, 6, 1)) is None


@pytest.mark.parametrize("usage", [NO_USAGE, Usage(input_tokens=1), Usage(output_tokens=1)])
def test_an_unknown_count_is_an_unknown_cost(usage):
    assert cost(usage, [Price(input=1, output=1)], day=TODAY) is None


def test_without_a_price_nothing_is_made_up_and_what_is_reported_goes_first():
    assert cost(USED, [], day=TODAY) is None
    assert cost(Usage(reported_cost=0.125), [Price(input=1, output=1)], day=TODAY) == 0.125


def test_a_cache_larger_than_the_input_costs_no_less_than_nothing():
    odd = Usage(input_tokens=10, cache_read_tokens=50, output_tokens=0)

    assert cost(odd, [Price(input=1_000_000, output=0, cache_read=0)], day=TODAY) == 0
