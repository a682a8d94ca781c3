"""The built-in simulator beside a worker: a provider of kind `simulator` that names no server gets one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from aijobs.cli.context import Context
from aijobs.core.errors import ConfigError, ConfigFault
from aijobs.core.settings import Kind, ProviderSettings, Settings


@contextmanager
def with_simulators(context: Context) -> Iterator[Settings]:
    """The settings, with each simulator that has no `base_url` started in a thread and its address filled in.

    A fault in the environment (PROVIDER_FAULT) applies where the configuration names none. Raises ConfigError
    for a fault that makes no sense.
    """
    settings = context.settings
    with ExitStack() as running:
        started = {
            name: provider.model_copy(update={"base_url": _start(context, name, provider, running)})
            for name, provider in settings.providers.items()
            if provider.kind is Kind.SIMULATOR and provider.base_url is None and _used(name, settings)
        }
        yield settings.model_copy(update={"providers": {**settings.providers, **started}})


def _used(name: str, settings: Settings) -> bool:
    """Whether any job may come to this provider: a server nobody calls is not worth its start."""
    return any(
        name
        in {kind.provider, kind.fallback and kind.fallback.provider, kind.shadow and kind.shadow.provider}
        for kind in settings.types.values()
    )


def _start(context: Context, name: str, provider: ProviderSettings, running: ExitStack) -> str:
    from aijobs.http.simulator import start_in_thread

    fault = provider.fault or context.environ.get("PROVIDER_FAULT") or None
    try:
        simulator = start_in_thread(
            fault=fault, latency=provider.latency.total_seconds(), clock=context.clock, chance=context.chance
        )
    except ValueError as error:
        where = str(context.settings.source or "PROVIDER_FAULT")
        path = f"providers.{name}"
        raise ConfigError(
            [ConfigFault(file=where, line=0, column=0, path=path, message=str(error))]
        ) from error
    running.enter_context(simulator)
    context.printer.detail(f"provider {name} is simulated at {simulator.url}")
    return simulator.url
