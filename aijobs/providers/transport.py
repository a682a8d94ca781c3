"""The engine under httpx: one aiohttp connector, every failure told as the right httpx class and phase.

httpx stays what everybody programs against; no other module knows aiohttp. It never follows a redirect and
never sends a request twice. A request's extensions may carry `max_response_bytes`, and `progress`: a
:class:`Progress` that is kept up to date while the call runs, so that one which is cut off from outside can
still tell how far it got.
"""

import os
import re
import socket
import ssl
from types import SimpleNamespace
from typing import Final

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from aijobs.core.model import Phase
from aijobs.providers.compression import ResponseTooLarge, decode
from aijobs.providers.proxies import NO_PROXIES, Proxies, Route

KEEPALIVE_SECONDS: Final = 4.0  # many servers hang up on a connection after five idle seconds
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
MAX_HEADER_BYTES: Final = 64 * 1024

_NOT_OURS_TO_ADD = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_KEEPALIVE_OPTIONS = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5))
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_NO_LIMITS: dict[str, float | None] = {}


class Progress:
    """How far one request got; written by the transport, read by whoever sent it."""

    __slots__ = ("phase", "queued")

    def __init__(self) -> None:
        self.phase = Phase.PREPARING
        self.queued = False  # waiting for a free connection of the pool


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends httpx requests over aiohttp. Bound to the event loop it is first used in; close it there.

    *limit* is the number of connections, 0 for as many as there are calls (then nothing waits for the pool).
    """

    def __init__(
        self,
        *,
        limit: int = 0,
        proxies: Proxies = NO_PROXIES,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._limit = limit
        self._proxies = proxies
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send *request* once and read the whole response. Raises httpx.RequestError subclasses only."""
        progress = request.extensions.get("progress") or Progress()
        try:
            return await self._exchange(request, progress)
        except httpx.RequestError as exc:
            exc.request = request
            raise
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError, TypeError) as exc:
            raise _httpx_class(exc, progress)(_describe(exc), request=request) from exc

    async def aclose(self) -> None:
        """Close every connection. The transport opens new ones when it is used again."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(self, request: httpx.Request, progress: Progress) -> httpx.Response:
        route = self._route(request.url)
        body = await request.aread()
        response = await self._open_session().request(
            request.method,
            _url(request.url),
            data=body or None,
            headers=_headers(request, route),
            allow_redirects=False,
            proxy=route.proxy,
            proxy_headers=route.headers if route.tunnelled else None,
            ssl=self._tls_context() if route.encrypted else True,
            timeout=_timeouts(request.extensions.get("timeout", _NO_LIMITS)),
            trace_request_ctx=progress,
        )
        progress.phase = Phase.HEADERS
        cap: int = request.extensions.get("max_response_bytes", MAX_RESPONSE_BYTES)
        try:
            content = await _read(response, progress, cap=cap)
        except BaseException:
            response.close()  # what is left of the body must not be taken for the next response
            raise
        return _finished(response, content, cap=cap)

    def _route(self, url: httpx.URL) -> Route:
        if url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"cannot call a URL that begins with {url.scheme + ':'!r}")
        if not url.host:
            raise httpx.UnsupportedProtocol("cannot call a URL without a host")
        return self._proxies.route(url.scheme, url.host, url.port)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._limit,
                keepalive_timeout=KEEPALIVE_SECONDS,
                resolver=aiohttp.ThreadedResolver(),
                socket_factory=_open_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_NOT_OURS_TO_ADD,
                auto_decompress=False,
                trust_env=False,
                max_field_size=MAX_HEADER_BYTES,
                trace_configs=[_trace_config()],
            )
            # aiohttp sends an idempotent request again when a kept-alive connection turns out dead. Nothing
            # below the queue may do that. There is no public switch; a test fails if this loses its effect.
            self._session._retry_connection = False  # noqa: SLF001
        return self._session

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = httpx.create_ssl_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


async def _read(response: aiohttp.ClientResponse, progress: Progress, *, cap: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await response.content.readany():
        progress.phase = Phase.BODY
        size += len(part)
        if size > cap:
            raise ResponseTooLarge(f"more than {cap} bytes")
        parts.append(part)
    return b"".join(parts)


def _finished(response: aiohttp.ClientResponse, content: bytes, *, cap: int) -> httpx.Response:
    coding = ", ".join(response.headers.getall("Content-Encoding", ())).strip().lower()
    headers = list(response.raw_headers)
    if coding and content:
        content = decode(content, coding, limit=cap)
        headers = [h for h in headers if h[0].lower() not in (b"content-encoding", b"content-length")]
    return httpx.Response(response.status, headers=headers, content=content)


def _url(url: httpx.URL) -> URL:
    """The same URL, byte for byte, without credentials (httpx has made a header of them)."""
    return URL(str(url.copy_with(userinfo=b"") if url.userinfo else url), encoded=True)


def _headers(request: httpx.Request, route: Route) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    for name, value in request.headers.raw:
        if _CONTROL.search(value) or not value.isascii():
            raise httpx.LocalProtocolError(f"header {name.decode('latin-1')} holds characters it must not")
        if name.lower() != b"transfer-encoding":  # the body is in memory: its length is known
            headers.append((name.decode("ascii"), value.decode("ascii")))
    if route.headers and not route.tunnelled:
        headers.extend(route.headers.items())
    return headers


def _timeouts(limits: dict[str, float | None]) -> aiohttp.ClientTimeout:
    connect = limits.get("connect")
    return aiohttp.ClientTimeout(
        total=None,
        connect=connect,
        sock_connect=connect,
        sock_read=limits.get("read"),
        ceil_threshold=3600,  # aiohttp would round anything above five seconds up to a whole second
    )


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS:
        if option := getattr(socket, name, None):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def _trace_config() -> aiohttp.TraceConfig:
    """Hooks that keep a request's Progress. A tunnel's CONNECT does not run them: still `connecting`."""

    async def queued(_session: object, context: SimpleNamespace, _params: object) -> None:
        context.trace_request_ctx.phase = Phase.CONNECTING
        context.trace_request_ctx.queued = True

    async def connecting(_session: object, context: SimpleNamespace, _params: object) -> None:
        context.trace_request_ctx.phase = Phase.CONNECTING
        context.trace_request_ctx.queued = False

    async def sent(_session: object, context: SimpleNamespace, _params: object) -> None:
        context.trace_request_ctx.phase = Phase.SENT  # runs just before the first byte: the careful side

    config = aiohttp.TraceConfig()
    config.on_connection_queued_start.append(queued)
    config.on_connection_queued_end.append(connecting)
    config.on_connection_create_start.append(connecting)
    config.on_request_headers_sent.append(sent)
    return config


# --- Errors: by type and phase, in this order, never by message ------------------------------------

_NOT_SENT: Final[tuple[tuple[type[BaseException], type[httpx.RequestError]], ...]] = (
    (aiohttp.NonHttpUrlClientError, httpx.UnsupportedProtocol),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.ClientProxyConnectionError, httpx.ProxyError),
    (aiohttp.ClientHttpProxyError, httpx.ProxyError),
    (TimeoutError, httpx.ConnectTimeout),
    (aiohttp.ClientError, httpx.ConnectError),
    (HttpProcessingError, httpx.ProxyError),
    (OSError, httpx.ConnectError),
    (ValueError, httpx.LocalProtocolError),
    (TypeError, httpx.LocalProtocolError),
)

_MAYBE_SENT: Final[tuple[tuple[type[BaseException], type[httpx.RequestError]], ...]] = (
    (TimeoutError, httpx.ReadTimeout),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (HttpProcessingError, httpx.RemoteProtocolError),
    (aiohttp.ClientConnectionResetError, httpx.WriteError),
    (OSError, httpx.ReadError),
    (aiohttp.ClientError, httpx.ReadError),
    (ValueError, httpx.RemoteProtocolError),
    (TypeError, httpx.RemoteProtocolError),
)


def _httpx_class(exc: Exception, progress: Progress) -> type[httpx.RequestError]:
    if progress.queued:
        return httpx.PoolTimeout
    table = _MAYBE_SENT if progress.phase.maybe_billed else _NOT_SENT
    return next(ours for theirs, ours in table if isinstance(exc, theirs))


def _describe(exc: Exception) -> str:
    """One line made of parts that hold no address: aiohttp likes to quote the URL, which may carry a key."""
    match exc:
        case aiohttp.ClientConnectorError():
            return f"{exc.host}:{exc.port}: {exc.os_error}"
        case aiohttp.ClientResponseError():
            return f"{exc.status} {exc.message}"
        case HttpProcessingError():
            return exc.message
        case aiohttp.ClientPayloadError():
            return str(exc)
        case OSError() if exc.errno:
            return os.strerror(exc.errno)
        case _:
            return type(exc).__name__
