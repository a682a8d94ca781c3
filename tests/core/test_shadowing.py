"""Sampling and comparing."""

import json

import pytest

from aijobs.core.shadowing import Alike, compare, sampled

IDS = [f"019b76da-a800-74c0-82dd-{n:012x}" for n in range(4000)]


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_about_the_share_is_sampled_and_always_the_same_jobs(share: float) -> None:
    first = [job_id for job_id in IDS if sampled(job_id, share)]

    assert first == [job_id for job_id in IDS if sampled(job_id, share)]
    assert abs(len(first) / len(IDS) - share) < 0.02


def test_none_all_and_a_larger_share_keeps_those_of_the_smaller() -> None:
    assert not any(sampled(job_id, 0) for job_id in IDS)
    assert all(sampled(job_id, 1) for job_id in IDS)
    assert {i for i in IDS if sampled(i, 0.1)} < {i for i in IDS if sampled(i, 0.3)}


def test_fields_that_hold_the_same_value_agree() -> None:
    real = json.dumps({"a": 1, "b": {"x": 1, "y": 2}, "c": "one"})
    shadow = json.dumps({"a": 1, "b": {"y": 2, "x": 1}, "c": "two", "d": 0})

    every = compare(real, shadow, ())
    some = compare(real, shadow, ("a", "c", "nowhere"))

    assert (every.compared, every.agreed) == (4, 2)
    assert (some.compared, some.agreed) == (3, 1)


def test_a_text_that_holds_json_is_compared_as_json() -> None:
    found = compare(json.dumps('{"a": 1}'), '{"a": 1}', ("a",))

    assert (found.compared, found.agreed) == (1, 1)


def test_plain_texts_have_a_length_and_no_fields() -> None:
    assert compare('"four"', '"sixsix"', ("a",)) == Alike(length=6, real_length=4)
    assert compare('"four"', None, ()) == Alike(length=None, real_length=4)


def test_of_a_models_answer_only_what_it_says_counts() -> None:
    real = json.dumps({"text": '{"a": 1}', "finish_reason": "stop", "model": "x", "id": "r1"})
    shadow = json.dumps(
        {"text": '{"a":1}', "finish_reason": "end", "model": "y", "id": "r2", "json": {"a": 1}}
    )
    prose = json.dumps({"text": "hello", "finish_reason": "stop", "model": "y", "id": "r3"})

    assert compare(real, shadow, ()) == Alike(length=7, real_length=8, compared=1, agreed=1)
    assert compare(prose, prose, ()) == Alike(length=5, real_length=5)


def test_of_another_result_with_a_text_all_fields_count() -> None:
    found = compare('{"text": "x", "score": 1}', '{"text": "x", "score": 2}', ())

    assert (found.compared, found.agreed) == (2, 1)
