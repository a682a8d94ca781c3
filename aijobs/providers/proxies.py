"""Which way a request goes: straight, or through a proxy that the environment names.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY (either case) are read once. Loopback addresses never go
through a proxy: they are this machine's own simulator or model server.
"""

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How to reach one server. *proxy* has no credentials in it; they are in *headers*."""

    proxy: str | None = None
    headers: Mapping[str, str] | None = None
    encrypted: bool = False

    @property
    def tunnelled(self) -> bool:
        """Whether the proxy sees only a CONNECT, and its headers belong to that."""
        return self.proxy is not None and self.encrypted


class Proxies:
    """The environment's proxies. *table* is scheme -> proxy URL, with `all` and `no` as urllib spells it."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = dict(table)
        self._routes: dict[tuple[str, str, int | None], Route] = {}

    def route(self, scheme: str, host: str, port: int | None) -> Route:
        """The way to *host*."""
        key = (scheme, host, port)
        if key not in self._routes:
            self._routes[key] = self._find(scheme, host, port)
        return self._routes[key]

    def _find(self, scheme: str, host: str, port: int | None) -> Route:
        proxy = self._table.get(scheme) or self._table.get("all")
        if not proxy or _is_loopback(host) or self._bypassed(host, port):
            return Route(encrypted=scheme == "https")
        url, headers = _without_credentials(proxy if "://" in proxy else f"http://{proxy}")
        return Route(proxy=url, headers=headers, encrypted=scheme == "https")

    def _bypassed(self, host: str, port: int | None) -> bool:
        netloc = host if port is None else f"{host}:{port}"
        return bool(proxy_bypass_environment(netloc, self._table))


NO_PROXIES: Final = Proxies({})


def from_environment() -> Proxies:
    """The proxies this process was started with."""
    return Proxies(getproxies_environment())


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _without_credentials(proxy: str) -> tuple[str, dict[str, str] | None]:
    parts = urlsplit(proxy)
    userinfo, at, place = parts.netloc.rpartition("@")
    if not at:
        return proxy, None
    token = b64encode(unquote(userinfo).encode()).decode("ascii")
    return urlunsplit(parts._replace(netloc=place)), {"Proxy-Authorization": f"Basic {token}"}
