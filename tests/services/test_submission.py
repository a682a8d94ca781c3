"""The rules a submission goes through, one by one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.errors import InvalidInput, UsageError
from aijobs.core.model import Status
from aijobs.core.settings import Settings
from aijobs.services.submission import LONGEST_NAME, Request, clean_key, new_job, poll_after
from tests.core.test_timeline import JOB

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _settings(**demo: Any) -> Settings:
    return Settings.model_validate({"types": {"demo": {"provider": "simulator", **demo}}})


def _new(settings: Settings | None = None, **request: Any) -> Any:
    return new_job(Request(type="demo", **request), settings or _settings(), now=NOW)


def test_what_is_left_out_the_type_decides() -> None:
    settings = _settings(max_attempts=7, deadline="1h", priority=3, key_ttl="2d")

    job = _new(settings, key="K")

    assert (job.max_attempts, job.priority) == (7, 3)
    assert job.deadline == NOW + timedelta(hours=1)
    assert job.key_expires_at == NOW + timedelta(days=2)


def test_what_is_asked_for_goes_before_the_type() -> None:
    settings = _settings(max_attempts=7, deadline="1h", priority=3)

    job = _new(settings, max_attempts=1, deadline=timedelta(minutes=1), priority=-5)

    assert (job.max_attempts, job.priority, job.deadline) == (1, -5, NOW + timedelta(minutes=1))


def test_the_deadline_of_a_type_counts_from_when_the_job_may_run() -> None:
    job = _new(_settings(deadline="1h"), delay=timedelta(hours=5))

    assert job.deadline == NOW + timedelta(hours=6)


def test_a_job_without_a_key_has_no_key_that_expires() -> None:
    assert _new().key_expires_at is None


def test_the_order_of_names_is_kept_in_the_payload_and_ignored_by_the_hash() -> None:
    one, other = _new(input={"b": 1, "a": 2}), _new(input={"a": 2, "b": 1})

    assert one.payload == '{"b":1,"a":2}'
    assert one.input_hash == other.input_hash


def test_an_input_off_its_schema_names_the_path_and_not_the_value() -> None:
    settings = _settings(input_schema={"type": "object", "properties": {"n": {"type": "integer"}}})

    with pytest.raises(InvalidInput, match="n: must be of type integer") as caught:
        _new(settings, input={"n": "sk-demo-0123456789"})

    assert "sk-demo" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", True),
        (f"00-{'0' * 32}-{'b' * 16}-01", False),
        (f"ff-{'a' * 32}-{'b' * 16}-01", False),
        ("rubbish\n", False),
        (None, False),
    ],
)
def test_a_malformed_trace_context_is_dropped(given: str | None, kept: bool) -> None:
    assert _new(traceparent=given).traceparent == (given if kept else None)


@given(st.text(max_size=300))
def test_a_key_is_refused_or_stays_the_same_when_cleaned_again(text: str) -> None:
    try:
        key = clean_key(text)
    except UsageError:
        return

    assert key is not None
    assert 0 < len(key) <= LONGEST_NAME
    assert clean_key(key) == key
    assert "\0" not in key
    assert key == key.strip()


@pytest.mark.parametrize(
    ("tier", "delay", "seconds"),
    [("simple", 0, 1), ("medium", 0, 6), ("complex", 0, 18), ("simple", 90, 91)],
)
def test_when_to_ask_again_grows_with_tier_and_delay(tier: str, delay: float, seconds: float) -> None:
    job = replace(JOB, type="demo", next_run_at=NOW + timedelta(seconds=delay))

    assert poll_after(job, _settings(tier=tier), now=NOW) == timedelta(seconds=seconds)


def test_nobody_need_ask_again_about_a_job_that_has_ended() -> None:
    job = replace(JOB, status=Status.SUCCEEDED, finished_at=NOW)

    assert poll_after(job, _settings(), now=NOW) is None


def test_asking_about_a_job_of_a_type_that_is_gone_has_an_answer() -> None:
    assert poll_after(replace(JOB, type="gone"), _settings(), now=NOW) == timedelta(seconds=1)
