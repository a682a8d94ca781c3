"""What a model is sent: prompt, input or messages, and the type's request laid over it."""

import pytest

from aijobs.providers.bodies import merged, messages_of, schema_request, text_of, with_request
from tests.support.calls import make_call


def test_objects_merge_name_by_name_and_everything_else_is_replaced() -> None:
    ours = {"a": {"x": 1, "y": [1, 2]}, "b": 1, "c": {"z": 1}}
    theirs = {"a": {"y": [3]}, "b": {"new": True}, "c": None, "d": 4}

    result = merged(ours, theirs)

    assert result == {"a": {"x": 1, "y": [3]}, "b": {"new": True}, "c": None, "d": 4}
    assert ours == {"a": {"x": 1, "y": [1, 2]}, "b": 1, "c": {"z": 1}}


@pytest.mark.parametrize(
    ("prompt", "given", "text"),
    [
        ("rendered", {"prompt": "not this"}, "rendered"),
        ("", {"prompt": "not this"}, ""),
        (None, {"prompt": "this", "more": 1}, "this"),
        (None, "just text", "just text"),
        (None, {"text": "é", "n": 1}, '{"text":"é","n":1}'),
        (None, {"prompt": 3}, '{"prompt":3}'),
        (None, [1, 2], "[1,2]"),
    ],
)
def test_the_text_is_the_prompt_else_the_inputs_prompt_else_the_input(
    prompt: str | None, given: object, text: str
) -> None:
    assert text_of(make_call(prompt=prompt, input=given)) == text


def test_messages_of_the_type_go_before_the_jobs_own() -> None:
    system = {"role": "system", "content": "be short"}
    asked = {"role": "user", "content": "hi"}
    call = make_call(input={"messages": [asked]}, request={"messages": [system]})

    assert messages_of(call) == [system, asked]
    assert messages_of(make_call(prompt="hi", input={"messages": [3]}, request={"messages": [system]})) == [
        system,
        asked,
    ]
    assert messages_of(make_call(input={"prompt": "hi", "messages": []})) == [asked]


def test_the_request_is_merged_but_never_streams_and_never_changes_the_jobs_model() -> None:
    call = make_call(
        model="m-1", request={"model": "other", "stream": True, "temperature": 0.5, "x": {"b": 2}}
    )

    body = with_request(call, {"model": call.model, "x": {"a": 1}, "kept": 1}, kept=("kept",))

    assert body == {"model": "m-1", "x": {"a": 1, "b": 2}, "kept": 1, "temperature": 0.5}


def test_without_a_model_of_the_job_the_requests_own_is_used_or_none_is_sent() -> None:
    assert with_request(make_call(model=None, request={"model": "theirs"}), {"model": None}) == {
        "model": "theirs"
    }
    assert with_request(make_call(model=None), {"model": None}) == {}


def test_a_schema_is_named_after_the_type_and_strict_only_where_it_can_be() -> None:
    open_schema = {"type": "object"}
    closed = {"type": "object", "additionalProperties": False}

    assert schema_request(make_call()) is None
    assert schema_request(make_call(response_format=open_schema)) == {
        "name": "summarize",
        "schema": open_schema,
        "strict": False,
    }
    request = schema_request(make_call(response_format=closed))
    assert request is not None
    assert request["strict"] is True
