"""The configuration as one frozen value. `Settings()` works without a file; `core/config/` reads one.

Every default stands here and nowhere else. Durations are `timedelta`, secrets hide themselves, and a name
that is not there raises NotFound with the nearest one that is.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import unquote

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    model_validator,
)

from aijobs import __version__
from aijobs.core.errors import ConfigError, ConfigFault, NotFound
from aijobs.core.settings.alerts import AlertRule, AlertSettings
from aijobs.core.settings.consistency import closest, inconsistencies
from aijobs.core.settings.fields import Name, Section, part
from aijobs.core.settings.jobs import BackgroundSettings, FallbackSettings, ShadowSettings, TypeSettings
from aijobs.core.settings.notify import NotifySettings
from aijobs.core.settings.providers import BreakerSettings, Kind, ProviderSettings
from aijobs.core.settings.retry import NEVER, ClassRetry, RetryBudget, RetrySettings
from aijobs.core.settings.running import (
    Concurrency,
    KeySettings,
    Price,
    RetentionSettings,
    SizeLimits,
    TimeoutSettings,
    WorkerSettings,
)
from aijobs.core.settings.schedules import ScheduleSettings
from aijobs.core.settings.url import database_password, hide_password

__all__ = [
    "DEFAULT_DATABASE",
    "NEVER",
    "AlertRule",
    "AlertSettings",
    "BackgroundSettings",
    "BreakerSettings",
    "ClassRetry",
    "Concurrency",
    "FallbackSettings",
    "KeySettings",
    "Kind",
    "NotifySettings",
    "Price",
    "ProviderSettings",
    "RetentionSettings",
    "RetryBudget",
    "RetrySettings",
    "ScheduleSettings",
    "Settings",
    "ShadowSettings",
    "SizeLimits",
    "TimeoutSettings",
    "TypeSettings",
    "WorkerSettings",
    "closest",
    "with_built_in",
]

DEFAULT_DATABASE = "sqlite:///aijobs.db"
BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    "providers": {"simulator": {"kind": "simulator"}},
    "types": {"demo": {"provider": "simulator", "tier": "simple"}},
}
"""What is there with no file at all; a file that uses the same name replaces it."""

T = TypeVar("T")
_LONGEST_NAME = 100


def with_built_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """*data* with the built-in provider and type, where it does not define them itself."""
    merged = dict(data)
    for section, entries in BUILT_IN.items():
        given = merged.get(section)
        if given is None or isinstance(given, Mapping):
            merged[section] = {**entries, **(given or {})}
    return merged


def _priced(value: object) -> object:
    return [value] if isinstance(value, Mapping | Price) else value


Prices = Annotated[tuple[Price, ...], BeforeValidator(_priced)]
DatabaseUrl = Annotated[
    str, Field(min_length=1), PlainSerializer(hide_password, return_type=str, when_used="json")
]


class Settings(Section):
    """All of it."""

    database: Annotated[
        DatabaseUrl,
        Field(
            description="the store: sqlite:///FILE, or postgresql://USER:${PASSWORD}@HOST/NAME", repr=False
        ),
    ] = DEFAULT_DATABASE
    concurrency: Concurrency = part("limits over everything")
    worker: WorkerSettings = part("a worker process")
    providers: Annotated[
        dict[Name, ProviderSettings], Field(description="where calls go, by name", default_factory=dict)
    ]
    types: Annotated[dict[Name, TypeSettings], Field(description="job types, by name", default_factory=dict)]
    retry: RetrySettings = part("what is tried again, by error class")
    schedules: Annotated[
        dict[Name, ScheduleSettings], Field(description="what fires when, by name", default_factory=dict)
    ]
    notify: Annotated[dict[Name, NotifySettings], Field(description="targets, by name", default_factory=dict)]
    timeouts: TimeoutSettings = part("budgets of time")
    keys: KeySettings = part("idempotency keys")
    limits: SizeLimits = part("sizes")
    alerts: AlertSettings = part("when to raise an alarm")
    retention: RetentionSettings = part("how long things are kept")
    prices: Annotated[
        dict[str, Prices],
        Field(description="by model; one price, or a list with the first day of each", default_factory=dict),
    ]

    _source: Path | None = PrivateAttr(default=None)
    _blank: bool = PrivateAttr(default=False)
    _code_versions: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_the_built_in(cls, data: object) -> object:
        return with_built_in(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _agrees_with_itself(self, info: ValidationInfo) -> Self:
        if not info.context:  # the loader looks for itself, at the places in the file
            for one in inconsistencies(self.model_dump()):
                raise ValueError(f"{'.'.join(map(str, one.path))}: {one.message}")
        return self

    @property
    def source(self) -> Path | None:
        """The file this was read from; None when there was none."""
        return self._source

    def read_from(self, source: Path | None, *, blank: bool = False) -> Self:
        """Note the file this was read from, and whether nothing stood in it."""
        self._source, self._blank = source, blank
        return self

    @property
    def blank(self) -> bool:
        """Whether the file this was read from has nothing in it."""
        return self._blank

    def refuse_blank(self) -> None:
        """Raises ConfigError when nothing stands in the file: somebody is writing it, or has lost it.

        To start from it means the defaults; to go over to it would drop every limit, type and schedule.
        """
        if self._blank:
            fault = ConfigFault(str(self._source), 0, 0, "", "the file is empty")
            raise ConfigError([fault], hint="write it again, or take it away if the defaults are meant")

    def type(self, name: str) -> TypeSettings:
        """The job type *name*. NotFound if there is none."""
        return _named(self.types, name, what="job type", section="types")

    def provider(self, name: str) -> ProviderSettings:
        """The provider *name*. NotFound if there is none."""
        return _named(self.providers, name, what="provider", section="providers")

    def schedule(self, name: str) -> ScheduleSettings:
        """The schedule *name*. NotFound if there is none."""
        return _named(self.schedules, name, what="schedule", section="schedules")

    def target(self, name: str) -> NotifySettings:
        """The notification target *name*. NotFound if there is none."""
        return _named(self.notify, name, what="notification target", section="notify")

    def tier_timeout(self, name: str) -> timedelta:
        """How long one call of job type *name* may take by its tier alone."""
        return self.timeouts.tiers.of(self.type(name).tier)

    def key_ttl(self, name: str) -> timedelta:
        """How long an idempotency key of job type *name* is remembered."""
        return self.type(name).key_ttl or self.keys.ttl

    def price(self, model: str, at: datetime) -> Price | None:
        """The price of *model* in force at *at* (UTC), or None when no price is configured for then."""
        day = at.date()
        valid = [price for price in self.prices.get(model, ()) if price.since is None or price.since <= day]
        return max(valid, key=lambda price: (price.since is not None, price.since or day), default=None)

    def code_version_of(self, name: str) -> str | None:
        """What version *name* runs under: its own or ours, and a hash of its settings. None: no such type."""
        if name not in self.types:
            return None
        known = self._code_versions.get(name)
        if known is None:
            settings = self.types[name]
            text = json.dumps(settings.model_dump(mode="json"), sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            known = self._code_versions[name] = f"{settings.version or __version__}+{digest}"
        return known

    def secrets(self) -> tuple[str, ...]:
        """Every secret value in here, for whoever has to keep them out of what is written."""
        found = {secret.get_secret_value() for part in self._parts() for secret in _secrets_in(part)}
        password = database_password(self.database)
        if password:
            found |= {password, unquote(password)}
        return tuple(sorted(found))

    def _parts(self) -> Iterator[Section]:
        yield from self.providers.values()
        yield from self.notify.values()


def _secrets_in(part: Section) -> Iterator[SecretStr]:
    for _, value in part:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        yield from (one for one in inner if isinstance(one, SecretStr))


def _named(entries: Mapping[str, T], name: str, *, what: str, section: str) -> T:
    try:
        return entries[name]
    except KeyError:
        near = closest(name, entries)
        known = ", ".join(sorted(entries)) or "none"
        hint = f"did you mean {near!r}?" if near else f"there are: {known} (section {section})"
        raise NotFound(f"no {what} named {name[:_LONGEST_NAME]!r}", hint=hint) from None
