"""Input that is nearly right: valid texts, JSON values and bytes, each spoilt a little by a seeded chance."""

import json
from collections.abc import Sequence
from random import Random

NASTY: Sequence[str] = (
    "\0",
    "\ud800",
    "\udcff",
    "\u202e",
    "\u200b",
    "\ufeff",
    "\x1b]52;c;AAAA\x07",
    "\x1b[2J",
    "\x9b31m",
    "\x7f",
    "é",
    "漢" * 40,
    "🎉",
    "' OR '1'='1' --",
    '"; DROP TABLE jobs; --',
    "%",
    "_",
    "%s%n",
    "\\",
    "{{ 7 * 7 }}",
    "{% for x in range(9) %}",
    "[bold]",
    "[link=http://x]",
    "../../etc/passwd",
    "-1",
    "-0",
    "1e999",
    "NaN",
    "Infinity",
    "9" * 25,
    "9" * 400,
    "9" * 5000,
    "0x1F",
    "٣",
    "²",
    "null",
    "true",
    "[]",
    "{}",
    "[" * 900,
    '{"a":' * 300,
    "\r\n",
    "\r\nX-Evil: 1",
    "\n",
    "\t",
    " " * 50,
    "a" * 300,
    "A" * 70_000,
    ":",
    ",",
    ";",
    "=",
    "#",
    "&a *a",
    "!!python/object:os.system",
    "${HOME}",
    "${NOPE}",
    "file:/etc/passwd",
    "2026-02-31T25:61:61Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+14:00",
    "1970-01-01",
)
NAMES: Sequence[str] = (
    "id",
    "type",
    "object",
    "status",
    "error",
    "code",
    "message",
    "data",
    "output",
    "content",
    "text",
    "choices",
    "usage",
    "model",
    "finish_reason",
    "stop_reason",
    "input",
    "user",
    "key",
    "priority",
    "max_attempts",
    "delay",
    "at",
    "deadline",
    "request_id",
    "traceparent",
    "details",
    "metadata",
    "retry_after",
    "input_tokens",
    "output_tokens",
    "prompt_tokens",
    "completion_tokens",
    "incomplete_details",
    "reason",
    "refusal",
    "response",
    "errors",
    "created_at",
    "@type",
    "retryDelay",
    "resets_at",
    "headers",
    "candidates",
    "content_filter_results",
    "param",
    "detail",
    "msg",
    "loc",
    "service_tier",
)
WORDS: Sequence[str] = (
    "response",
    "completed",
    "queued",
    "in_progress",
    "failed",
    "incomplete",
    "cancelled",
    "message",
    "output_text",
    "refusal",
    "stop",
    "length",
    "tool_calls",
    "error",
    "end_turn",
    "max_tokens",
    "rate_limit_exceeded",
    "insufficient_quota",
    "response.completed",
    "t",
    "u",
    "k",
    "google.rpc.RetryInfo",
    "20s",
    "1m30s",
    "2h",
    "unknown_status",
    "message_stop",
    "content_filter",
)


def text(chance: Random) -> str:
    """A word, a nasty one, or a few of both."""
    kind = chance.random()
    if kind < 0.4:
        return chance.choice(WORDS)
    if kind < 0.8:
        return chance.choice(NASTY)
    return "".join(chance.choice((*WORDS, *NASTY[:40])) for _ in range(chance.randrange(4)))


def value(chance: Random, depth: int = 0) -> object:
    """Any JSON value, built of the names and words that providers and callers use."""
    kind = chance.random()
    if depth > 4 or kind < 0.35:
        return _scalar(chance)
    if kind < 0.4 and depth == 0:
        return _deep(chance)
    if kind < 0.6:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(NAMES): value(chance, depth + 1) for _ in range(chance.randrange(7))}


def respelt(given: object, chance: Random) -> object:
    """*given* with one or two of its parts replaced, dropped, doubled or wrapped."""
    if chance.random() < 0.15:
        return value(chance, 1)
    if isinstance(given, dict) and given:
        changed = dict(given)
        name = chance.choice(sorted(changed))
        if chance.random() < 0.15:
            del changed[name]
        else:
            changed[name] = respelt(changed[name], chance)
        if chance.random() < 0.1:
            changed[chance.choice((*NAMES, chance.choice(NASTY)))] = value(chance, 2)
        return changed
    if isinstance(given, list) and given:
        at = chance.randrange(len(given))
        return [*given[:at], respelt(given[at], chance), *given[at + chance.randrange(2) :]]
    return value(chance, 2)


def to_json(given: object, chance: Random) -> bytes:
    """*given* as JSON in one of its spellings, sometimes spoilt."""
    written = json.dumps(given, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, None, 1)))
    data = written.encode("utf-8", "surrogatepass")
    return spoilt(data, chance) if chance.random() < 0.3 else data


def spoilt(data: bytes, chance: Random) -> bytes:
    """*data* with a few bytes changed."""
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.randrange(1, 20))
        data = (
            data[:at]
            + chance.choice(
                (
                    b"",
                    bytes([chance.randrange(256)]),
                    data[at:to] * chance.randrange(2, 5),
                    chance.choice(NASTY).encode("utf-8", "surrogatepass"),
                    b"\r\n",
                    b"\0",
                )
            )
            + data[to:]
        )
    return data


def misspelt(given: str, chance: Random) -> str:
    """*given* with a few characters changed."""
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(given) + 1)
        to = min(len(given), at + chance.randrange(1, 6))
        put = (
            "",
            given[at:to] * 2,
            chance.choice(NASTY),
            chr(chance.randrange(32, 127)),
            str(chance.randrange(100)),
        )
        given = given[:at] + chance.choice(put) + given[to:]
    return given


def _scalar(chance: Random) -> object:
    return chance.choice(
        (
            None,
            True,
            False,
            0,
            -1,
            1,
            429,
            10**15,
            -(2**63),
            2**64,
            10**400,
            0.1,
            -0.0,
            1e308,
            float("inf"),
            float("nan"),
            1.5,
            text(chance),
            text(chance),
            text(chance),
        )
    )


def _deep(chance: Random) -> object:
    nested: object = text(chance)
    for _ in range(chance.choice((50, 150, 450, 800))):
        nested = [nested] if chance.random() < 0.7 else {chance.choice(NAMES): nested}
    return nested
