"""How long a call may take and why; and whether the budgets around it fit into each other."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.settings import Settings, TypeSettings
from aijobs.core.timeouts import longest_timeout, overruns, timeout_for

TIMEOUTS = Settings().timeouts


def _type(**values: Any) -> TypeSettings:
    return TypeSettings.model_validate({"provider": "simulator", **values})


def _settings(**values: Any) -> Settings:
    return Settings.model_validate(values)


@pytest.mark.parametrize(("tier", "seconds"), [("simple", 10), ("medium", 60), ("complex", 180)])
def test_the_tier_decides_when_nothing_else_is_said(tier: str, seconds: int) -> None:
    chosen = timeout_for(_type(tier=tier), [1.0] * 100, timeouts=TIMEOUTS)

    assert (chosen.value, chosen.reason) == (timedelta(seconds=seconds), f"tier {tier}")


def test_a_set_value_stands_over_the_tier_and_the_history() -> None:
    chosen = timeout_for(_type(tier="simple", timeout="45s"), [1.0] * 100, timeouts=TIMEOUTS)

    assert (chosen.value, chosen.reason) == (timedelta(seconds=45), "set for the type")


def test_auto_keeps_to_the_tier_until_it_has_seen_enough_runs() -> None:
    auto = _type(timeout="auto")

    before = timeout_for(auto, [40.0] * 19, timeouts=TIMEOUTS)
    after = timeout_for(auto, [40.0] * 20, timeouts=TIMEOUTS)

    assert before.value == timedelta(seconds=60)
    assert "19 of 20 runs known" in before.reason
    assert after.value == timedelta(seconds=60)
    assert after.reason == "auto: 95% of 20 runs took at most 40s, times 1.5"


def test_auto_takes_the_nearest_rank_of_the_quantile_times_the_margin() -> None:
    runs = [float(second) for second in range(1, 101)]

    chosen = timeout_for(_type(timeout="auto"), runs[::-1], timeouts=TIMEOUTS)

    assert chosen.value == timedelta(seconds=95 * 1.5)


@pytest.mark.parametrize(
    ("run", "seconds", "words"),
    [(0.1, 30, "held up at half of tier medium"), (170.0, 180, "held down at 3 times tier medium")],
)
def test_auto_stays_between_half_and_three_times_its_tier(run: float, seconds: int, words: str) -> None:
    chosen = timeout_for(_type(timeout="auto"), [run] * 50, timeouts=TIMEOUTS)

    assert chosen.value == timedelta(seconds=seconds)
    assert words in chosen.reason


def test_runs_that_are_no_times_are_left_out() -> None:
    runs = [float("nan"), float("inf"), -1.0] * 20

    chosen = timeout_for(_type(timeout="auto"), runs, timeouts=TIMEOUTS)

    assert "0 of 20 runs known" in chosen.reason


@given(st.lists(st.floats(), max_size=200), st.sampled_from(["simple", "medium", "complex"]))
def test_whatever_the_history_auto_is_within_its_bounds_and_says_why(runs: list[float], tier: str) -> None:
    auto = _type(timeout="auto", tier=tier)

    chosen = timeout_for(auto, runs, timeouts=TIMEOUTS)

    assert TIMEOUTS.tiers.of(tier) / 2 <= chosen.value <= longest_timeout(auto, TIMEOUTS)
    assert chosen.reason.startswith("auto: ")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"timeouts": {"client": "5s", "gateway": "30s"}},
            {"timeouts.gateway": "30s is longer than client (5s)"},
        ),
        ({"timeouts": {"client": "30s", "gateway": "30s"}}, {}),
        ({"timeouts": {"client": "60s", "gateway": "30s", "function": "20s"}, "worker": {"grace": "5s"}}, {}),
        (
            {"timeouts": {"client": "5s", "function": "5m"}},
            {"timeouts.function": "5m is longer than client (5s)"},
        ),
        ({"timeouts": {"client": "2s"}}, {"timeouts.save": "2s is not shorter than client (2s)"}),
        ({"timeouts": {"function": "30s"}}, {"worker.grace": "30s is not shorter than function (30s)"}),
        ({"worker": {"lease": "3s"}}, {"worker.lease": "renewed every 1s, and saving may take 2s"}),
        (
            {"timeouts": {"function": "60s"}, "types": {"t": {"provider": "simulator"}}},
            {"types.t.timeout": "the call (1m) and saving (2s) take longer than function (1m)"},
        ),
        (
            {"timeouts": {"function": "2m"}, "types": {"t": {"provider": "simulator", "timeout": "auto"}}},
            {"types.t.timeout": "the call (up to 3m) and saving (2s) take longer than function (2m)"},
        ),
        (
            {"types": {"t": {"provider": "simulator", "timeout": "45s", "deadline": "30s"}}},
            {"types.t.deadline": "30s is shorter than one call (45s)"},
        ),
        (
            {"types": {"t": {"provider": "p", "timeout": "5s"}}, "providers": {"p": {"kind": "openai-chat"}}},
            {"types.t.timeout": "5s is shorter than connect_timeout of p (10s)"},
        ),
        (
            {
                "types": {
                    "t": {"provider": "simulator", "deadline": "1h", "background_options": {"max_run": "2h"}}
                }
            },
            {"types.t.background_options.max_run": "2h is longer than deadline (1h)"},
        ),
        ({"types": {"t": {"provider": "simulator", "deadline": "1h", "background": True}}}, {}),
    ],
)
def test_an_inner_budget_longer_than_an_outer_one_is_reported(
    values: dict[str, Any], expected: dict[str, str]
) -> None:
    found = {".".join(one.path): one.message for one in overruns(_settings(**values))}

    assert found.keys() == expected.keys()
    assert all(words in found[path] for path, words in expected.items())


def test_the_defaults_fit_into_each_other() -> None:
    assert overruns(Settings()) == []
