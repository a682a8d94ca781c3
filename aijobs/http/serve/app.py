"""The ASGI application: which routes there are, what guards them, what their errors become.

A route whose secret is not configured is not there at all.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePath
from traceback import extract_tb

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from aijobs.core.errors import AijobsError, StoreError
from aijobs.core.log_events import LogEvent
from aijobs.http.serve import house_routes, job_routes, stream_route, webhook_route
from aijobs.http.serve.answers import document, failure, http_failure, own_failure
from aijobs.http.serve.door import check_token, ends_in_doubt
from aijobs.http.serve.openapi import describe
from aijobs.http.serve.serving import Serving

Handler = Callable[[Request, Serving], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]

_HANG_UP = {"connection": "close"}


def build(serving: Serving, *, root_path: str = "") -> ASGIApp:
    """The application of *serving*, below *root_path* whether or not the proxy in front takes that away."""
    app = Starlette(routes=_routes(serving), exception_handlers=_handlers(serving))
    app.router.redirect_slashes = False
    return _Below(app, root_path)


def _routes(serving: Serving) -> list[Route]:
    routes = [
        _route(serving, "/healthz", house_routes.health),
        _route(serving, "/readyz", house_routes.ready),
        _route(serving, "/metrics", house_routes.metrics),
        Route("/openapi.json", _openapi(serving)),
    ]
    if serving.takes_webhooks:
        routes.append(_route(serving, "/webhooks/{provider}", webhook_route.webhook, methods=("POST",)))
    if serving.secrets.cron is not None:
        cron = serving.secrets.cron
        routes.append(_route(serving, "/tick", house_routes.tick, methods=("GET", "POST"), secret=cron))
    if serving.secrets.api is not None:
        api = serving.secrets.api
        routes += [
            _route(serving, "/jobs", job_routes.create, methods=("POST",), secret=api),
            _route(serving, "/jobs/{job_id}", job_routes.show, secret=api),
            _route(serving, "/jobs/{job_id}/cancel", job_routes.cancel, methods=("POST",), secret=api),
            _route(serving, "/jobs/{job_id}/events", stream_route.events, secret=api),
        ]
    return routes


def _route(
    serving: Serving, path: str, handler: Handler, *, methods: Sequence[str] = ("GET",),
    secret: str | None = None,
) -> Route:  # fmt: skip
    async def endpoint(request: Request) -> Response:
        if secret is not None:
            check_token(request, secret)
        return await handler(request, serving)

    return Route(path, endpoint, methods=list(methods))


def _openapi(serving: Serving) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return document(describe(serving, root_path=request.scope.get("root_path", "")))

    return endpoint


def _handlers(serving: Serving) -> dict[type[Exception] | int, Callable[..., Awaitable[Response]]]:
    async def refused(_: Request, error: HTTPException) -> Response:
        return http_failure(error)

    async def known(request: Request, error: AijobsError) -> Response:
        if isinstance(error, StoreError):
            serving.faults.tell(_route_of(request), error)
        return own_failure(error, retry_after=serving.bounds.retry_after)

    async def unknown(request: Request, error: Exception) -> Response:
        serving.log.emit(LogEvent.REQUEST_FAILED, route=_route_of(request), error=_place(error))
        return failure(500, "internal", "internal error")

    return {HTTPException: refused, AijobsError: known, Exception: unknown}


def _route_of(request: Request) -> str:
    """The route, not the path: what stands in a path is the caller's."""
    route = request.scope.get("route")
    return route.path if isinstance(route, Route) else "unknown"


def _place(error: Exception) -> str:
    """The kind of error and where it was raised; never its text, which may hold what came in."""
    frames = extract_tb(error.__traceback__)
    where = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


class _Below:
    """The application below a prefix."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if ends_in_doubt(scope.get("headers", ())):
            refusal = failure(400, "malformed", "a length and chunks contradict each other", _HANG_UP)
            await refusal(scope, receive, send)
            return
        if scope["type"] == "http" and self._prefix:
            path: str = scope["path"]
            kept = path == self._prefix or path.startswith(f"{self._prefix}/")
            scope = {**scope, "root_path": self._prefix, "path": path if kept else self._prefix + path}
        await self._app(scope, receive, send)
