"""Kind `http`: any endpoint that takes a request and answers with 2xx when the work is done.

What is sent: the job's input as JSON (or `{"prompt": ...}`, or an envelope round both), with the type's
`request` merged in where it is an object; nothing with GET. The result is the JSON of the answer, or what
stands in it at the configured path (`data.items.0.text`); plain text becomes `{"text": ...}`, an empty answer
`null`. A page of HTML is a failure: it comes from a proxy in between.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from aijobs.core.classifier import classify_response, failure_of
from aijobs.core.envelope import Form
from aijobs.core.model import Done, ErrorClass, Failure, Reply
from aijobs.core.payload import clean_parsed
from aijobs.providers.bodies import merged, text_of
from aijobs.providers.contract import Call
from aijobs.providers.endpoint import Endpoint, Exchange, Request
from aijobs.providers.foreground import Foreground

_MISSING = object()


class HttpAdapter(Foreground):
    """Calls one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint

    async def submit(self, call: Call) -> Reply:
        """Send the request, and take a 2xx answer for the result."""
        settings = self._endpoint.settings
        body = None if settings.method == "GET" else request_body(call, settings.body)
        request = Request(method=settings.method, path=settings.path, body=body)
        exchange = await self._endpoint.ask(call, request)
        return exchange if isinstance(exchange, Failure) else self._reply(call, exchange)

    def _reply(self, call: Call, exchange: Exchange) -> Reply:
        response, context = exchange.response, exchange.context
        failure = classify_response(
            context, status=response.status, headers=response.headers, body=exchange.body
        )
        if failure is not None:
            return failure
        value = _value(call, exchange)
        if value is _MISSING:
            read = exchange.read()  # says what it is instead
            return read if isinstance(read, Failure) else _no_result(exchange, "the answer")
        path = self._endpoint.settings.result
        found = value_at(value, path)
        if found is _MISSING:
            return _no_result(exchange, path)
        return Done(result=clean_parsed(found, max_bytes=call.result_bytes), facts=exchange.facts)


def request_body(call: Call, form: str) -> object:
    """What is sent: *form* is `input`, `prompt` or `envelope`."""
    body = _FORMS[form](call)
    return merged(body, call.request) if isinstance(body, Mapping) else body


def value_at(value: object, path: str) -> object:
    """What stands at *path* (names and list places, joined by dots) in *value*, or `_MISSING`."""
    for step in filter(None, path.split(".")):
        if isinstance(value, Mapping):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


_FORMS: Mapping[str, Callable[[Call], object]] = MappingProxyType(
    {
        "input": lambda call: call.input,
        "prompt": lambda call: {"prompt": text_of(call)},
        "envelope": lambda call: {
            "job": call.job_id,
            "type": call.type,
            "attempt": call.attempt,
            "input": call.input,
            "prompt": call.prompt,
        },
    }
)


def _value(call: Call, exchange: Exchange) -> object:
    match exchange.body.form:
        case Form.JSON:
            return exchange.body.value
        case Form.TEXT if not call.expects_json:
            return {"text": exchange.response.body.decode("utf-8", "replace")}
        case Form.EMPTY if not call.expects_json:
            return None
        case _:
            return _MISSING


def _no_result(exchange: Exchange, path: str) -> Failure:
    message = f"nothing stands at {path!r} in the answer"
    return failure_of(
        exchange.context, ErrorClass.BAD_RESPONSE, code="no_result", message=message, maybe_billed=True
    )
