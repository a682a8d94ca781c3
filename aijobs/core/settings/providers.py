"""The providers: where calls go, with which credentials, how many at once, and when to stop asking."""

from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from aijobs.core.settings.fields import (
    BaseUrl,
    CallablePath,
    Count,
    Duration,
    Flag,
    HeaderName,
    Headers,
    HeaderText,
    Interval,
    Pattern,
    RateField,
    Secret,
    Section,
    SigningSecrets,
    Size,
    Slots,
    Text,
    Wait,
    part,
)


class Kind(StrEnum):
    """Which language a provider speaks."""

    OPENAI_RESPONSES = "openai-responses"
    OPENAI_CHAT = "openai-chat"
    ANTHROPIC = "anthropic"
    HTTP = "http"
    PYTHON = "python"
    SIMULATOR = "simulator"


_K = Kind
_MODELS = frozenset({_K.OPENAI_RESPONSES, _K.OPENAI_CHAT, _K.ANTHROPIC})
_REMOTE = _MODELS | {_K.HTTP}
_OPENAI = frozenset({_K.OPENAI_RESPONSES, _K.OPENAI_CHAT})
HAVE_BACKGROUND = frozenset({_K.OPENAI_RESPONSES, _K.SIMULATOR})
_ONLY_FOR = MappingProxyType(
    {
        "base_url": _REMOTE | {_K.SIMULATOR},
        "api_key": _REMOTE | {_K.SIMULATOR},
        "auth_header": _REMOTE,
        "webhook_secret": _REMOTE | {_K.SIMULATOR},
        "webhook_kind": _REMOTE | {_K.SIMULATOR},
        "organization": _OPENAI,
        "project": _OPENAI,
        "headers": _REMOTE,
        "anthropic_version": frozenset({_K.ANTHROPIC}),
        "supports_background": _REMOTE | {_K.SIMULATOR},
        "connect_timeout": _REMOTE,
        "method": frozenset({_K.HTTP}),
        "path": frozenset({_K.HTTP}),
        "body": frozenset({_K.HTTP}),
        "result": frozenset({_K.HTTP}),
        "idempotency_header": _REMOTE,
        "callable": frozenset({_K.PYTHON}),
        "fault": frozenset({_K.SIMULATOR}),
        "latency": frozenset({_K.SIMULATOR}),
    }
)
"""A key that means nothing to a kind is refused there, so that nobody believes it does something."""

BASE_URLS = MappingProxyType(
    {
        _K.OPENAI_RESPONSES: "https://api.openai.com/v1",
        _K.OPENAI_CHAT: "https://api.openai.com/v1",
        _K.ANTHROPIC: "https://api.anthropic.com/v1",
    }
)
"""Where a kind lives when the file names no `base_url`; paths like `/responses` or `/messages` are added."""


class BreakerSettings(Section):
    """When a provider that keeps failing is left alone, and how calls come back."""

    failures: Annotated[Count, Field(description="so many failures within the span open it")] = 5
    within: Annotated[Interval, Field(description="the span in which they count")] = timedelta(seconds=60)
    open_for: Annotated[Interval, Field(description="how long nothing is sent then")] = timedelta(seconds=30)
    trials: Annotated[Count, Field(description="trial calls at once afterwards, over all workers")] = 1
    ramp: Annotated[
        tuple[Count, ...], Field(description="calls at once on the way back; then the provider's own limit")
    ] = (1, 2, 5, 10, 25)

    @field_validator("ramp")
    @classmethod
    def _ramp_rises(cls, ramp: tuple[int, ...]) -> tuple[int, ...]:
        if list(ramp) != sorted(set(ramp)):
            raise ValueError("must rise from step to step")
        return ramp


class ProviderSettings(Section):
    """One provider. Which of these keys apply depends on its kind."""

    kind: Annotated[Kind, Field(description="which language it speaks")]
    base_url: Annotated[
        BaseUrl | None, Field(description="where it is; the OpenAI kinds and anthropic know their own")
    ] = None
    api_key: Annotated[
        Secret | None, Field(description="its credential; none for servers that ask for none")
    ] = None
    auth_header: Annotated[
        HeaderName | None,
        Field(description="header that carries api_key bare; default: as its kind has it"),
    ] = None
    webhook_secret: Annotated[
        SigningSecrets, Field(description="what signs its webhooks; a list while it is rotated")
    ] = ()
    webhook_kind: Annotated[
        Literal["openai", "standard-webhooks"] | None,
        Field(description="openai: its final events; standard-webhooks: any event whose data.id is a job's"),
    ] = None
    webhook_tolerance: Annotated[Interval, Field(description="how old a webhook delivery may be")] = (
        timedelta(minutes=5)
    )
    organization: Annotated[HeaderText | None, Field(description="sent as OpenAI-Organization")] = None
    project: Annotated[HeaderText | None, Field(description="sent as OpenAI-Project")] = None
    headers: Annotated[
        Headers, Field(description="more request headers; their values are never shown", default_factory=dict)
    ]
    anthropic_version: Annotated[HeaderText, Field(description="sent as anthropic-version")] = "2023-06-01"
    concurrency: Annotated[
        Slots | None, Field(description="calls at once over all workers; 0 pauses; none: no limit")
    ] = None
    rate: Annotated[
        RateField | None, Field(description="calls begun over time, over all workers; none: no limit")
    ] = None
    breaker: BreakerSettings = part("when it is left alone")
    quota_patterns: Annotated[
        tuple[Pattern, ...] | None,
        Field(description="regular expressions over code and message that mean money ran out; [] for none"),
    ] = None
    supports_background: Annotated[
        Flag | None, Field(description="whether types may use background mode; default by kind")
    ] = None
    connect_timeout: Annotated[Duration, Field(description="how long a connection may take to stand")] = (
        timedelta(seconds=10)
    )
    max_response_bytes: Annotated[Size, Field(description="an answer of more bytes is refused")] = 16 << 20
    idempotency_header: Annotated[
        HeaderName | None, Field(description="header that carries the idempotency key; default by kind")
    ] = None
    method: Annotated[Literal["POST", "PUT", "PATCH", "GET"], Field(description="http: request method")] = (
        "POST"
    )
    path: Annotated[str, Field(description="http: added to base_url", max_length=1000)] = ""
    body: Annotated[
        Literal["input", "prompt", "envelope"],
        Field(description="http: send the input, {prompt}, or {job, type, attempt, input, prompt}"),
    ] = "input"
    result: Annotated[
        str,
        Field(description="http: where the result is in the answer (data.items.0.text); empty: all of it"),
    ] = ""
    callable: Annotated[CallablePath | None, Field(description="python: package.module:function")] = None
    fault: Annotated[
        Text | None,
        Field(description="simulator: what goes wrong, like 429:0.3; see `aijobs simulate --help`"),
    ] = None
    latency: Annotated[Wait, Field(description="simulator: how long a call takes")] = timedelta(0)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        strange = sorted(self.foreign_keys & self.model_fields_set)
        if strange:
            raise ValueError(f"{', '.join(strange)}: not for kind {self.kind}")
        if self.kind is Kind.PYTHON and not self.callable:
            raise ValueError("kind python needs `callable: package.module:function`")
        if self.kind is Kind.HTTP and not self.base_url:
            raise ValueError("kind http needs `base_url`")
        if self.api_key and self.api_key in self.webhook_secret:
            raise ValueError("webhook_secret and api_key are the same: the provider has one for each")
        return self

    @property
    def foreign_keys(self) -> frozenset[str]:
        """The options that mean nothing to this kind."""
        return frozenset(key for key, kinds in _ONLY_FOR.items() if self.kind not in kinds)

    @property
    def lacks_credentials(self) -> bool:
        """Whether a vendor's own address is called without anything that says who we are.

        At an address of one's own nobody can tell: a gateway or a local server may ask for nothing.
        """
        return self.kind in _MODELS and self.base_url is None and self.api_key is None and not self.headers

    @property
    def url(self) -> str | None:
        """The base URL given, else the one its kind is known by; None where there is none."""
        return self.base_url or BASE_URLS.get(self.kind)

    @property
    def background(self) -> bool:
        """Whether a type may ask it for background mode."""
        if self.supports_background is not None:
            return self.supports_background
        return self.kind in HAVE_BACKGROUND
