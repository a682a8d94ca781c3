"""Calls to providers as spans: each request carries a place of its own, below that of its attempt."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urlsplit

from aijobs.core.model import Reply
from aijobs.core.settings import Kind, ProviderSettings, Settings
from aijobs.core.spans import Asked, Attributes
from aijobs.providers.contract import Adapter, Call, PollFailed, ProvidersByName
from aijobs.services.tracing import Tracing

R = TypeVar("R", Reply, Reply | PollFailed)

_CHAT = frozenset({Kind.OPENAI_RESPONSES, Kind.OPENAI_CHAT, Kind.ANTHROPIC, Kind.SIMULATOR})
_VENDORS = MappingProxyType(
    {
        "api.openai.com": "openai",
        "api.anthropic.com": "anthropic",
        "api.groq.com": "groq",
        "api.mistral.ai": "mistral_ai",
        "api.deepseek.com": "deepseek",
        "api.perplexity.ai": "perplexity",
        "api.x.ai": "x_ai",
        "api.moonshot.ai": "moonshot_ai",
        "openrouter.ai": "openrouter",
    }
)
"""The names that the conventions have for those who speak these dialects; others go by their own name."""
_AZURE = ".openai.azure.com"
_PORTS = MappingProxyType({"https": 443, "http": 80})


class TracedProviders:
    """Providers whose adapters tell of their calls."""

    def __init__(self, providers: ProvidersByName, settings: Settings, tracing: Tracing) -> None:
        self._providers = providers
        self._settings = settings
        self._tracing = tracing
        self._traced: dict[str, TracedAdapter] = {}

    def get(self, name: str) -> Adapter:
        """The adapter of the provider *name*. Raises NotFound."""
        adapter = self._providers.get(name)
        known = self._traced.get(name)
        if known is None or known.adapter is not adapter:
            settings = self._settings.providers.get(name)
            known = self._traced[name] = TracedAdapter(adapter, name, settings, self._tracing)
        return known

    async def close(self) -> None:
        """Close all of them."""
        await self._providers.close()

    def configure(self, settings: Settings) -> None:
        """Make adapters by new settings from now on."""
        self._settings = settings
        self._traced.clear()
        self._providers.configure(settings)


class TracedAdapter:
    """An adapter that does what *adapter* does, and tells of it."""

    def __init__(
        self, adapter: Adapter, name: str, settings: ProviderSettings | None, tracing: Tracing
    ) -> None:
        self.adapter = adapter
        self._operation = "chat" if settings is not None and settings.kind in _CHAT else None
        self._about = about(name, settings)
        self._tracing = tracing

    @property
    def name(self) -> str:
        """See `Adapter`."""
        return self.adapter.name

    async def submit(self, call: Call) -> Reply:
        """See `Adapter`."""
        return await self._traced("submit", call, self.adapter.submit)

    async def poll(self, call: Call, provider_job_id: str) -> Reply | PollFailed:
        """See `Adapter`."""
        return await self._traced("poll", call, lambda call: self.adapter.poll(call, provider_job_id))

    async def cancel(self, call: Call, provider_job_id: str) -> Reply | PollFailed:
        """See `Adapter`."""
        return await self._traced("cancel", call, lambda call: self.adapter.cancel(call, provider_job_id))

    async def close(self) -> None:
        """See `Adapter`."""
        await self.adapter.close()

    async def _traced(self, verb: str, call: Call, ask: Callable[[Call], Awaitable[R]]) -> R:
        places = self._tracing.place_of_call(call.traceparent)
        if places is None:
            return await ask(call)
        parent, place = places
        began, clock = self._tracing.clock.now(), self._tracing.clock
        reply: R | None = None
        try:
            reply = await ask(replace(call, traceparent=place.traceparent))
            return reply
        finally:
            asked = Asked(
                verb=verb, operation=self._operation, model=call.model, about=self._about,
                client_request_id=call.client_request_id, job_id=call.job_id, type=call.type,
                attempt=call.attempt, began=began, ended=clock.now(),
            )  # fmt: skip
            self._tracing.called(asked, reply, place=place, parent=parent)


def about(name: str, settings: ProviderSettings | None) -> Attributes:
    """What every span of a provider says of it. Of its address, the host and the port only."""
    found: dict[str, str | int | bool | float] = {"aijobs.provider": name}
    url = settings.url if settings is not None else None
    address = urlsplit(url or "")
    if settings is not None and settings.kind in _CHAT:
        found["gen_ai.provider.name"] = _vendor(address.hostname or "", name)
    if address.hostname:
        found["server.address"] = address.hostname
        found["server.port"] = address.port or _PORTS.get(address.scheme, 443)
    return found


def _vendor(host: str, name: str) -> str:
    return "azure.ai.openai" if host.endswith(_AZURE) else _VENDORS.get(host, name)
