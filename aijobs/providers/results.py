"""What is stored of a model's answer: one shape for every kind of model API.

    {"text": ..., "finish_reason": ..., "model": ..., "id": ...}

and beside these, only where there is something to say: `output`, the provider's own output items, when they
hold more than text (tool calls, images); `json`, the parsed text of a type that expects JSON; `notes`.
"""

import json
from collections.abc import Callable

from aijobs.core.answers import Usable, Working
from aijobs.core.classifier import failure_of
from aijobs.core.envelope import at
from aijobs.core.model import CallFacts, Done, ErrorClass, Reply
from aijobs.core.payload import clean_parsed
from aijobs.providers.contract import Call
from aijobs.providers.endpoint import Exchange


def done(call: Call, usable: Usable, facts: CallFacts, *, output: object = None) -> Done:
    """The whole answer as a result that can be stored; *output* None leaves it at the text."""
    result: dict[str, object] = {
        "text": usable.text,
        "finish_reason": usable.finish,
        "model": at(usable.value, "model"),
        "id": at(usable.value, "id"),
    }
    if call.expects_json:
        result["json"] = json.loads(usable.text.strip())  # read_answer has seen that it is
    if output is not None:
        result["output"] = output
    if usable.notes:
        result["notes"] = usable.notes
    return Done(result=clean_parsed(result, max_bytes=call.result_bytes), facts=facts)


def whole_answer(call: Call, exchange: Exchange, *, more: Callable[[object], object]) -> Reply:
    """The result that a foreground answer is; *more* takes from it what is not only text."""
    read = exchange.read()
    match read:
        case Usable():
            return done(call, read, exchange.facts, output=more(read.value))
        case Working():
            message = f"the provider says {read.status!r}, and this kind has no way to ask after it"
            return failure_of(
                exchange.context,
                ErrorClass.BAD_RESPONSE,
                code="unfinished",
                message=message,
                maybe_billed=True,
            )
        case _:
            return read
