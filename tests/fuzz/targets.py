"""What is fuzzed: each place where somebody else's text comes in, with a maker of input that is nearly right.

An attempt returns "taken" or "refused"; whatever else it raises got away. A refusal has to be an error of
this project (or, where a function's contract says so, a ValueError) with a message of one clear line.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from aijobs.core import config, cron, durations, hints, http_dates, payload, prompt, redaction, trace_context
from aijobs.core.errors import AijobsError, ConfigError
from aijobs.core.signature import Refused, sign, verify
from aijobs.core.signing_key import decode_key
from aijobs.services.job_documents import request_of
from aijobs.services.submission import new_job
from tests.fuzz.mutations import NASTY, misspelt, respelt, spoilt, text, to_json, value
from tests.support.jobs import settings_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
TAKEN, REFUSED = "taken", "refused"
_LONGEST_MESSAGE = 4000
_EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"

Attempt = Callable[[Any], str]
Make = Callable[[Random], Any]


@dataclass(frozen=True, slots=True)
class Target:
    """*share* is its part of all inputs; *opened* makes ready what an attempt needs."""

    make: Make
    opened: Callable[[Path], Any]
    share: int


class UnclearError(Exception):
    """A refusal that is not one clear line."""


def refusal(error: AijobsError | ValueError) -> str:
    """REFUSED, if *error* says what is wrong in one line that a terminal and a log can take."""
    lines = [error.message] if isinstance(error, AijobsError) else [str(error)]
    if isinstance(error, ConfigError):
        lines = [str(fault) for fault in error.faults]
    for line in lines:
        if not line.strip() or payload._INVISIBLE.search(line) or len(line) > _LONGEST_MESSAGE:
            raise UnclearError(f"{type(error).__name__}: {line[:200]!r} ({len(line)} characters)")
    return REFUSED


def plain(attempt: Callable[[Any], object]) -> Callable[[Path], Any]:
    """A target that needs nothing made ready."""

    @contextmanager
    def opened(_: Path) -> Iterator[Attempt]:
        def tried(given: Any) -> str:
            try:
                attempt(given)
            except AijobsError as error:
                return refusal(error)
            return TAKEN

        yield tried

    return opened


# --- JSON, JSONL ----------------------------------------------------------------------------------------

_LINE: Mapping[str, object] = {
    "type": "t",
    "user": "u",
    "key": "k",
    "input": {"text": "hello", "n": [1, 2.5]},
    "priority": 3,
    "delay": "5m",
    "deadline": "2h",
    "max_attempts": 3,
    "request_id": "r-1",
    "traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
}
_SETTINGS = settings_of()


def _line(chance: Random) -> bytes:
    return to_json(respelt(dict(_LINE), chance), chance)


def _submit(line: bytes) -> None:
    values = payload.parse_object(line, what="line 1", max_bytes=100_000)
    made = new_job(request_of(values), _SETTINGS, now=NOW)
    assert made.payload.encode()
    assert payload.parse_json(made.payload, what="again") == values.get("input", {}) or made.payload


# --- Configuration --------------------------------------------------------------------------------------

_SMALL = """\
database: sqlite:///a.db
providers:
  p: {kind: openai-responses, api_key: "${KEY}", webhook_secret: "${HOOK}", base_url: https://a.example/v1}
types:
  t:
    {provider: p, prompt: "{{ text }}", timeout: 5m, input_schema: {properties: {a: {type: string}}}}
schedules:
  s: {type: t, cron: "*/5 * * * *", timezone: Europe/Berlin}
notify:
  n: {kind: webhook, url: https://b.example/hook, on: [dead_letter]}
  c: {kind: command, command: ["true", x]}
retry:
  network: {retries: 3, first: immediate}
"""
_ENVIRON = {
    "KEY": "sk-demo-0123456789",
    "HOOK": SECRET,
    "DB_PASSWORD": "pw",
    "OPENAI_API_KEY": "sk-demo-1",
    "ANTHROPIC_API_KEY": "sk-demo-2",
    "OPS_WEBHOOK_SECRET": SECRET,
}


def _config(chance: Random) -> bytes:
    whole = chance.random() < 0.3
    given = _EXAMPLE.read_text(encoding="utf-8") if whole else _SMALL
    if chance.random() < 0.5:
        lines = given.splitlines()
        at = chance.randrange(len(lines))
        before, colon, _ = lines[at].partition(":")
        lines[at] = f"{before}{colon} {text(chance)}" if colon else misspelt(lines[at], chance)
        given = "\n".join(lines)
    else:
        given = misspelt(given, chance)
    data = given.encode("utf-8", "surrogatepass")
    return spoilt(data, chance) if chance.random() < 0.2 else data


@contextmanager
def _configuration(folder: Path) -> Iterator[Attempt]:
    path = folder / "fuzz.yaml"

    def tried(given: bytes) -> str:
        path.write_bytes(given)
        try:
            config.load(path, environ=_ENVIRON, thorough=True)
        except AijobsError as error:
            return refusal(error)
        return TAKEN

    yield tried


# --- Times and headers ----------------------------------------------------------------------------------

_CRONS = (
    "*/5 * * * *",
    "0 9 * * mon-fri",
    "15,45 8-18/2 1 jan,jul 0",
    "@daily",
    "0 0 29 2 *",
    "59 23 31 12 7",
)
_ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "../etc/passwd",
    "/etc/passwd",
    "Europe",
    "",
)


def _crons(chance: Random) -> tuple[str, str]:
    line = chance.choice(_CRONS)
    zone = chance.choice(_ZONES)
    return (
        misspelt(line, chance) if chance.random() < 0.8 else line,
        misspelt(zone, chance) if chance.random() < 0.2 else zone,
    )


@contextmanager
def _cron_lines(_: Path) -> Iterator[Attempt]:
    def tried(given: tuple[str, str]) -> str:
        expression, zone = given
        faults = cron.validate(expression, zone)
        for fault in faults:
            refusal(ValueError(fault))
        cron.warnings(expression, zone if not faults else "UTC", now=NOW) if not faults else None
        try:
            found = cron.Schedule.parse(cron=expression, timezone=zone)
        except ValueError as error:
            return refusal(error)
        found.next_fire(NOW)
        found.latest(NOW - timedelta(days=2), NOW, 3)
        return TAKEN

    yield tried


_TIMES = (
    "90s",
    "1h30m",
    "2d",
    "250ms",
    "5/s",
    "30/m",
    "2026-01-31T09:30:00Z",
    "2026-01-31T09:30:00.123+05:30",
    "2h ago",
    "1767225600",
    "1767225600000",
)


def _times(chance: Random) -> str:
    return misspelt(chance.choice(_TIMES), chance)


@contextmanager
def _readers_of_times(_: Path) -> Iterator[Attempt]:
    readers = (
        durations.parse_duration,
        durations.parse_rate,
        durations.parse_instant,
        lambda given: durations.parse_time(given, now=NOW),
    )

    def tried(given: str) -> str:
        taken = False
        for read in readers:
            try:
                read(given)
                taken = True
            except ValueError as error:
                if (
                    not payload._INVISIBLE.search(given) and len(given) < _LONGEST_MESSAGE // 3
                ):  # it is quoted
                    refusal(error)
        return TAKEN if taken else REFUSED

    yield tried


_HEADERS = (
    ("Retry-After", "120"),
    ("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"),
    ("retry-after-ms", "1500"),
    ("Retry-After", "Wednesday, 21-Oct-26 07:28:00 GMT"),
    ("Date", "Wed Oct 21 07:28:00 2026"),
    ("x-ratelimit-remaining-requests", "0"),
    ("x-ratelimit-reset-requests", "6m0.5s"),
    ("x-ratelimit-limit", "100"),
    ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:01:00Z"),
    ("openai-poll-after-ms", "500"),
    ("ratelimit-reset", "1767225700"),
    ("x-should-retry", "true"),
    ("x-request-id", "req_1"),
    ("anthropic-ratelimit-input-tokens-remaining", "0"),
)


def _headers(chance: Random) -> list[tuple[str, str]]:
    picked = [chance.choice(_HEADERS) for _ in range(chance.randrange(1, 5))]
    return [
        (name if chance.random() < 0.9 else misspelt(name, chance), misspelt(said, chance))
        for name, said in picked
    ]


def _hinted(chance: Random) -> tuple[list[tuple[str, str]], object, str]:
    said = misspelt("Please try again in 6m0.5s or retry after 20 seconds.", chance)
    return _headers(chance), value(chance), said


@contextmanager
def _readers_of_headers(_: Path) -> Iterator[Attempt]:
    def tried(given: tuple[list[tuple[str, str]], object, str]) -> str:
        headers, body, said = given
        hint = hints.delay_hint(headers, body, NOW, message=said)
        assert hint.delay is None or timedelta(0) <= hint.delay <= hints.MOST
        assert not any(payload._INVISIBLE.search(note) for note in hint.notes)
        payload.dump_json(hints.rate_headers(headers))
        hints.poll_hint(headers)
        for _, field in headers:
            http_dates.parse_http_date(field, NOW)
        return TAKEN if hint.delay is not None else REFUSED

    yield tried


def _traceparents(chance: Random) -> str:
    return misspelt(str(_LINE["traceparent"]), chance)


@contextmanager
def _reader_of_traceparents(_: Path) -> Iterator[Attempt]:
    def tried(given: str) -> str:
        found = trace_context.parse(given)
        assert (found is not None) == trace_context.is_traceparent(given)
        return TAKEN if found else REFUSED

    yield tried


# --- Webhooks' headers ----------------------------------------------------------------------------------


def _signed(chance: Random) -> tuple[list[tuple[bytes, bytes]], bytes]:
    body = to_json({"type": "response.completed", "data": {"id": "resp_1"}}, chance)
    signed = sign(
        "wh_1", body, keys=[decode_key(SECRET)], now=NOW + timedelta(seconds=chance.choice((0, 290, 900)))
    )
    pairs = [(name.encode(), value.encode()) for name, value in signed.items()]
    if chance.random() < 0.8:
        at = chance.randrange(len(pairs))
        name, told = pairs[at]
        pairs[at] = (spoilt(name, chance), told) if chance.random() < 0.2 else (name, spoilt(told, chance))
    if chance.random() < 0.1:
        pairs.append(chance.choice(pairs))
    return pairs, body


@contextmanager
def _signatures(_: Path) -> Iterator[Attempt]:
    def tried(given: tuple[list[tuple[bytes, bytes]], bytes]) -> str:
        answer = verify(given[0], given[1], keys=[decode_key(SECRET)], now=NOW)
        return refusal(ValueError(answer.reason)) if isinstance(answer, Refused) else TAKEN

    yield tried


# --- Prompts and messages -------------------------------------------------------------------------------

_TEMPLATES = (
    "{% for m in messages %}{{ m.role }}: {{ m['text'] | upper | truncate(9) }}\n{% endfor %}",
    (
        "{% macro f(a) %}<{{ a | tojson(indent=2) }}>{% endmacro %}{{ f(data) }}"
        "{{ text | replace('a', 'b') | wordwrap(5) }}"
    ),
    (
        "{% set x = namespace(n=0) %}{% for k, v in data.items() %}"
        "{% set x.n = x.n + loop.index %}{% endfor %}{{ x.n ~ text }}"
    ),
    (
        "{{ data.list | map('string') | join(', ') | indent(4) }}"
        "{% if text is defined and 'a' in text %}{{ text[1:3] }}{% endif %}"
    ),
    "{{ [1, 2, 3] | batch(2) | list }}{{ 3.14159 | round(2) }}{{ data.list | sum }}{{ (text, 1) }}",
)


def _templates(chance: Random) -> tuple[str, dict[str, object]]:
    data = {"text": "abc", "messages": [{"role": "user", "text": "hi"}], "data": {"a": 1, "list": [1, 2]}}
    changed = respelt(data, chance)
    return misspelt(chance.choice(_TEMPLATES), chance), changed if isinstance(changed, dict) else data


def _render(given: tuple[str, dict[str, object]]) -> None:
    prompt.check(given[0])
    prompt.render(*given, most_bytes=100_000)


def _messages(chance: Random) -> tuple[str, str]:
    source = text(chance) * chance.randrange(1, 4)
    said = f"api_key={text(chance)} Bearer {text(chance)} {source} postgresql://u:{text(chance)}@h/d "
    said += chance.choice(NASTY)
    return misspelt(said, chance), source


@contextmanager
def _redactions(_: Path) -> Iterator[Attempt]:
    def tried(given: tuple[str, str]) -> str:
        clean = redaction.redact(given[0], secrets=["quiet-plumbum-4711"], echo_of=given[1])
        assert not payload._INVISIBLE.search(clean)
        assert len(clean.encode()) <= redaction.LIMIT
        return TAKEN

    yield tried


def _documents(chance: Random) -> bytes:
    return to_json(value(chance), chance)


@contextmanager
def _documents_read(_: Path) -> Iterator[Attempt]:
    def tried(given: bytes) -> str:
        try:
            found = payload.parse_json(given, what="--input")
        except AijobsError as error:
            return refusal(error)
        assert payload.parse_json(payload.dump_json(found), what="again") == found
        payload.input_hash(found)
        return TAKEN

    yield tried


PURE: dict[str, Target] = {
    "json": Target(_documents, _documents_read, 12),
    "jsonl": Target(_line, plain(_submit), 17),
    "config": Target(_config, _configuration, 3),
    "cron": Target(_crons, _cron_lines, 8),
    "times": Target(_times, _readers_of_times, 10),
    "headers": Target(_hinted, _readers_of_headers, 16),
    "traceparent": Target(_traceparents, _reader_of_traceparents, 4),
    "signature": Target(_signed, _signatures, 10),
    "template": Target(_templates, plain(_render), 6),
    "redaction": Target(_messages, _redactions, 4),
}


def open_all(
    names: list[str], folder: Path, stack: ExitStack, table: Mapping[str, Target]
) -> dict[str, Attempt]:
    """Make ready what the targets *names* need."""
    return {name: stack.enter_context(table[name].opened(folder)) for name in names}
