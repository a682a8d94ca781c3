"""When the provider says to come back: Retry-After in all its forms, rate-limit headers, bodies and messages.

Pure, and never raises: what cannot be understood becomes a note, and the ordinary backoff applies. Several
real dialects are read, but a number is only taken where its unit is certain.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.core.envelope import at
from aijobs.core.http_dates import parse_http_date
from aijobs.core.payload import clean_text

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
"""Response headers; as pairs where one may come twice (a mapping has joined those with a comma)."""

MOST = timedelta(days=31)
"""No hint is longer: a spending limit is renewed every month."""

_LONGEST_VALUE = 64
_LONGEST_MESSAGE = 2048
_MOST_BUCKETS = 12
_EPOCH_MILLISECONDS = 1e12
_EPOCH_SECONDS = 1e9

_DIGITS = re.compile(r"[0-9]{1,200}")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_GO_PART = r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|m|s|us|µs|ns)"
_GO_PARTS = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")
_GO_DURATION = re.compile(f"(?:{_GO_PART})+")
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "d": 86400.0}
_IN_WORDS = re.compile(
    rf"(?:try again|retry) (?:in|after)\s{{0,3}}(?:(?P<go>(?:{_GO_PART})+)(?!\w)"
    r"|(?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})?)\s{0,3}(?P<unit>ms|milli|s|m|h|d)"
    r"(?:ec(?:ond)?s?|in(?:ute)?s?|ours?|ays?|seconds?)?\b)",
    re.IGNORECASE,
)
_BUCKET_HEADERS = (
    re.compile(
        r"(?:llm_provider-)?(?:x-)?ratelimit-(?P<field>limit|remaining|reset)(?:-(?P<bucket>[a-z0-9_-]{1,40}))?"
    ),
    re.compile(
        r"(?:llm_provider-)?anthropic-ratelimit-(?P<bucket>[a-z0-9_-]{1,40})-(?P<field>limit|remaining|reset)"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """How long to wait, which word of the provider's says so, and what of its words made no sense."""

    delay: timedelta | None = None
    source: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    seconds: float
    source: str


def delay_hint(
    headers: Headers, body: object, now: datetime, *, message: str = "", throttled: bool = True
) -> Hint:
    """The provider's own word on when to come back, the most explicit one first.

    In order: `retry-after-ms`; `Retry-After` (seconds, or one of the three forms of a date, against the
    response's own Date if it has one; the larger of two); RetryInfo and its like in *body* (parsed JSON);
    the *message* ("try again in 20s"); the latest reset of a used-up bucket. The last two only where the
    answer is about a limit (*throttled*): successes carry resets too, and messages speak of other things.

    `Retry-After: 30.5` is refused although some clients take it: RFC 9110 says digits, and what is no delay
    by the standard is not guessed at. Negative numbers, and a reset of 0, mean that nothing is known.
    """
    reader = _Reader(headers, now)
    found = reader.retry_after_ms() or reader.retry_after() or reader.body(body)
    if throttled:
        found = found or _in_words(message) or reader.resets()
    if found is None:
        return Hint(notes=tuple(reader.notes))
    seconds = min(max(found.seconds, 0.0), MOST.total_seconds())
    return Hint(delay=timedelta(seconds=seconds), source=found.source, notes=tuple(reader.notes))


def poll_hint(headers: Headers) -> timedelta | None:
    """When to ask again for background work: `openai-poll-after-ms`, or None."""
    for value in _by_name(headers).get("openai-poll-after-ms", []):
        if seconds := _milliseconds(value):
            return timedelta(seconds=min(seconds, MOST.total_seconds()))
    return None


def rate_headers(headers: Headers) -> dict[str, dict[str, int | str | None]]:
    """What the rate-limit headers say, by bucket ("requests", "tokens", ""): limit, remaining, reset as sent.

    None stands for what is not given or, being negative, not known.
    """
    return {
        name: {
            "limit": _count(bucket.get("limit", "")),
            "remaining": _count(bucket.get("remaining", "")),
            "reset": clean_text(bucket["reset"], _LONGEST_VALUE) if bucket.get("reset") else None,
        }
        for name, bucket in _buckets(_by_name(headers)).items()
    }


class _Reader:
    """One response: its headers, the instant its relative dates refer to, and the notes so far."""

    def __init__(self, headers: Headers, now: datetime) -> None:
        self.headers = _by_name(headers)
        self.notes: list[str] = []
        dates = filter(None, (parse_http_date(value, now) for value in self.headers.get("date", [])))
        self.now = next(dates, now)

    def retry_after_ms(self) -> _Found | None:
        known = filter(None, self._delays("retry-after-ms", _milliseconds))  # 0 says nothing: look further
        return _larger(known, "retry-after-ms")

    def retry_after(self) -> _Found | None:
        return _larger(self._delays("retry-after", self._seconds_or_date), "Retry-After")

    def body(self, body: object) -> _Found | None:
        error = _error_of(body)
        for source, value in _words_of(error):
            seconds = self._until(str(value))
            if seconds is not None and seconds > 0:
                return _Found(seconds, source)
        upstream = at(error, "metadata", "headers")
        if not isinstance(upstream, Mapping):
            return None
        inner = _Reader([(str(name), str(value)) for name, value in upstream.items()], self.now)
        found = inner.retry_after_ms() or inner.retry_after() or inner.resets()
        return _Found(found.seconds, f"upstream {found.source}") if found else None

    def resets(self) -> _Found | None:
        used_up: list[_Found] = []
        others: list[_Found] = []
        for name, bucket in _buckets(self.headers).items():
            seconds = self._until(bucket.get("reset", ""))
            remaining = bucket.get("remaining", "")
            if seconds is not None and seconds > 0 and not remaining.startswith("-"):
                (used_up if remaining == "0" else others).append(
                    _Found(seconds, f"reset of {name or 'limit'}")
                )
        return max(used_up or others, key=lambda found: found.seconds, default=None)

    def _delays(self, name: str, parse: Callable[[str], float | None]) -> Iterator[float]:
        for value in self.headers.get(name, []):
            seconds = parse(value)
            if seconds is None:
                self.notes.append(f"{name} {clean_text(value, _LONGEST_VALUE)!r} is no delay")
            else:
                yield seconds

    def _seconds_or_date(self, value: str) -> float | None:
        if _DIGITS.fullmatch(value):
            return float(value)
        date = parse_http_date(value, self.now)
        return max(0.0, (date - self.now).total_seconds()) if date else None

    def _until(self, value: str) -> float | None:
        """Seconds from now to what *value* says: a Go duration, an instant, an epoch, or plain seconds."""
        if _GO_DURATION.fullmatch(value):
            return _go_seconds(value)
        if _RFC_3339.fullmatch(value):
            return _seconds_until(value, self.now)
        if not _NUMBER.fullmatch(value):
            return None
        number = float(value)
        if number >= _EPOCH_MILLISECONDS:
            return number / 1000 - self.now.timestamp()
        return number - self.now.timestamp() if number >= _EPOCH_SECONDS else number


def _by_name(headers: Headers) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        named.setdefault(name.lower(), []).append(value[: 2 * _LONGEST_VALUE].strip(" \t"))
    return named


def _larger(delays: Iterable[float], source: str) -> _Found | None:
    seconds = max(delays, default=None)
    return None if seconds is None else _Found(seconds, source)


def _milliseconds(value: str) -> float | None:
    return float(value) / 1000 if _NUMBER.fullmatch(value) else None


def _go_seconds(value: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in _GO_PARTS.findall(value))


def _seconds_until(value: str, now: datetime) -> float | None:
    try:
        return (datetime.fromisoformat(value.upper()) - now).total_seconds()
    except (ValueError, OverflowError):  # the 31st of February
        return None


def _in_words(message: str) -> _Found | None:
    for match in _IN_WORDS.finditer(message[:_LONGEST_MESSAGE]):
        if match["go"]:
            seconds = _go_seconds(match["go"].lower())
        else:
            unit = match["unit"].lower()
            seconds = float(match["number"]) * _UNITS["ms" if unit == "milli" else unit]
        if seconds > 0:
            return _Found(seconds, "message")
    return None


def _buckets(headers: Mapping[str, list[str]]) -> dict[str, dict[str, str]]:
    buckets: dict[str, dict[str, str]] = {}
    for name, values in headers.items():
        for pattern in _BUCKET_HEADERS:
            match = pattern.fullmatch(name)
            if match and (len(buckets) < _MOST_BUCKETS or (match["bucket"] or "") in buckets):
                buckets.setdefault(match["bucket"] or "", {})[match["field"]] = values[-1]
                break
    return buckets


def _count(value: str) -> int | None:
    return int(value) if _DIGITS.fullmatch(value) else None


def _error_of(body: object) -> object:
    if isinstance(body, list) and body:
        body = body[0]  # Gemini wraps its error in a list
    if isinstance(body, Mapping):
        error = body.get("error")
        return error if isinstance(error, Mapping) else body
    return None


def _words_of(error: object) -> Iterator[tuple[str, object]]:
    details = at(error, "details")
    for detail in details if isinstance(details, list) else []:
        if str(at(detail, "@type")).endswith("google.rpc.RetryInfo"):
            yield "RetryInfo", at(detail, "retryDelay")
    for names in (("metadata", "retry_after_seconds"), ("retry_after",), ("resets_in_seconds",)):
        yield names[-1], at(error, *names)
    for names in (("metadata", "resets_at"), ("resets_at",)):
        yield names[-1], at(error, *names)
