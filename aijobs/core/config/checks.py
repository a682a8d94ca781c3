"""What is allowed in a configuration but is seldom meant: warnings, apart from faults."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.core.durations import format_duration
from aijobs.core.settings import Kind, ProviderSettings, Settings, TypeSettings
from aijobs.core.timeouts import overruns

PROVIDER_KEEPS = timedelta(minutes=10)
"""How long a background response can be fetched that is not stored, by OpenAI's guide to background mode."""

_BLANK = "nothing stands in it, so all is as by default; `tick` and a running worker refuse such a file"

_HOSTED = frozenset({Kind.OPENAI_RESPONSES, Kind.OPENAI_CHAT, Kind.ANTHROPIC})


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """Something to think about at *path*."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def check(settings: Settings, *, now: datetime | None = None) -> list[ConfigWarning]:
    """All warnings for *settings*. With *now*, those on cron lines name the next dates. Starts nothing."""
    found: list[ConfigWarning] = []
    if settings.blank:
        found.append(ConfigWarning(str(settings.source), _BLANK))
    for name, provider in settings.providers.items():
        found += [ConfigWarning(f"providers.{name}{at}", text) for at, text in _provider(provider)]
    for name, job_type in settings.types.items():
        provider = settings.provider(job_type.provider)
        found += [
            ConfigWarning(f"types.{name}{at}", text) for at, text in _type(job_type, provider, settings)
        ]
    found += _schedules(settings, now)
    found += _notify(settings)
    found += _paused(settings)
    found += [ConfigWarning(".".join(one.path), one.message) for one in overruns(settings)]
    return found


_Warnings = Iterator[tuple[str, str]]


def _provider(provider: ProviderSettings) -> _Warnings:
    if provider.concurrency == 0:
        yield ".concurrency", "0 starts nothing: everything on this provider waits"
    if provider.kind in _HOSTED and provider.base_url is None and provider.lacks_credentials:
        yield "", f"no api_key, and {provider.url} needs one"
    if (
        provider.url
        and provider.url.startswith("http://")
        and provider.api_key
        and not _is_local(provider.url)
    ):
        yield ".base_url", "http:// sends the api_key in the clear"


def _type(job_type: TypeSettings, provider: ProviderSettings, settings: Settings) -> _Warnings:
    for key in ("concurrency", "per_user"):
        if getattr(job_type, key) == 0:
            yield f".{key}", "0 starts nothing: jobs of this type wait"
    if provider.kind in _HOSTED and not job_type.model and "model" not in job_type.request:
        yield "", f"no model, and a provider of kind {provider.kind} needs one"
    bound = provider.concurrency
    if bound is not None and job_type.concurrency is not None and job_type.concurrency > bound > 0:
        yield (
            ".concurrency",
            f"{job_type.concurrency} is never reached: provider {job_type.provider} allows {bound}",
        )
    if job_type.fallback and job_type.fallback.missing_approvals:
        missing = ", ".join(job_type.fallback.missing_approvals)
        yield ".fallback.approved", f"cannot be switched on before these are approved: {missing}"
    lag = job_type.background_options.poll_cap + settings.worker.lease
    if job_type.background and job_type.request.get("store") is False and lag >= PROVIDER_KEEPS:
        kept = format_duration(PROVIDER_KEEPS)
        yield (
            ".background_options.poll_cap",
            f"a look may come after the provider forgot the response ({kept} without store)",
        )


def _schedules(settings: Settings, now: datetime | None) -> Iterator[ConfigWarning]:
    for name, schedule in settings.schedules.items():
        if schedule.cron:
            from aijobs.core.cron import warnings

            for text in warnings(schedule.cron, schedule.timezone, now=now):
                yield ConfigWarning(f"schedules.{name}.cron", text)


def _notify(settings: Settings) -> Iterator[ConfigWarning]:
    for name, target in settings.notify.items():
        if target.kind == "webhook" and not target.secret:
            yield ConfigWarning(
                f"notify.{name}", "no secret: the receiver cannot tell our deliveries from others"
            )


def _paused(settings: Settings) -> Iterator[ConfigWarning]:
    for key, value in (("global", settings.concurrency.global_), ("per_user", settings.concurrency.per_user)):
        if value == 0:
            yield ConfigWarning(f"concurrency.{key}", "0 starts nothing: everything waits")


def _is_local(url: str) -> bool:
    return url.startswith(("http://localhost", "http://127.0.0.1", "http://[::1]"))
