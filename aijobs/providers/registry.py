"""The adapters by the names that the configuration gives them, each made when it is first asked for."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aijobs.core.clock import Clock
from aijobs.core.errors import UsageError
from aijobs.core.settings import Kind, ProviderSettings, Settings
from aijobs.providers.contract import Adapter

if TYPE_CHECKING:  # httpx and aiohttp are slow to import, and a worker of python jobs needs neither
    from aijobs.providers.client import Client
    from aijobs.providers.endpoint import Endpoint

_REMOTE: Mapping[Kind, tuple[str, str]] = MappingProxyType(
    {
        Kind.OPENAI_RESPONSES: ("openai_responses", "ResponsesAdapter"),
        Kind.OPENAI_CHAT: ("openai_chat", "ChatAdapter"),
        Kind.ANTHROPIC: ("anthropic", "AnthropicAdapter"),
        Kind.HTTP: ("http", "HttpAdapter"),
        Kind.SIMULATOR: ("simulator", "SimulatorAdapter"),
    }
)
"""Module and class of each kind that is called over HTTP; imported with the first provider of it."""


class Providers:
    """Hands out adapters over one shared HTTP client. Used and closed in one event loop."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._adapters: dict[str, Adapter] = {}
        self._retired: list[Adapter] = []
        self._client: Client | None = None

    def get(self, name: str) -> Adapter:
        """The adapter of provider *name*, always the same one.

        Raises NotFound for a name nobody configured, UsageError for a provider without an address.
        """
        adapter = self._adapters.get(name)
        if adapter is None:
            adapter = self._adapters[name] = self._make(name, self._settings.provider(name))
        return adapter

    def configure(self, settings: Settings) -> None:
        """Take new settings: calls to come go by them, calls under way end by the old ones."""
        before, self._settings = self._settings.providers, settings
        for name in [name for name in self._adapters if before.get(name) != settings.providers.get(name)]:
            self._retired.append(self._adapters.pop(name))

    async def close(self) -> None:
        """Close the adapters and every connection."""
        adapters, self._adapters = [*self._retired, *self._adapters.values()], {}
        self._retired = []
        for adapter in adapters:
            await adapter.close()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _make(self, name: str, provider: ProviderSettings) -> Adapter:
        if provider.kind is Kind.PYTHON:
            from aijobs.providers.python import PythonAdapter

            secrets = self._settings.secrets()
            return PythonAdapter(name, provider.callable or "", clock=self._clock, secrets=secrets)
        module, adapter = _REMOTE[provider.kind]
        made: Adapter = getattr(import_module(f"aijobs.providers.{module}"), adapter)(self.endpoint(name))
        return made

    def endpoint(self, name: str) -> "Endpoint":
        """Where provider *name* is called over HTTP.

        Raises NotFound for a name nobody configured, UsageError for a provider without an address.
        """
        from aijobs.providers.client import Client
        from aijobs.providers.endpoint import Endpoint

        provider = self._settings.provider(name)
        url, options = _spoken_to(provider)
        if url is None:
            raise UsageError(f"provider {name!r} has no address", hint=f"set providers.{name}.base_url")
        if self._client is None:
            self._client = Client(clock=self._clock)
        return Endpoint(name, provider, client=self._client, clock=self._clock, base_url=url, **options)


def _spoken_to(provider: ProviderSettings) -> tuple[str | None, dict[str, Any]]:
    """Where *provider* is, and how an endpoint for it differs from the ordinary."""
    if provider.kind is not Kind.SIMULATOR:
        return provider.url, {}
    from aijobs.providers.simulator import address, orders

    return address(provider), {"dialect": Kind.OPENAI_RESPONSES, "extra_headers": orders(provider)}
