"""Good answers, and answers that only look good: each API's own object around the model's text."""

from collections.abc import Callable

from aijobs.http.simulator import text as model
from aijobs.http.simulator.refusals import error_object
from aijobs.http.simulator.reply import as_json
from aijobs.http.simulator.request import Api, Asked, Body


def output(asked: Asked) -> tuple[str, bool]:
    """What the model says to *asked*, and whether the caller's bound on output tokens cut it."""
    form = _object(asked.body.get("response_format")) or _object(
        _object(asked.body.get("text")).get("format")
    )
    if asked.orders.reply is not None:
        said = asked.orders.reply
    elif str(form.get("type", "")).startswith("json"):
        schema = form.get("schema") or _object(form.get("json_schema")).get("schema")
        said = model.json_answer(asked.text, schema)
    else:
        said = model.answer(asked.text)
    bound = asked.max_output_tokens
    if bound is None or model.count_tokens(said) <= bound:
        return said, False
    return said.encode("utf-8", "replace")[: bound * 4].decode("utf-8", "ignore"), True


def _object(value: object) -> Body:
    return value if isinstance(value, dict) else {}


def usage(api: Api, asked: str, said: str) -> Body:
    """The usage object as *api* writes it."""
    into, out = model.count_tokens(asked), model.count_tokens(said)
    match api:
        case Api.CHAT:
            return {
                "prompt_tokens": into,
                "completion_tokens": out,
                "total_tokens": into + out,
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            }
        case Api.MESSAGES:
            return {
                "input_tokens": into,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": out,
                "service_tier": "standard",
            }
        case _:
            return {
                "input_tokens": into,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": out,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": into + out,
            }


def chat_completion(asked: Asked, answer_id: str, created: int) -> Body:
    """The object of `/v1/chat/completions`."""
    said, cut = output(asked)
    return {
        "id": f"chatcmpl-{answer_id}",
        "object": "chat.completion",
        "created": created,
        "model": asked.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": said, "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "length" if cut else "stop",
            }
        ],
        "usage": usage(Api.CHAT, asked.text, said),
        "service_tier": "default",
        "system_fingerprint": "fp_simulated",
    }


def message(asked: Asked, answer_id: str, _: int) -> Body:
    """The object of `/v1/messages`."""
    said, cut = output(asked)
    return {
        "id": f"msg_{answer_id}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [{"type": "text", "text": said, "citations": None}],
        "stop_reason": "max_tokens" if cut else "end_turn",
        "stop_sequence": None,
        "usage": usage(Api.MESSAGES, asked.text, said),
    }


def echo(asked: Asked, answer_id: str, created: int) -> Body:
    """The object of `/v1/echo`: what came in, and an answer to it."""
    said, _ = output(asked)
    return {
        "id": f"echo_{answer_id}",
        "created": created,
        "received": asked.body,
        "output": said,
        "usage": usage(Api.ECHO, asked.text, said),
    }


GOOD: dict[Api, Callable[[Asked, str, int], Body]] = {
    Api.CHAT: chat_completion,
    Api.MESSAGES: message,
    Api.ECHO: echo,
}

# --- Answers that only look good ------------------------------------------------------------------

_PAGE = b"<!DOCTYPE html><html><body><h1>Welcome</h1></body></html>"


def bend(name: str, asked: Asked, good: Body) -> bytes:
    """The bytes of the answer that fault *name* makes of *good*."""
    match name:
        case "200_error_obj":
            return as_json(error_object(asked, "429_slow_down"))
        case "200_null":
            return b"null"
        case "200_array":
            return as_json([good])
        case "200_empty":
            return b""
        case "200_html":
            return _PAGE
        case "200_truncated_json":
            whole = as_json(good)
            return whole[: len(whole) // 2]
        case _:
            return as_json(_BENT[asked.api](name, asked, good))


def _bent_response(name: str, _: Asked, good: Body) -> Body:
    match name:
        case "choices_empty":
            return {**good, "output": []}
        case "choices_null":
            return {**good, "output": None}
        case "finish_length":
            return {**good, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        case "finish_length_null_content":
            details = {"reason": "max_output_tokens"}
            return {**good, "status": "incomplete", "incomplete_details": details, "output": [_reasoning()]}
        case "finish_filter":
            return {
                **good,
                "status": "incomplete",
                "incomplete_details": {"reason": "content_filter"},
                "output": [],
            }
        case "finish_error":
            error = {"code": "server_error", "message": "The model failed half-way."}
            return {**good, "status": "failed", "error": error, "output": []}
        case "refusal":
            return {**good, "output": [_parts({"type": "refusal", "refusal": "I can't help with that."})]}
        case "empty_output":
            return {**good, "output": [_parts({"type": "output_text", "text": "", "annotations": []})]}
        case "status_in_progress":
            return {**good, "status": "in_progress", "output": [], "usage": None}
        case "status_unknown":
            return {**good, "status": "paused"}
        case _:
            return {key: value for key, value in good.items() if key != "status"}


def _reasoning() -> Body:
    return {"id": "rs_simulated", "type": "reasoning", "summary": []}


def _parts(part: Body) -> Body:
    return {
        "id": "msg_simulated",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _bent_chat(name: str, _: Asked, good: Body) -> Body:
    changes: dict[str, tuple[str | None, Body]] = {
        "finish_length": ("length", {}),
        "finish_length_null_content": ("length", {"content": None}),
        "finish_filter": ("content_filter", {"content": None}),
        "refusal": ("stop", {"content": None, "refusal": "I can't help with that."}),
        "empty_output": ("stop", {"content": ""}),
        "status_in_progress": (None, {"content": None}),
        "status_unknown": ("paused", {}),
    }
    if name in ("choices_empty", "choices_null"):
        return {**good, "choices": [] if name == "choices_empty" else None}
    choice = dict(good["choices"][0])
    if name == "finish_error":
        error = {"code": 502, "message": "The upstream model failed half-way."}
        return {**good, "choices": [{**choice, "finish_reason": "error", "error": error}]}
    if name == "status_missing":
        return {**good, "choices": [{key: value for key, value in choice.items() if key != "finish_reason"}]}
    finish, changed = changes[name]
    return {
        **good,
        "choices": [{**choice, "finish_reason": finish, "message": {**choice["message"], **changed}}],
    }


def _bent_message(name: str, asked: Asked, good: Body) -> Body:
    changes: dict[str, Body] = {
        "choices_empty": {"content": []},
        "choices_null": {"content": None},
        "finish_length": {"stop_reason": "max_tokens"},
        "finish_length_null_content": {"stop_reason": "max_tokens", "content": []},
        "finish_filter": {"stop_reason": "refusal", "content": []},
        "refusal": {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "bio"}},
        "empty_output": {"content": [{"type": "text", "text": "", "citations": None}]},
        "status_in_progress": {"stop_reason": "pause_turn"},
        "status_unknown": {"stop_reason": "paused"},
    }
    if name == "finish_error":
        return error_object(asked, "529")
    if name == "status_missing":
        return {key: value for key, value in good.items() if key != "stop_reason"}
    return {**good, **changes[name]}


def _bent_echo(name: str, _: Asked, good: Body) -> Body:
    return {**good, "output": None, "status": name}


_BENT: dict[Api, Callable[[str, Asked, Body], Body]] = {
    Api.RESPONSES: _bent_response,
    Api.CHAT: _bent_chat,
    Api.MESSAGES: _bent_message,
    Api.ECHO: _bent_echo,
}

BENDABLE = frozenset(
    {
        "200_error_obj", "200_null", "200_array", "200_empty", "200_html", "200_truncated_json",
        "choices_empty", "choices_null", "finish_length", "finish_length_null_content", "finish_error",
        "finish_filter", "refusal", "empty_output", "status_in_progress", "status_unknown", "status_missing",
    }
)  # fmt: skip
"""The faults that are made of a good answer."""


def content_type(name: str) -> str:
    """What a bent answer says it is."""
    return "text/html; charset=utf-8" if name == "200_html" else "application/json"
