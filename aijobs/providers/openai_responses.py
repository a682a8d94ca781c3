"""Kind `openai-responses`: the Responses API, in the foreground or in the background.

Whether a reply is a result or work that goes on is told by its `status`, never by what was asked: a
foreground call may come back unfinished, and a background one done.
"""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from aijobs.core.answers import Usable, Working, is_about_work, is_more_than
from aijobs.core.classifier import Operation, failure_of
from aijobs.core.envelope import at
from aijobs.core.hints import delay_hint, poll_hint
from aijobs.core.model import ErrorClass, Failure, Pending, Reply
from aijobs.core.retry import RESULT_LOST
from aijobs.providers.bodies import Body, schema_request, text_of, with_request
from aijobs.providers.contract import Call, PollFailed
from aijobs.providers.endpoint import Endpoint, Exchange, Request, provider_job_id
from aijobs.providers.results import done

_ONLY_TEXT: Final = frozenset({"message", "reasoning"})
_TOO_LATE: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.CONFLICT,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""What servers say to a request to cancel work that has ended, or that they can't cancel."""


class ResponsesAdapter:
    """Submits, polls and cancels responses. The simulator speaks this too."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint

    async def submit(self, call: Call) -> Reply:
        """Create a response; with `call.background` the provider is asked to go on by itself."""
        exchange = await self._endpoint.ask(
            call, Request(method="POST", path="/responses", body=request_body(call))
        )
        return exchange if isinstance(exchange, Failure) else _reply(call, exchange)

    async def poll(self, call: Call, provider_job_id: str) -> Reply | PollFailed:
        """Retrieve the response."""
        return await self._retrieve(call, provider_job_id, within=call.timeout)

    async def cancel(self, call: Call, provider_job_id: str) -> Reply | PollFailed:
        """Cancel it; where that is refused, look at what state it is really in."""
        started = self._endpoint.clock.monotonic()
        path = f"/responses/{quote(provider_job_id, safe='')}/cancel"
        request = Request(method="POST", path=path, operation=Operation.CANCEL, about=provider_job_id)
        exchange = await self._endpoint.ask(call, request)
        if isinstance(exchange, Exchange) and exchange.response.status in _TOO_LATE:
            spent = timedelta(seconds=self._endpoint.clock.monotonic() - started)
            return await self._retrieve(call, provider_job_id, within=call.timeout - spent)
        return _account(call, exchange)

    async def close(self) -> None:
        """Nothing is held; the connections belong to the client."""

    async def _retrieve(self, call: Call, provider_job_id: str, *, within: timedelta) -> Reply | PollFailed:
        path = f"/responses/{quote(provider_job_id, safe='')}"
        request = Request(
            method="GET", path=path, operation=Operation.POLL, within=within, about=provider_job_id
        )
        return _account(call, await self._endpoint.ask(call, request))


def request_body(call: Call) -> Body:
    """What creates a response. Our ids in the metadata find the job of a response that nobody saved."""
    ours: Body = {"model": call.model, "input": _input(call)}
    if schema := schema_request(call):
        ours["text"] = {"format": {"type": "json_schema", **schema}}
    if call.background:
        # `store` is said because projects that keep nothing lose background answers after some ten minutes.
        ours |= {"background": True, "store": True}
        if call.completion_window not in (None, "soonest"):
            ours["background_options"] = {"completion_window": call.completion_window}
    body = with_request(call, ours, kept=("input", "background"))
    theirs = body.get("metadata")
    body["metadata"] = {
        **(theirs if isinstance(theirs, Mapping) else {}),
        "aijobs_job_id": call.job_id,
        "aijobs_attempt": str(call.attempt),
    }
    return body


def _input(call: Call) -> object:
    given = at(call.input, "messages") if call.prompt is None else None
    return given if isinstance(given, list) and given else text_of(call)


def _account(call: Call, exchange: Exchange | Failure) -> Reply | PollFailed:
    """What a poll found out: of the work, or only of itself."""
    if isinstance(exchange, Failure):
        return PollFailed(failure=exchange)
    reply = _reply(call, exchange)
    told = exchange.response.status < 300 and is_about_work(exchange.body.value)
    if isinstance(reply, Failure) and not told:
        return PollFailed(failure=reply, gone=reply.code == RESULT_LOST)
    return reply


def _reply(call: Call, exchange: Exchange) -> Reply:
    read = exchange.read()
    if isinstance(read, Usable):
        return done(call, read, exchange.facts, output=_more_than_text(read.value))
    return _pending(exchange, read) if isinstance(read, Working) else read


def _pending(exchange: Exchange, working: Working) -> Pending | Failure:
    work = provider_job_id(working.value)
    if work is None:
        message = f"the provider says {working.status!r} and gives no id to ask after"
        return failure_of(
            exchange.context, ErrorClass.BAD_RESPONSE, code="no_id", message=message, maybe_billed=True
        )
    headers = exchange.response.headers
    hint = poll_hint(headers) or delay_hint(headers, None, exchange.context.now, throttled=False).delay
    return Pending(
        provider_job_id=work, poll_after=hint, provider_status=working.status, facts=exchange.facts
    )


def _more_than_text(value: object) -> object:
    items = at(value, "output")
    if not isinstance(items, list):
        return None
    return items if any(is_more_than(item, _ONLY_TEXT) for item in items) else None
