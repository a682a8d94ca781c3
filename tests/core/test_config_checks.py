"""Warnings: what is allowed and seldom meant."""

from datetime import UTC, datetime
from typing import Any

import pytest

from aijobs.core.config.checks import check
from aijobs.core.settings import Settings

NOW = datetime(2026, 2, 1, tzinfo=UTC)
KEY = {"kind": "openai-chat", "base_url": "http://127.0.0.1:1/v1"}


def _said(**values: Any) -> list[str]:
    return [str(one) for one in check(Settings.model_validate(values), now=NOW)]


def _type(**values: Any) -> dict[str, Any]:
    return {"types": {"t": {"provider": "simulator", **values}}}


def test_the_defaults_give_no_warning() -> None:
    assert _said() == []


def test_both_day_fields_restricted_is_a_warning_with_the_next_dates() -> None:
    said = _said(schedules={"s": {"type": "demo", "cron": "0 0 13 * 5"}})

    assert all(line.startswith("schedules.s.cron: ") for line in said)
    assert any("2026-02-06 00:00" in line and "2026-02-13 00:00" in line for line in said)


@pytest.mark.parametrize("cron", ["*/45 * * * *", "0 */7 * * *"])
def test_a_step_that_does_not_divide_is_a_warning(cron: str) -> None:
    assert _said(schedules={"s": {"type": "demo", "cron": cron}})


def test_an_ordinary_cron_line_gives_none() -> None:
    assert (
        _said(schedules={"s": {"type": "demo", "cron": "30 2 * * *"}, "e": {"type": "demo", "every": "5m"}})
        == []
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"concurrency": {"global": 0}}, "concurrency.global: 0 starts nothing"),
        ({"concurrency": {"per_user": 0}}, "concurrency.per_user: 0 starts nothing"),
        (_type(concurrency=0), "types.t.concurrency: 0 starts nothing"),
        (_type(per_user=0), "types.t.per_user: 0 starts nothing"),
        ({"providers": {"p": {**KEY, "concurrency": 0}}}, "providers.p.concurrency: 0 starts nothing"),
        (
            {"providers": {"p": {"kind": "openai-chat"}}},
            "providers.p: no api_key, and https://api.openai.com/v1 needs one",
        ),
        (
            {"providers": {"p": {**KEY, "base_url": "http://ai.example.com", "api_key": "x"}}},
            "providers.p.base_url: http:// sends the api_key in the clear",
        ),
        ({"types": {"t": {"provider": "p"}}, "providers": {"p": KEY}}, "types.t: no model"),
        (
            {
                "types": {"t": {"provider": "p", "model": "m", "concurrency": 9}},
                "providers": {"p": {**KEY, "concurrency": 3}},
            },
            "types.t.concurrency: 9 is never reached: provider p allows 3",
        ),
        (
            _type(fallback={"provider": "simulator", "model": "m", "approved": {"quality": True}}),
            "types.t.fallback.approved: cannot be switched on before these are approved: privacy, region",
        ),
        (
            _type(background=True, request={"store": False}, background_options={"poll_cap": "10m"}),
            "types.t.background_options.poll_cap: a look may come after the provider forgot the response",
        ),
        ({"notify": {"n": {"kind": "webhook", "url": "https://x.example"}}}, "notify.n: no secret"),
        ({"timeouts": {"client": "1s"}}, "timeouts.save: 2s is not shorter than client"),
    ],
)
def test_what_is_seldom_meant_is_said(values: dict[str, Any], expected: str) -> None:
    (said,) = _said(**values)

    assert said.startswith(expected)


@pytest.mark.parametrize(
    "values",
    [
        {
            "types": {"t": {"provider": "p", "model": "m", "concurrency": 3}},
            "providers": {"p": {**KEY, "concurrency": 3}},
        },
        {"notify": {"n": {"kind": "log"}, "c": {"kind": "command", "command": ["true"]}}},
        _type(background=True, request={"store": True}, background_options={"poll_cap": "10m"}),
        _type(background=True, background_options={"poll_cap": "10m"}),
        _type(background=True, request={"store": False}),
        {"providers": {"p": {**KEY, "api_key": "x"}}},
        {"providers": {"p": {**KEY, "headers": {"authorization": "Bearer x"}}}},
        {"types": {"t": {"provider": "p", "request": {"model": "m"}}}, "providers": {"p": KEY}},
        _type(
            fallback={
                "provider": "simulator",
                "model": "m",
                "approved": dict.fromkeys(("quality", "privacy", "region", "cost"), True),
            }
        ),
    ],
)
def test_what_is_meant_gives_no_warning(values: dict[str, Any]) -> None:
    assert _said(**values) == []
