"""What the sections are made of: the base class, and the types of value a configuration file may hold."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from aijobs.core.durations import LONGEST, Rate, format_duration, parse_duration, parse_rate
from aijobs.core.signing_key import decode_key

MASK = "***"
FOREVER = "forever"

_NAME = re.compile(r"\w[\w.-]{0,99}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_SECRET_SCHEMA = {"type": "string", "format": "password", "writeOnly": True}
_DURATION_SCHEMA = {
    "type": "string",
    "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$",
    "examples": ["90s", "5m", "1h30m", "2d"],
}


class Section(BaseModel):
    """A frozen part of the configuration. An explicit null is the same as leaving the key out."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,  # only the root is built at start-up; the parts are built inside it
        allow_inf_nan=False,
        hide_input_in_errors=True,  # what was typed may be a secret in the wrong place
        validate_by_name=True,
        validate_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_absent(cls, data: object) -> object:
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data


def part(description: str, **defaults: object) -> Any:
    """A field that is a section of its own, with *defaults* (spelled as in a file) over that section's own.

    The default is a plain dict that is validated with the rest: an instance here would make pydantic build
    each part twice at import, which `aijobs enqueue` pays for.
    """
    return Field(description=description, default=defaults, validate_default=True)


class Table(Section):
    """A section whose parts differ in their defaults: naming one key of a part leaves its others alone."""

    @field_validator("*", mode="before")
    @classmethod
    def _over_the_default(cls, value: object, info: ValidationInfo) -> object:
        default = cls.model_fields[info.field_name or ""].default
        if isinstance(value, Mapping) and isinstance(default, dict):
            return {**default, **{key: inner for key, inner in value.items() if inner is not None}}
        return value


# --- Numbers, durations, rates --------------------------------------------------------------------

Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Slots = Annotated[int, Field(strict=True, ge=0, le=100_000)]
"""How many at once; 0 starts nothing (paused)."""
Length = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
"""How many jobs may wait."""
Priority = Annotated[int, Field(strict=True, ge=-1000, le=1000)]
Ratio = Annotated[float, Field(strict=True, ge=0, le=1)]
Size = Annotated[int, Field(strict=True, ge=1, le=1 << 30)]


def _duration(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"{value} has no unit: write {value}s, {value}m or {value}h")
    if isinstance(value, timedelta):
        return value
    raise ValueError("a duration is needed, like 90s, 5m, 1h30m or 2d")


def _show_duration(value: timedelta | str | None) -> str | None:
    return format_duration(value) if isinstance(value, timedelta) else value


_as_duration = (
    BeforeValidator(_duration),
    PlainSerializer(_show_duration, return_type=str, when_used="json"),
    WithJsonSchema(_DURATION_SCHEMA),
)
Duration = Annotated[timedelta, Field(ge=timedelta(milliseconds=1), le=LONGEST), *_as_duration]
"""More than nothing."""
Wait = Annotated[timedelta, Field(ge=timedelta(0), le=LONGEST), *_as_duration]
"""May be `0s`."""
Interval = Annotated[timedelta, Field(ge=timedelta(seconds=1), le=LONGEST), *_as_duration]
"""At least a second: what runs again and again must not become a busy loop."""


def _duration_or(*words: str) -> BeforeValidator:
    def read(value: object) -> object:
        if value in words:
            return value
        duration = _duration(value)
        if isinstance(duration, timedelta) and duration < timedelta(milliseconds=1):
            raise ValueError(f"must be longer than 0s, or {' or '.join(words)}")
        return duration

    return BeforeValidator(read)


_show_duration_or = PlainSerializer(_show_duration, when_used="json")
Timeout = Annotated[
    Literal["auto"] | timedelta,
    _duration_or("auto"),
    _show_duration_or,
    WithJsonSchema({"anyOf": [{"const": "auto"}, _DURATION_SCHEMA]}),
]
Retention = Annotated[
    Literal["forever"] | timedelta,
    _duration_or(FOREVER),
    _show_duration_or,
    WithJsonSchema({"anyOf": [{"const": FOREVER}, _DURATION_SCHEMA]}),
]


def _rate(value: object) -> Rate:
    if isinstance(value, str):
        return parse_rate(value)
    if isinstance(value, Rate):
        return value
    raise ValueError("a rate is needed, like 5/s, 30/m or 500/h")


RateField = Annotated[
    Rate,
    PlainValidator(_rate),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d+/[smhd]$", "examples": ["5/s", "500/m"]}),
]


# --- Text -----------------------------------------------------------------------------------------


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("a name is letters, digits and . _ - (at most 100, a letter or digit first)")
    return value


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        port_fault = parts.port == 0
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port_fault or " " in value:
        raise ValueError("a URL is needed, like https://api.example.com/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL must not carry a user or password: use api_key or headers")
    return value


def _base_url(value: str) -> str:
    if "?" in _url(value) or "#" in value:
        raise ValueError("a base URL has no ? and no #: it is what paths are added to")
    return value.rstrip("/")


def _printable(value: str) -> str:
    if not value or not value.isascii() or not value.isprintable():
        raise ValueError("must be printable ASCII without line breaks: it goes into an HTTP header")
    return value


def _header_name(value: str) -> str:
    if not _HEADER.fullmatch(value):
        raise ValueError("not a header name")
    return value


def _callable(value: str) -> str:
    if not _CALLABLE.fullmatch(value):
        raise ValueError("a callable is named as package.module:function")
    return value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


Name = Annotated[str, AfterValidator(_name)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
Url = Annotated[str, AfterValidator(_url)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
HeaderText = Annotated[str, AfterValidator(_printable)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
CallablePath = Annotated[str, AfterValidator(_callable)]
Pattern = Annotated[str, AfterValidator(_pattern)]


# --- Secrets --------------------------------------------------------------------------------------


def _given(value: object, info: ValidationInfo) -> object:
    """Hand what a file spelled out to the loader, which knows where it came from and refuses literals."""
    if info.context and not isinstance(value, SecretStr):
        value = info.context["source"].secret(value)
    if isinstance(value, str):
        value = str(value).strip()
        if not value:
            raise ValueError("the secret is empty")
        if not value.isprintable():
            raise ValueError("the secret has a line break or control character in it")
    return value


def _signing(value: SecretStr) -> SecretStr:
    decode_key(value.get_secret_value())
    return value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | SecretStr) else value


_hidden = PlainSerializer(lambda _: MASK, return_type=str, when_used="json")
Secret = Annotated[SecretStr, BeforeValidator(_given), _hidden]
"""Shown nowhere: `repr`, `str` and JSON hold a mask. `get_secret_value()` where it is used."""
SigningSecret = Annotated[Secret, AfterValidator(_signing)]
SigningSecrets = Annotated[
    tuple[SigningSecret, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [_SECRET_SCHEMA, {"type": "array", "items": _SECRET_SCHEMA}]}),
]
"""One or several: while a secret is rotated, both sign and both are accepted."""


def _header_values(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, Mapping):
        return value
    headers = {name: text for name, text in value.items() if text is not None}
    if info.context:
        headers = {name: info.context["source"].header(name, text) for name, text in headers.items()}
    return headers


def _header_value(value: SecretStr) -> SecretStr:
    _printable(value.get_secret_value())
    return value


Headers = Annotated[
    dict[HeaderName, Annotated[SecretStr, AfterValidator(_header_value), _hidden]],
    BeforeValidator(_header_values),
]
"""A header may carry a credential, so no value is ever shown."""


# --- Free data ------------------------------------------------------------------------------------


def _json(value: dict[str, Any]) -> dict[str, Any]:
    fault = next(_not_json(value, ""), None)
    if fault:
        raise ValueError(fault)
    return value


def _not_json(value: object, path: str) -> Any:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _not_json(inner, f"{path}.{key}")
        case list() | tuple():
            for index, inner in enumerate(value):
                yield from _not_json(inner, f"{path}[{index}]")
        case float() if value != value or value in (float("inf"), float("-inf")):
            yield f"{path.lstrip('.')}: JSON has no infinity and no NaN"
        case None | bool() | int() | float() | str():
            return
        case _:
            yield f"{path.lstrip('.')}: {type(value).__name__} has no place in JSON"


JsonObject = Annotated[dict[str, Any], AfterValidator(_json)]
