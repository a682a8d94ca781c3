"""The built-in simulator beside a worker: a provider of kind `simulator` that names no server gets one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from aijobs.cli.context import Context
from aijobs.core.errors import ConfigError, ConfigFault
from aijobs.core.settings import Kind, ProviderSettings, Settings

Complete = Callable[[Settings], Settings]


@contextmanager
def simulators(context: Context) -> Iterator[Complete]:
    """A function that completes settings: it fills in the address of each simulator that has none.

    A simulator is started in a thread when it is first needed, and runs until the block ends. A fault in the
    environment (PROVIDER_FAULT) applies where the configuration names none. The function raises ConfigError
    for a fault that makes no sense.
    """
    urls: dict[str, str] = {}
    with ExitStack() as running:

        def complete(settings: Settings) -> Settings:
            needed = {
                name: provider
                for name, provider in settings.providers.items()
                if provider.kind is Kind.SIMULATOR and provider.base_url is None and _used(name, settings)
            }
            for name in needed.keys() - urls.keys():
                urls[name] = _start(context, name, settings, running)
            filled = {n: p.model_copy(update={"base_url": urls[n]}) for n, p in needed.items()}
            return settings.model_copy(update={"providers": {**settings.providers, **filled}})

        yield complete


def _used(name: str, settings: Settings) -> bool:
    """Whether any job may come to this provider: a server nobody calls is not worth its start."""
    return any(
        name
        in {kind.provider, kind.fallback and kind.fallback.provider, kind.shadow and kind.shadow.provider}
        for kind in settings.types.values()
    )


def _start(context: Context, name: str, settings: Settings, running: ExitStack) -> str:
    from aijobs.http.simulator import start_in_thread

    provider: ProviderSettings = settings.providers[name]
    fault = provider.fault or context.environ.get("PROVIDER_FAULT") or None
    try:
        simulator = start_in_thread(
            fault=fault, latency=provider.latency.total_seconds(), clock=context.clock, chance=context.chance
        )
    except ValueError as error:
        where = str(settings.source or "PROVIDER_FAULT")
        path = f"providers.{name}"
        raise ConfigError(
            [ConfigFault(file=where, line=0, column=0, path=path, message=str(error))]
        ) from error
    running.enter_context(simulator)
    context.printer.detail(f"provider {name} is simulated at {simulator.url}")
    return simulator.url
