"""One HTTP client for all providers: a request goes out once, within one total limit, and never raises.

httpx's own limits are per read; a peer that sends a byte now and then would never hit them. So the whole
exchange runs under one deadline, and the transport's record tells how far it had got when that passed.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Final

import httpx

from aijobs import __version__
from aijobs.core.classifier import FaultKind, TransportFault
from aijobs.core.clock import Clock
from aijobs.core.model import Phase
from aijobs.providers import proxies
from aijobs.providers.compression import ACCEPTED, ResponseTooLarge
from aijobs.providers.transport import MAX_RESPONSE_BYTES, AiohttpTransport, Progress

CONNECT_TIMEOUT: Final = timedelta(seconds=10)

_HEADERS: Final = {
    "User-Agent": f"aijobs/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": ACCEPTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One request. *body* is JSON text; None sends none."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    connect_timeout: timedelta = CONNECT_TIMEOUT
    max_response_bytes: int = MAX_RESPONSE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A whole response of any status. Header names are lower case; one may occur several times."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    elapsed_seconds: float
    phase: Phase

    def header(self, *names: str) -> str | None:
        """The value of the first of *names* (lower case) that is there and not empty."""
        for wanted in names:
            for name, value in self.headers:
                if name == wanted and value:
                    return value
        return None


@lru_cache(maxsize=256)
def _address(url: str) -> tuple[httpx.URL, str | None]:
    """*url* taken apart, and the Authorization header that credentials in it stand for."""
    parsed = httpx.URL(url)
    if not (parsed.username or parsed.password):
        return parsed, None
    token = b64encode(f"{parsed.username}:{parsed.password}".encode()).decode("ascii")
    return parsed, f"Basic {token}"


class Client:
    """Sends requests over one pool of connections, opened with the first. Close it in the same event loop."""

    def __init__(self, *, clock: Clock, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._clock = clock
        self._transport = transport
        self._opened: httpx.AsyncBaseTransport | None = None

    async def send(self, outgoing: Outgoing, *, deadline: timedelta) -> Response | TransportFault:
        """The response, or why there is none. Only asyncio.CancelledError is ever raised."""
        progress = Progress()
        started = self._clock.monotonic()
        if deadline <= timedelta(0):  # a request may leave before the loop gets to notice
            return _fault(TimeoutError(), progress, 0.0)
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                response = await self._exchange(outgoing, progress)
        except Exception as error:
            return _fault(error, progress, self._clock.monotonic() - started)
        return Response(
            status=response.status_code,
            headers=tuple(response.headers.multi_items()),
            body=response.content,
            elapsed_seconds=self._clock.monotonic() - started,
            phase=progress.phase,
        )

    async def close(self) -> None:
        """Close every connection."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    async def _exchange(self, outgoing: Outgoing, progress: Progress) -> httpx.Response:
        """Straight to the transport: what httpx's client does besides (cookies, redirects, defaults to be
        merged) is not wanted here, and costs as much as the request itself.
        """
        url, authorization = _address(outgoing.url)
        headers = {**_HEADERS, **outgoing.headers}
        if outgoing.body is not None:
            headers.setdefault("Content-Type", "application/json")
        request = httpx.Request(
            outgoing.method,
            url,
            headers=headers,
            # Not as `content`: the engine adds Host and Content-Length, and quicker.
            stream=httpx.ByteStream((outgoing.body or "").encode()),
            extensions={
                "timeout": {"connect": outgoing.connect_timeout.total_seconds()},
                "progress": progress,
                "max_response_bytes": outgoing.max_response_bytes,
            },
        )
        if authorization is not None:
            request.headers["Authorization"] = authorization
        response = await self._open().handle_async_request(request)
        await response.aread()
        return response

    def _open(self) -> httpx.AsyncBaseTransport:
        if self._opened is None:
            self._opened = self._transport or AiohttpTransport(proxies=proxies.from_environment())
        return self._opened


# --- Errors: by type, the first row that fits ---------------------------------------------------------

_KINDS: Final[tuple[tuple[type[Exception], FaultKind], ...]] = (
    (TimeoutError, FaultKind.TOTAL_DEADLINE),  # the transport's own timeouts arrive as httpx classes
    (httpx.ConnectTimeout, FaultKind.CONNECT_TIMEOUT),
    (httpx.PoolTimeout, FaultKind.POOL_TIMEOUT),
    (httpx.WriteTimeout, FaultKind.WRITE_TIMEOUT),
    (httpx.ReadTimeout, FaultKind.READ_TIMEOUT),
    (httpx.ConnectError, FaultKind.CONNECT_ERROR),
    (httpx.ProxyError, FaultKind.PROXY_ERROR),
    (httpx.WriteError, FaultKind.WRITE_ERROR),
    (httpx.ReadError, FaultKind.READ_ERROR),
    (httpx.CloseError, FaultKind.CLOSE_ERROR),
    (httpx.RemoteProtocolError, FaultKind.REMOTE_PROTOCOL),
    (httpx.LocalProtocolError, FaultKind.LOCAL_PROTOCOL),
    (httpx.UnsupportedProtocol, FaultKind.UNSUPPORTED_PROTOCOL),
    (ResponseTooLarge, FaultKind.TOO_LARGE),
    (httpx.DecodingError, FaultKind.DECODING),
    (httpx.TooManyRedirects, FaultKind.TOO_MANY_REDIRECTS),
    (httpx.InvalidURL, FaultKind.INVALID_URL),
    (UnicodeError, FaultKind.LOCAL_PROTOCOL),  # a header or body that has no bytes
    (Exception, FaultKind.UNEXPECTED),
)
_NO_TLS_THERE: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}
)


def _fault(error: Exception, progress: Progress, elapsed: float) -> TransportFault:
    kind = next(kind for known, kind in _KINDS if isinstance(error, known))
    if kind is FaultKind.CONNECT_ERROR and _is_tls_configuration(error):
        kind = FaultKind.TLS_CONFIG
    detail = f"{type(error).__name__}: {error}" if kind is FaultKind.UNEXPECTED else str(error)
    return TransportFault(kind=kind, phase=progress.phase, detail=detail, elapsed_seconds=elapsed)


def _is_tls_configuration(error: BaseException | None) -> bool:
    """Whether a TLS handshake failed in a way that trying again can't mend."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if isinstance(error, ssl.SSLError) and getattr(error, "reason", None) in _NO_TLS_THERE:
            return True
        error = error.__cause__ or error.__context__
    return False
