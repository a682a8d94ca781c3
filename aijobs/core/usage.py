"""Tokens and cost of one call in one normal form, whatever the provider calls them.

The trap: OpenAI's and Gemini's input includes what came from a cache, Anthropic's does not. Unknown is None,
never 0: a count that is missing must not look like a call that was free.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Protocol

from aijobs.core.model import NO_USAGE, Usage
from aijobs.core.payload import clean_parsed, clean_text

_RAW_BYTES = 4096
_LARGEST = 2**63 - 1  # of the databases' whole numbers

_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Where one dialect keeps its counts. *input* and *output* are sums of what is there of their parts."""

    input: tuple[_Path, ...]
    output: tuple[_Path, ...]
    cache_read: _Path = ()
    cache_write: _Path = ()
    reasoning: _Path = ()


_RESPONSES = _Shape(
    input=(("input_tokens",),),
    output=(("output_tokens",),),
    cache_read=("input_tokens_details", "cached_tokens"),
    cache_write=("input_tokens_details", "cache_write_tokens"),
    reasoning=("output_tokens_details", "reasoning_tokens"),
)
_CHAT = _Shape(
    input=(("prompt_tokens",),),
    output=(("completion_tokens",),),
    cache_read=("prompt_tokens_details", "cached_tokens"),
    cache_write=("prompt_tokens_details", "cache_write_tokens"),
    reasoning=("completion_tokens_details", "reasoning_tokens"),
)
_ANTHROPIC = _Shape(
    input=(("input_tokens",), ("cache_creation_input_tokens",), ("cache_read_input_tokens",)),
    output=(("output_tokens",),),
    cache_read=("cache_read_input_tokens",),
    cache_write=("cache_creation_input_tokens",),
    reasoning=("output_tokens_details", "thinking_tokens"),
)
_GEMINI = _Shape(
    input=(("promptTokenCount",), ("toolUsePromptTokenCount",)),
    output=(("candidatesTokenCount",), ("thoughtsTokenCount",)),
    cache_read=("cachedContentTokenCount",),
    reasoning=("thoughtsTokenCount",),
)
_OLLAMA = _Shape(input=(("prompt_eval_count",),), output=(("eval_count",),))

_BY_KIND: Mapping[str, _Shape] = MappingProxyType({"anthropic": _ANTHROPIC})
_BY_FIELD: Mapping[str, _Shape] = MappingProxyType(
    {
        "promptTokenCount": _GEMINI,
        "candidatesTokenCount": _GEMINI,
        "prompt_tokens": _CHAT,
        "completion_tokens": _CHAT,
        "prompt_eval_count": _OLLAMA,
        "cache_read_input_tokens": _ANTHROPIC,
        "cache_creation_input_tokens": _ANTHROPIC,
        "input_tokens": _RESPONSES,
        "output_tokens": _RESPONSES,
    }
)
"""The first field that is there names the dialect: gateways answer in another one than their kind's."""


def usage_of(body: object) -> object:
    """The usage object inside a parsed answer of any provider, or None."""
    if not isinstance(body, Mapping):
        return None
    found = body.get("usage") or body.get("usageMetadata")
    return body if found is None and "prompt_eval_count" in body else found


def normalise(kind: str, raw: object, *, service_tier: object = None, reported_cost: object = None) -> Usage:
    """The usage object *raw* of a provider of *kind*; whatever is missing or no count is None.

    *service_tier* and *reported_cost* are what the answer says outside the usage object (a field, a header).
    """
    if not isinstance(raw, Mapping):
        return NO_USAGE if reported_cost is None else Usage(reported_cost=_amount(reported_cost))
    shape = _BY_KIND.get(kind) if "input_tokens" in raw else None
    shape = shape or next((s for field, s in _BY_FIELD.items() if field in raw), _RESPONSES)
    tier = raw.get("service_tier") or service_tier
    cost = raw.get("cost") if raw.get("cost") is not None else reported_cost
    return Usage(
        input_tokens=_sum(raw, shape.input),
        output_tokens=_sum(raw, shape.output),
        cache_read_tokens=_count(raw, shape.cache_read),
        cache_write_tokens=_count(raw, shape.cache_write),
        reasoning_tokens=_count(raw, shape.reasoning),
        service_tier=clean_text(tier, 60) if isinstance(tier, str) else None,
        reported_cost=_amount(cost),
        raw=clean_parsed(raw, max_bytes=_RAW_BYTES),
    )


class Price(Protocol):
    """What a model's tokens cost, each per million, from the day *since* on."""

    @property
    def input(self) -> float:
        """Fresh input."""
        ...

    @property
    def output(self) -> float:
        """Output, reasoning included."""
        ...

    @property
    def cache_read(self) -> float | None:
        """Input read from a cache; None: as input."""
        ...

    @property
    def cache_write(self) -> float | None:
        """Input written to a cache; None: as input."""
        ...

    @property
    def since(self) -> date | None:
        """The first day (UTC) of this price; None: always."""
        ...


def cost(usage: Usage, prices: Sequence[Price], *, day: date) -> float | None:
    """What *usage* costs by the price in force on *day*; None where a count or a price is not known.

    A cost that the provider itself reports goes before any table.
    """
    if usage.reported_cost is not None:
        return usage.reported_cost
    price = _price(prices, day)
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    fresh = max(0, usage.input_tokens - read - write)
    parts = (
        fresh * price.input,
        read * (price.input if price.cache_read is None else price.cache_read),
        write * (price.input if price.cache_write is None else price.cache_write),
        usage.output_tokens * price.output,
    )
    return math.fsum(parts) / 1_000_000


def _price(prices: Sequence[Price], day: date) -> Price | None:
    begun = [price for price in prices if price.since is None or price.since <= day]
    return max(begun, key=lambda price: price.since or date.min, default=None)


def _sum(raw: Mapping[str, object], paths: tuple[_Path, ...]) -> int | None:
    """The sum of the counts that are there (providers leave out what does not occur); None if none is."""
    known = [count for path in paths if (count := _count(raw, path)) is not None]
    return sum(known) if known and sum(known) <= _LARGEST else None


def _count(raw: Mapping[str, object], path: _Path) -> int | None:
    value: object = raw
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return value
    return None


def _amount(value: object) -> float | None:
    try:
        amount = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
        )
    except (ValueError, OverflowError):
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None
