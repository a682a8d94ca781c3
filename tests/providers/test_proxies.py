"""Which calls go through a proxy, by the environment's own rules."""

import pytest

from aijobs.providers import proxies
from aijobs.providers.proxies import Proxies

PROXY = "http://proxy.example:3128"


def test_each_scheme_has_its_own_proxy_and_all_stands_for_the_rest() -> None:
    table = Proxies({"http": "http://one:1", "all": "http://two:2"})

    assert table.route("http", "provider.example", None).proxy == "http://one:1"
    assert table.route("https", "provider.example", None).proxy == "http://two:2"


def test_without_a_proxy_the_way_is_straight() -> None:
    route = Proxies({}).route("https", "provider.example", 8443)

    assert route.proxy is None
    assert route.encrypted
    assert not route.tunnelled


def test_a_proxy_without_a_scheme_is_an_http_proxy() -> None:
    assert Proxies({"http": "proxy:3128"}).route("http", "a.example", None).proxy == "http://proxy:3128"


def test_credentials_leave_the_url_and_become_a_header() -> None:
    route = Proxies({"https": "http://me:p%40ss@proxy:3128"}).route("https", "a.example", None)

    assert route.proxy == "http://proxy:3128"
    assert route.headers == {"Proxy-Authorization": "Basic bWU6cEBzcw=="}
    assert route.tunnelled


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1", "sim.localhost"])
def test_loopback_is_never_proxied(host: str) -> None:
    assert Proxies({"all": PROXY}).route("http", host, 8000).proxy is None


@pytest.mark.parametrize(
    ("no", "host", "proxied"),
    [
        ("internal.example", "internal.example", False),
        ("internal.example", "a.internal.example", False),
        (".internal.example", "a.internal.example", False),
        ("internal.example", "notinternal.example", True),
        ("internal.example:8080", "internal.example", False),
        ("internal.example:9", "internal.example", True),
        ("10.0.0.5", "10.0.0.5", False),
        ("a.example, b.example", "b.example", False),
        ("*", "anything.example", False),
        ("", "anything.example", True),
    ],
)
def test_hosts_named_in_no_proxy_are_called_directly(no: str, host: str, proxied: bool) -> None:
    route = Proxies({"http": PROXY, "no": no}).route("http", host, 8080)

    assert (route.proxy is not None) is proxied


def test_the_environment_is_read_in_either_case(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HTTP_PROXY",
        "https_proxy",
        "http_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("no_proxy", "near.example")

    found = proxies.from_environment()

    assert found.route("https", "far.example", None).proxy == PROXY
    assert found.route("https", "near.example", None).proxy is None
    assert found.route("http", "far.example", None).proxy is None
