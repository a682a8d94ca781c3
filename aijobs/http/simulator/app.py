"""The simulator's ASGI app: its routes, and the controls at `/_calls`, `/_faults` and `/_reset`."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aijobs.core import faults as catalogue
from aijobs.http.simulator import wire
from aijobs.http.simulator.ledger import CallRecord
from aijobs.http.simulator.reply import JSON, Reply, as_json
from aijobs.http.simulator.request import Api, Refused, parse_latency, understand
from aijobs.http.simulator.simulator import Simulator
from aijobs.http.simulator.webhooks import TEST_SECRET, WebhookTarget

MAX_BODY = 32 * 1024 * 1024
_MODELS = ("simulated-1", "simulated-1-mini")

Handler = Callable[[Request, CallRecord], Awaitable[Reply]]


class _Endpoint:
    """One path of the provider: records the call, has it answered, and puts the answer on the wire."""

    def __init__(self, simulator: Simulator, api: Api, handler: Handler) -> None:
        self._simulator, self._api, self._handler = simulator, api, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._call(scope, receive, send)
        except asyncio.CancelledError:  # the server stops
            await wire.hang_up(scope, receive)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        simulator = self._simulator
        request = Request(scope, receive)
        request.state.request_id = f"req_{simulator.new_id()}"
        with simulator.ledger.call(scope["method"], scope["path"]) as record:
            try:
                reply = await self._handler(request, record)
            except Refused as refused:
                reply = simulator.refused(self._api, refused, request.state.request_id)
            simulator.ledger.settle(record, reply)
            reply = simulator.signed(reply, self._api, request.state.request_id)
            await wire.send(reply, scope, receive, send=send, pause=simulator.pause)


def app(simulator: Simulator) -> Starlette:
    """The app of *simulator*. Faults of the wire need the server of `start_in_thread` around it."""

    def route(path: str, api: Api, methods: str, handler: Handler) -> Route:
        return Route(path, _Endpoint(simulator, api, handler), methods=methods.split())

    one = "/v1/responses/{response_id}"
    return Starlette(
        routes=[
            route("/v1/responses", Api.RESPONSES, "POST", _submit(simulator, Api.RESPONSES)),
            route("/v1/chat/completions", Api.CHAT, "POST", _submit(simulator, Api.CHAT)),
            route("/v1/messages", Api.MESSAGES, "POST", _submit(simulator, Api.MESSAGES)),
            route("/v1/echo", Api.ECHO, "POST PUT PATCH", _submit(simulator, Api.ECHO)),
            route(one, Api.RESPONSES, "GET", _poll(simulator)),
            route(one, Api.RESPONSES, "DELETE", _delete(simulator)),
            route(f"{one}/cancel", Api.RESPONSES, "POST", _cancel(simulator)),
            route("/v1/models", Api.RESPONSES, "GET", _models(simulator)),
            *_controls(simulator),
        ]
    )


def _submit(simulator: Simulator, api: Api) -> Handler:
    async def handle(request: Request, record: CallRecord) -> Reply:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in request.scope["headers"]
        }
        raw = await _body(request)
        asked = understand(api, headers, raw=raw, request_id=request.state.request_id)
        return await simulator.submit(asked, record)

    return handle


async def _body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY:
            raise Refused(413, "The request is larger than 32 MB.")
        chunks.append(chunk)
    return b"".join(chunks)


def _poll(simulator: Simulator) -> Handler:
    async def handle(request: Request, record: CallRecord) -> Reply:
        return await simulator.poll(request.path_params["response_id"], record)

    return handle


def _cancel(simulator: Simulator) -> Handler:
    async def handle(request: Request, record: CallRecord) -> Reply:
        await _body(request)
        return await simulator.cancel(request.path_params["response_id"], record)

    return handle


def _delete(simulator: Simulator) -> Handler:
    async def handle(request: Request, record: CallRecord) -> Reply:
        return simulator.delete(request.path_params["response_id"], record)

    return handle


def _models(simulator: Simulator) -> Handler:
    async def handle(request: Request, _: CallRecord) -> Reply:
        simulator.check_caller(request.headers.get("x-simulator-fault"))
        names = simulator.settings.models or _MODELS
        data = [
            {"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "aijobs",
             "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
            for name in names
        ]  # fmt: skip
        page = {"object": "list", "data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}
        return Reply(headers=JSON, body=as_json(page))

    return handle


# --- Controls -------------------------------------------------------------------------------------


def _controls(simulator: Simulator) -> list[Route]:
    async def calls(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        return JSONResponse(simulator.ledger.snapshot(int(after) if after.isdecimal() else 0))

    async def show(_: Request) -> Response:
        return JSONResponse(_shown(simulator))

    async def change(request: Request) -> Response:
        try:
            _reconfigure(simulator, json.loads(await request.body()))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse(_shown(simulator))

    async def reset(_: Request) -> Response:
        simulator.reset()
        return Response(status_code=204)

    return [
        Route("/_calls", calls, methods=["GET"]),
        Route("/_faults", show, methods=["GET"]),
        Route("/_faults", change, methods=["POST"]),
        Route("/_reset", reset, methods=["POST"]),
    ]


def _reconfigure(simulator: Simulator, wanted: object) -> None:
    known = ("fault", "latency", "webhook_url", "webhook_secret", "poll_after")
    if not isinstance(wanted, dict) or wanted.keys() - set(known):
        raise ValueError(f"send an object with any of {', '.join(known)}")
    settings = simulator.settings
    if "fault" in wanted:
        settings = replace(settings, fault=str(wanted["fault"] or ""))
    if "latency" in wanted:
        settings = replace(settings, latency=parse_latency(str(wanted["latency"] or 0)))
    if "poll_after" in wanted:
        settings = replace(
            settings, poll_after=None if wanted["poll_after"] is None else float(wanted["poll_after"])
        )
    if "webhook_url" in wanted:
        url, secret = wanted["webhook_url"], str(wanted.get("webhook_secret") or TEST_SECRET)
        settings = replace(settings, webhook=WebhookTarget(url=str(url), secret=secret) if url else None)
    simulator.configure(settings)


def _shown(simulator: Simulator) -> dict[str, object]:
    settings = simulator.settings
    return {
        "fault": settings.fault,
        "latency_seconds": [settings.latency.low, settings.latency.high],
        "webhook_url": settings.webhook.url if settings.webhook else None,
        "poll_after": settings.poll_after,
        "catalogue": {**catalogue.REPLIES, **catalogue.WORK, **catalogue.WEBHOOKS},
    }
