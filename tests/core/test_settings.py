"""The configuration as a value: defaults, ranges, look-ups, and secrets that stay hidden."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from aijobs.core.durations import Rate
from aijobs.core.errors import NotFound
from aijobs.core.model import ErrorClass
from aijobs.core.settings import NEVER, Kind, Settings

SECRET = "sk-demo-0123456789abcdef"
SIGNING = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def _settings(**values: Any) -> Settings:
    return Settings.model_validate(values)


def _provider(**values: Any) -> dict[str, Any]:
    return {"providers": {"p": values}}


def _type(**values: Any) -> dict[str, Any]:
    return {"types": {"t": {"provider": "simulator", **values}}}


def test_with_nothing_given_there_is_a_store_a_simulator_and_a_demo() -> None:
    settings = Settings()

    assert settings.database == "sqlite:///aijobs.db"
    assert settings.provider("simulator").kind is Kind.SIMULATOR
    assert settings.type("demo").provider == "simulator"
    assert settings.concurrency.global_ is None
    assert settings.worker.renew_every == timedelta(seconds=20)
    assert settings.source is None


def test_a_file_may_define_the_built_in_names_itself() -> None:
    settings = _settings(providers={"simulator": {"kind": "simulator", "latency": "1s"}}, **_type())

    assert settings.provider("simulator").latency == timedelta(seconds=1)
    assert settings.types.keys() == {"demo", "t"}


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().worker.lease = timedelta(seconds=1)  # type: ignore[misc]


def test_the_retry_defaults_are_those_of_the_contract() -> None:
    retry = Settings().retry

    network, quota, unavailable = retry.network, retry.quota_exhausted, retry.unavailable
    assert (network.retries, network.first, network.backoff) == (3, "immediate", "full_jitter")
    assert (network.base, network.cap) == (timedelta(seconds=1), timedelta(seconds=60))
    assert (quota.retries, quota.backoff, quota.delay) == (2, "fixed", timedelta(minutes=5))
    assert (unavailable.retries, unavailable.backoff) == (1, "breaker")
    assert (retry.budget.ratio, retry.budget.window, retry.budget.floor) == (0.2, timedelta(minutes=5), 10)


@pytest.mark.parametrize(
    "error_class",
    [
        ErrorClass.INVALID_REQUEST,
        ErrorClass.CONTEXT_LENGTH,
        ErrorClass.CONTENT_POLICY,
        ErrorClass.NOT_FOUND,
        ErrorClass.AUTH,
        ErrorClass.PERMISSION,
        ErrorClass.CANCELLED,
        ErrorClass.DEADLINE_EXCEEDED,
    ],
)
def test_what_the_caller_must_mend_is_never_retried(error_class: ErrorClass) -> None:
    assert Settings().retry.rule(error_class) is NEVER
    assert NEVER.retries == 0


def test_every_other_class_has_a_rule_that_retries() -> None:
    retry = Settings().retry
    classes = [one for one in ErrorClass if retry.rule(one) is not NEVER]

    assert len(classes) == 9
    assert all(retry.rule(one).retries >= 1 for one in classes)


def test_naming_one_key_of_a_rule_leaves_the_rest_of_that_rule_alone() -> None:
    settings = _settings(
        retry={"quota_exhausted": {"retries": 9, "first": None}},
        alerts={"rules": {"stuck": {"severity": "P1"}}},
    )

    quota, stuck = settings.retry.quota_exhausted, settings.alerts.rules.stuck
    assert (quota.retries, quota.backoff, quota.delay, quota.counted) == (
        9,
        "fixed",
        timedelta(minutes=5),
        False,
    )
    assert (stuck.severity, stuck.longer_than) == ("P1", timedelta(minutes=10))
    assert settings.alerts.rules.failure_rate.severity == "P1"


@pytest.mark.parametrize(
    "values",
    [
        {"concurrency": {"global": -1}},
        {"concurrency": {"global": 10**9}},
        {"concurrency": {"global": "4"}},
        {"concurrency": {"global": True}},
        {"concurrency": {"global": 4.0}},
        {"concurrency": {"per_user": float("inf")}},
        {"worker": {"concurrency": 0}},
        {"worker": {"lease": "0s"}},
        {"worker": {"lease": 30}},
        {"worker": {"poll": "0s"}},
        {"worker": {"lease": "60s", "heartbeat": "31s"}},
        {"retry": {"network": {"base": "0s"}}},
        {"retry": {"network": {"retries": -1}}},
        {"retry": {"auth": {"retries": 1}}},
        {"retry": {"budget": {"ratio": float("nan")}}},
        {"retry": {"budget": {"ratio": 1.5}}},
        {"timeouts": {"auto": {"quantile": float("nan")}}},
        {"timeouts": {"tiers": {"simple": "5m"}}},
        {"keys": {"ttl": "0s"}},
        {"retention": {"succeeded": "0s"}},
        {"retention": {"succeeded": "for ever"}},
        {"prices": {"m": {"input": float("inf"), "output": 1}}},
        {"prices": {"m": {"input": 1, "output": 1, "from": "yesterday"}}},
        {"bogus": 1},
        _type(max_attempts=0),
        _type(max_attempts=True),
        _type(timeout="0s"),
        _type(timeout="never"),
        _type(priority=1001),
        _type(input_schema={"a": {1, 2}}),
        _type(request={"a": float("nan")}),
        _type(grow_output={"factor": 1}),
        _type(background_options={"poll_first": "1m", "poll_cap": "30s"}),
        _type(background_options={"max_run": "2h", "completion_window": "8h"}),
        _type(background_options={"max_run": "30m"}),
        _type(shadow={"provider": "simulator", "share": 2}),
        _type(provider="nowhere"),
        _type(notify=["nobody"]),
        _type(fallback={"provider": "simulator"}),
        {"types": {"a b": {"provider": "simulator"}}},
        {"schedules": {"s": {"type": "demo"}}},
        {"schedules": {"s": {"type": "demo", "cron": "0 0 * * *", "every": "5m"}}},
        {"schedules": {"s": {"type": "nothing", "every": "5m"}}},
        {"notify": {"n": {"kind": "webhook"}}},
        {"notify": {"n": {"kind": "command", "command": []}}},
        {"notify": {"n": {"kind": "log", "url": "https://example.com"}}},
        {"notify": {"n": {"kind": "log", "on": []}}},
        {"notify": {"n": {"kind": "webhook", "url": "ftp://example.com"}}},
        _provider(kind="telepathy"),
        _provider(kind="http"),
        _provider(kind="python"),
        _provider(kind="python", callable="not a path"),
        _provider(kind="openai-chat", callable="a:b"),
        _provider(kind="simulator", organization="x"),
        _provider(kind="openai-chat", base_url="example.com"),
        _provider(kind="openai-chat", base_url="https://user:pw@example.com"),
        _provider(kind="openai-chat", base_url="https://example.com/?a=b"),
        _provider(kind="openai-chat", base_url="https://example.com:99999"),
        _provider(kind="openai-chat", quota_patterns=["("]),
        _provider(kind="openai-chat", headers={"bad name": "x"}),
        _provider(kind="openai-chat", headers={"X-A": "a\r\nX-B: b"}),
        _provider(kind="openai-chat", api_key="line\nbreak"),
        _provider(kind="openai-chat", api_key=" "),
        _provider(kind="openai-chat", webhook_secret="my secret"),
        _provider(kind="openai-chat", webhook_secret=SIGNING, api_key=SIGNING),
        _provider(kind="openai-chat", rate="0/s"),
        _provider(kind="openai-chat", breaker={"ramp": [5, 2]}),
        {**_type(background=True, provider="p"), **_provider(kind="anthropic")},
    ],
)
def test_numbers_names_and_texts_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _settings(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"concurrency": {"global": 0}},
        {"worker": {"lease": "60s", "heartbeat": "30s", "grace": "0s"}},
        {"retention": {"succeeded": "forever"}},
        {"prices": {"m": [{"input": 1, "output": 2, "from": "2026-01-01"}, {"input": 1, "output": 3}]}},
        _type(timeout="auto", deadline=None),
        _provider(kind="openai-chat", webhook_secret=[SIGNING], headers={"X-Ok": "fine", "X-No": None}),
        {**_type(background=True, provider="p"), **_provider(kind="openai-chat", supports_background=True)},
        _type(fallback={"provider": "simulator", "model": "other"}),
        {"types": {"摘要": {"provider": "simulator"}}},
    ],
)
def test_what_makes_sense_at_the_edge_is_taken(values: dict[str, Any]) -> None:
    assert _settings(**values)


@pytest.mark.parametrize(
    ("kind", "url", "background"),
    [
        ("openai-responses", "https://api.openai.com/v1", True),
        ("openai-chat", "https://api.openai.com/v1", False),
        ("anthropic", "https://api.anthropic.com/v1", False),
        ("simulator", None, True),
    ],
)
def test_each_kind_knows_where_it_lives_and_what_it_can(kind: str, url: str | None, background: bool) -> None:
    provider = _settings(**_provider(kind=kind)).provider("p")

    assert (provider.url, provider.background) == (url, background)


def test_a_base_url_loses_its_last_slash() -> None:
    settings = _settings(**_provider(kind="http", base_url="https://example.com/v2/", rate="500/m"))

    assert settings.provider("p").url == "https://example.com/v2"
    assert settings.provider("p").rate == Rate(500, timedelta(minutes=1))


def test_a_name_that_is_not_there_is_not_found_with_the_nearest_one() -> None:
    settings = _settings(types={"summarize": {"provider": "simulator"}})

    with pytest.raises(NotFound, match="no job type named 'sumarize'") as missing:
        settings.type("sumarize")
    assert missing.value.hint == "did you mean 'summarize'?"
    for look_up in (settings.provider, settings.schedule, settings.target):
        with pytest.raises(NotFound):
            look_up("nothing-like-it")


def test_a_secret_is_shown_by_nothing() -> None:
    settings = _settings(
        database=f"postgresql://user:{SECRET}@host/db",
        providers={"p": {"kind": "openai-chat", "api_key": SECRET, "headers": {"X-Token": SECRET}}},
        notify={"n": {"kind": "webhook", "url": "https://example.com", "secret": SIGNING}},
    )

    shown = [
        repr(settings),
        str(settings),
        settings.model_dump_json(),
        repr(settings.providers),
        str(settings.notify),
    ]

    assert not any(SECRET in text or SIGNING in text for text in shown)
    assert "***" in settings.model_dump_json()


def test_every_secret_is_listed_for_those_who_must_keep_it_out() -> None:
    settings = _settings(
        database="postgresql://user:p%40ss@host/db",
        providers={"p": {"kind": "openai-chat", "api_key": SECRET, "headers": {"X-Token": "abc"}}},
        notify={"n": {"kind": "webhook", "url": "https://example.com", "secret": [SIGNING]}},
    )

    assert set(settings.secrets()) == {SECRET, "abc", SIGNING, "p%40ss", "p@ss"}


def test_a_fault_in_a_secret_does_not_repeat_it() -> None:
    with pytest.raises(ValidationError) as refused:
        _settings(**_provider(kind="openai-chat", api_key=f"{SECRET}\nmore", webhook_secret=SECRET))

    assert SECRET not in str(refused.value)


def test_the_code_version_changes_with_the_settings_of_its_type_only() -> None:
    before = _settings(
        types={"a": {"provider": "simulator"}, "b": {"provider": "simulator", "version": "v7"}}
    )
    after = _settings(
        types={"a": {"provider": "simulator", "model": "m"}, "b": {"provider": "simulator", "version": "v7"}}
    )

    assert before.code_version_of("a") != after.code_version_of("a")
    assert before.code_version_of("b") == after.code_version_of("b")
    assert str(before.code_version_of("b")).startswith("v7+")
    assert before.code_version_of("gone") is None


def test_a_price_is_the_one_in_force_on_the_day() -> None:
    settings = _settings(
        prices={
            "m": [{"input": 1, "output": 1}, {"input": 2, "output": 2, "from": "2026-06-01"}],
            "n": {"input": 3, "output": 3},
        }
    )

    def price(model: str, *day: int) -> float | None:
        found = settings.price(model, datetime(*day, tzinfo=UTC))  # type: ignore[arg-type]
        return found.input if found else None

    assert price("m", 2026, 5, 31) == 1
    assert price("m", 2026, 6, 1) == 2
    assert price("n", 2020, 1, 1) == 3
    assert price("unknown", 2026, 1, 1) is None


def test_a_price_that_begins_later_is_not_known_before() -> None:
    settings = _settings(prices={"m": {"input": 1, "output": 1, "from": "2026-06-01"}})

    assert settings.price("m", datetime(2026, 5, 31, tzinfo=UTC)) is None


def test_a_fallback_says_what_nobody_has_approved() -> None:
    settings = _settings(
        **_type(fallback={"provider": "simulator", "model": "m", "approved": {"cost": True}})
    )

    fallback = settings.type("t").fallback
    assert fallback is not None
    assert fallback.missing_approvals == ("quality", "privacy", "region")


@pytest.mark.parametrize(
    ("values", "expected"),
    [({}, False), ({"expect": "json"}, True), ({"response_format": {"type": "object"}}, True)],
)
def test_a_response_format_implies_json(values: dict[str, Any], expected: bool) -> None:
    assert _settings(**_type(**values)).type("t").expects_json is expected


def test_the_life_of_a_key_is_the_types_or_the_general_one() -> None:
    settings = _settings(keys={"ttl": "9d"}, types={"t": {"provider": "simulator", "key_ttl": "1h"}})

    assert settings.key_ttl("t") == timedelta(hours=1)
    assert settings.key_ttl("demo") == timedelta(days=9)


def test_a_name_without_end_is_not_repeated_when_nothing_has_it() -> None:
    with pytest.raises(NotFound) as refused:
        Settings().type("x" * 70_000)

    assert len(refused.value.message) < 200


def test_a_webhook_secret_that_is_the_api_key_is_refused() -> None:
    one, other = ("whsec_" + letter * 32 for letter in "ab")
    provider = {"kind": "openai-responses", "api_key": one, "webhook_secret": [one, other]}

    with pytest.raises(ValidationError, match="one for each"):
        Settings.model_validate({"providers": {"p": provider}})
    settings = Settings.model_validate({"providers": {"p": provider | {"webhook_secret": [other]}}})
    assert len(settings.provider("p").webhook_secret) == 1
