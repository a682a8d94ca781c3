"""Whether a 200 is a success: every API's own sign that an answer is whole, and what it says.

A status of 200 proves nothing: answers come cut off, refused, empty, unfinished, or as an error in disguise.
An answer counts only with its protocol's own mark of completion.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from aijobs.core.classifier import CallContext, Operation, classify_response, failure_of
from aijobs.core.classifier_tables import FINISHES
from aijobs.core.envelope import Body, Form, at, read_body
from aijobs.core.hints import Headers
from aijobs.core.model import ErrorClass, Failure
from aijobs.core.retry import BY_PROVIDER

_E = ErrorClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """A whole answer: the parsed *value*, the model's *text* ("" if it called tools only), and its end."""

    value: object
    text: str = ""
    finish: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """The provider is not done, whether or not background work was asked for; poll the *value*'s id."""

    value: Mapping[str, object]
    status: str


@dataclass(frozen=True, slots=True)
class _Flaw:
    error_class: ErrorClass
    code: str
    message: str


_Answer = Mapping[str, object]
_Read = Usable | Working | _Flaw


def read_answer(
    context: CallContext, *, status: int, headers: Headers, body: Body
) -> Usable | Working | Failure:
    """What a response is: a whole answer, unfinished work, or a classified failure."""
    hidden = _error_of_choice(body.value)
    reported = body if hidden is None else Body(form=Form.JSON, value={"error": hidden})
    failure = classify_response(context, status=status, headers=headers, body=reported)
    if failure is not None:
        return failure
    found = _read(context, body)
    if not isinstance(found, _Flaw):
        return found
    context = replace(context, facts=replace(context.facts, http_status=status))
    return failure_of(context, found.error_class, code=found.code, message=found.message, maybe_billed=True)


def is_about_work(value: object) -> bool:
    """Whether *value* is a provider's own account of background work, not an answer that went wrong."""
    named = isinstance(at(value, "id"), str)
    return named and (isinstance(at(value, "status"), str) or at(value, "object") == "response")


def is_more_than(item: object, kinds: Collection[str]) -> bool:
    """Whether *item* of an answer names a kind of output that is none of *kinds*."""
    kind = at(item, "type")
    return isinstance(kind, str) and kind not in kinds


def _is_json(text: str) -> bool:
    return read_body(text.encode("utf-8", "replace")).form is Form.JSON


def _read(context: CallContext, body: Body) -> _Read:
    value = body.value
    if body.form is not Form.JSON:
        return _Flaw(_E.BAD_RESPONSE, f"not_json_{body.form.value}", _of(body, "the answer is not JSON"))
    if value is None:
        return _Flaw(_E.BAD_RESPONSE, "null", "the answer is null")
    if context.kind == "http":
        return Usable(value=value, text=value if isinstance(value, str) else "")
    if not isinstance(value, Mapping):
        return _Flaw(_E.BAD_RESPONSE, "not_an_object", _of(body, "the answer is no object"))
    found = _by_kind(context, value)
    if isinstance(found, Usable) and context.expects_json and not _is_json(found.text):
        return _Flaw(_E.BAD_RESPONSE, "invalid_output", "the model's text is not JSON")
    return found


def _of(body: Body, words: str) -> str:
    return f"{words}: {body.text}" if body.text else f"{words}: it is empty"


def _by_kind(context: CallContext, value: _Answer) -> _Read:
    if context.kind == "anthropic" or value.get("type") == "message":
        return _message(value)
    if context.kind == "openai-responses" or value.get("object") == "response":
        return _response(value, context.operation)
    if "candidates" in value or "promptFeedback" in value:
        return _gemini(value)
    return _chat(value)


def _ended(finish: str, text: str, value: _Answer, *, otherwise: bool = False) -> _Read:
    """What a reason to end means; *otherwise*: something other than text was made (a tool call, an image)."""
    gives = FINISHES.get(finish.lower(), _E.BAD_RESPONSE)
    if gives is not None:
        return _Flaw(gives, finish, f"the answer ended because of {finish!r}")
    if not text and not otherwise:
        return _Flaw(_E.BAD_RESPONSE, "empty_output", "the answer holds no text and no tool call")
    return Usable(value=value, text=text, finish=finish)


def _refused(words: object) -> _Flaw:
    return _Flaw(_E.CONTENT_POLICY, "refusal", f"the model refuses: {words}")


def _each(items: object) -> Iterator[_Answer]:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, Mapping):
            yield item


# --- OpenAI Responses -------------------------------------------------------------------------------

_NO_OUTPUT = frozenset({"reasoning", "message"})


def _response(value: _Answer, operation: Operation) -> _Read:
    status = value.get("status")
    match status:
        case "queued" | "in_progress":
            return Working(value=value, status=status)
        case "completed":
            return _completed(value)
        case "incomplete":
            reason = at(value, "incomplete_details", "reason")
            if isinstance(reason, str):
                return _ended(reason, "", value)
            return _Flaw(_E.BAD_RESPONSE, "incomplete", "the answer is incomplete, without a reason")
        case "failed":
            return _Flaw(_E.BAD_RESPONSE, "failed", "the provider says that it failed, and nothing more")
        case "cancelled":
            code = "cancelled" if operation is Operation.CANCEL else BY_PROVIDER
            return _Flaw(_E.CANCELLED, code, "the provider's work was cancelled")
        case _:
            return _Flaw(_E.BAD_RESPONSE, "unknown_status", f"the provider's work has the status {status!r}")


def _completed(value: _Answer) -> _Read:
    text: list[str] = []
    otherwise = False
    for item in _each(value.get("output")):
        otherwise = otherwise or is_more_than(item, _NO_OUTPUT)
        for part in _each(item.get("content")) if item.get("type") == "message" else ():
            if part.get("type") == "refusal":
                return _refused(part.get("refusal"))
            if part.get("type") == "output_text" and isinstance(part.get("text"), str):
                text.append(str(part["text"]))
    return _ended("stop", "".join(text), value, otherwise=otherwise)


# --- Chat completions -------------------------------------------------------------------------------


def _chat(value: _Answer) -> _Read:
    choice = next(_each(value.get("choices")), None)
    if choice is None:
        return _Flaw(_E.BAD_RESPONSE, "no_choices", "the answer holds no choices")
    finish = choice.get("finish_reason")
    if isinstance(finish, str) and FINISHES.get(finish.lower(), _E.BAD_RESPONSE) is not None:
        return _ended(finish, "", value)  # before the content: it may be null because of this
    message = choice.get("message")
    if not isinstance(message, Mapping):
        return _Flaw(_E.BAD_RESPONSE, "no_message", "the answer's first choice holds no message")
    if message.get("refusal"):
        return _refused(message["refusal"])
    text = _text_of(message.get("content"))
    read = _ended(
        finish if isinstance(finish, str) else "stop",
        text,
        value,
        otherwise=bool(message.get("tool_calls") or message.get("function_call")),
    )
    return replace(read, notes=tuple(_notes(choice))) if isinstance(read, Usable) else read


def _error_of_choice(value: object) -> Mapping[str, object] | None:
    """What a gateway says of a model that failed half-way, behind a 200 and `finish_reason: error`."""
    choice = next(_each(at(value, "choices")), None)
    if choice is None or choice.get("finish_reason") != "error":
        return None
    error = choice.get("error")
    if isinstance(error, Mapping) and error:
        return error
    return {"code": choice.get("native_finish_reason"), "message": "the model failed half-way"}


def _notes(choice: _Answer) -> Iterator[str]:
    if not isinstance(choice.get("finish_reason"), str):
        yield "the provider gave no finish_reason"  # some leave it out; the text alone has to do
    if at(choice, "content_filter_results", "error"):
        yield "the provider's content filter did not run"


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part["text"]) for part in _each(content) if isinstance(part.get("text"), str))


# --- Anthropic Messages -----------------------------------------------------------------------------


def _message(value: _Answer) -> _Read:
    finish = value.get("stop_reason")
    if finish == "refusal":
        return _refused(at(value, "stop_details", "category") or "no category given")
    if not isinstance(finish, str):
        return _Flaw(_E.BAD_RESPONSE, "no_stop_reason", "the answer does not say that it is whole")
    blocks = list(_each(value.get("content")))
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    return _ended(finish, text, value, otherwise=any(block.get("type") == "tool_use" for block in blocks))


# --- Gemini -----------------------------------------------------------------------------------------


def _gemini(value: _Answer) -> _Read:
    blocked = at(value, "promptFeedback", "blockReason")
    candidate = next(_each(value.get("candidates")), None)
    if candidate is None:
        if isinstance(blocked, str):
            return _Flaw(_E.CONTENT_POLICY, blocked, f"the prompt was blocked: {blocked}")
        return _Flaw(_E.BAD_RESPONSE, "no_choices", "the answer holds no candidates")
    finish = candidate.get("finishReason")
    if not isinstance(finish, str):
        return _Flaw(_E.BAD_RESPONSE, "no_finish_reason", "the answer does not say that it is whole")
    if finish.lower().startswith("image_"):
        return _Flaw(_E.CONTENT_POLICY, finish, f"the answer ended because of {finish!r}")
    parts = list(_each(at(candidate, "content", "parts")))
    text = "".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))
    return _ended(finish, text, value, otherwise=any("functionCall" in part for part in parts))
