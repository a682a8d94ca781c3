"""What is sent to a model: the prompt or the input as text or messages, the type's request merged in."""

import re
from collections.abc import Mapping

from aijobs.core.payload import dump_json
from aijobs.providers.contract import Call

Body = dict[str, object]

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64


def merged(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Body:
    """*ours* with *theirs* laid over it: objects merge name by name, anything else is replaced."""
    result = dict(ours)
    for name, value in theirs.items():
        mine = result.get(name)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        result[name] = merged(mine, value) if both else value  # type: ignore[arg-type]
    return result


def text_of(call: Call) -> str:
    """What the model is to read: the rendered prompt, else the input's `prompt`, else the input as JSON."""
    if call.prompt is not None:
        return call.prompt
    match call.input:
        case str(text) | {"prompt": str(text)}:
            return text
        case _:
            return dump_json(call.input)


def messages_of(call: Call) -> list[object]:
    """The conversation: messages of the type's request go first, then the input's `messages` or its text."""
    first = call.request.get("messages")
    before = list(first) if isinstance(first, list) else []
    if call.prompt is None and isinstance(call.input, Mapping):
        given = call.input.get("messages")
        if isinstance(given, list) and given:
            return [*before, *given]
    return [*before, {"role": "user", "content": text_of(call)}]


def with_request(call: Call, ours: Mapping[str, object], *, kept: tuple[str, ...] = ()) -> Body:
    """*ours* with the type's request merged in, except for the names in *kept*, which stay ours.

    Nothing is ever streamed: a stream that stops early looks like an answer. An unknown model is left out.
    """
    theirs = {name: value for name, value in call.request.items() if name not in kept and name != "stream"}
    if call.model is not None:
        theirs.pop("model", None)
    body = merged(ours, theirs)
    if body.get("model", "") is None:
        del body["model"]
    return body


def schema_request(call: Call) -> Body | None:
    """The JSON Schema to ask for, as OpenAI's `json_schema` wants it; None when none is asked for."""
    if call.response_format is None:
        return None
    return {
        "name": _NOT_IN_A_NAME.sub("_", call.type)[:_LONGEST_NAME] or "result",
        "schema": dict(call.response_format),
        "strict": call.response_format.get("additionalProperties")
        is False,  # strict refuses any other schema
    }
