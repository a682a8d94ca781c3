"""One call through a real adapter to a server of the test's own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aijobs.core.clock import Clock, SystemClock
from aijobs.core.model import Reply
from aijobs.core.settings import Settings
from aijobs.providers.contract import Adapter, Call, PollFailed
from aijobs.providers.registry import Providers
from tests.support.hostile import Hostile

T = TypeVar("T")

SECRET = "quiet-plumbum-4711"  # of no vendor's pattern: only who knows it can take it out


def with_adapter(
    do: Callable[[Adapter], Awaitable[T]], *, kind: str, clock: Clock | None = None, **settings: Any
) -> T:
    """Run *do* with the adapter of a provider of *kind*, configured by *settings*."""
    provider = {"kind": kind, **settings}
    if kind != "python":
        provider.setdefault("api_key", SECRET)
    configured = Settings.model_validate({"providers": {"p": provider}})

    async def run() -> T:
        providers = Providers(configured, clock=clock or SystemClock())
        try:
            return await do(providers.get("p"))
        finally:
            await providers.close()

    return asyncio.run(run())


def submit(kind: str, server: Hostile | str, call: Call, **settings: Any) -> Reply:
    """Submit *call*; *server* is where the API begins."""
    url = server if isinstance(server, str) else server.url
    return with_adapter(lambda adapter: adapter.submit(call), kind=kind, base_url=url, **settings)


def poll(server: Hostile, call: Call, work: str, **settings: Any) -> Reply | PollFailed:
    """Poll a background response."""
    return with_adapter(
        lambda adapter: adapter.poll(call, work), kind="openai-responses", base_url=server.url, **settings
    )


def cancel(
    server: Hostile, call: Call, work: str, *, clock: Clock | None = None, **settings: Any
) -> Reply | PollFailed:
    """Cancel a background response."""
    return with_adapter(
        lambda adapter: adapter.cancel(call, work),
        kind="openai-responses",
        base_url=server.url,
        clock=clock,
        **settings,
    )
