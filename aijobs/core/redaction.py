"""Takes secrets, addresses and a job's own input out of a text before it is stored, logged or shown.

A provider repeats the key it refuses, and the prompt. Texts are bounded before any pattern runs, every
pattern takes linear time, and what is in doubt goes.
"""

import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from aijobs.core.payload import clean_text

LIMIT = 2048
"""Bytes of UTF-8 that a redacted text has at most, by default."""

_WINDOW = 16 * LIMIT  # characters looked at; what comes after is cut anyway
_SHORTEST_SECRET = 4  # a shorter one would blank out ordinary words
_REDACTED = "[redacted]"

_GRAM = 8
_SHORTEST_ECHO = 12
_ECHO = "[input]"

_ANY = re.IGNORECASE
_QUOTE = r"""\\{0,3}["']?"""
_NAMED = (
    r"(?:api|access|secret|private|account|master|signing)[ _-]?key(?:[ _-]?id)?"
    r"|authorization|(?:set-)?cookie|secret|(?<![a-z])token(?!s)|password|passwd|pwd|credential|signature"
)
_NAME = rf"(?:{_NAMED}){_QUOTE}(?: provided| is| was)?\s{{0,3}}[:=]\s{{0,3}}"
_VALUE = r"""(?:"[^"\\]{1,400}|'[^'\\]{1,400}|\\{0,3}["']?[^\s"'\\,;&<>()\[\]{}]{4,})"""
_IN_ADDRESS = (
    r"(?:x-(?:amz|goog)-)?(?:api[_-]?)?(?:access[_-]?|client[_-]?|refresh[_-]?|id[_-]?)?"
    r"(?:key|token|secret|sig|signature|password|credential|code|auth)"
)
_PREFIXED = (
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[\w*.…-]{6,}|[spr]k_(?:live|test)_[\w*]{6,}|eyJ[\w-]{8,}(?:\.[\w*-]*){0,4}|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9*]{12,}"
    r"|(?:whsec_|whsk_|glpat-|xox[a-z]-|ya29\.|AIza|SG\.|xai-|pplx-|nvapi-)[\w+/=*.…-]{8,}"
    r"|(?:gsk|hf|r8|fw|gh[pousr]|github_pat|dop_v1)_[\w*…]{16,}"
    r")"
)

_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = (
    # A private key as text, to its end or to the end of the text.
    (
        re.compile(r"-----BEGIN [A-Z ]{0,40}KEY-----.*?(?:-----END [A-Z ]{0,40}KEY-----|\Z)", re.DOTALL),
        _REDACTED,
    ),
    # scheme://user:password@host, whatever the password is made of.
    (re.compile(r"(\w[\w+.-]{0,30}://[^\s:/@]{0,100}:)\S{1,300}@"), rf"\1{_REDACTED}@"),
    (re.compile(r"\b(bearer\s{1,3})(?=\S{6})[^\s\"'\\,;<>\[\]]+", _ANY), rf"\1{_REDACTED}"),
    (re.compile(r"\b((?i:basic)\s{1,3})(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/]{6,}={0,2}"), rf"\1{_REDACTED}"),
    (re.compile(rf"([?&]{_IN_ADDRESS}=)[^\s&\"'<>#\[\]]+", _ANY), rf"\1{_REDACTED}"),
    # Keys that vendors mark by a prefix; `*` and `…` because a masked key is still half a key.
    (re.compile(_PREFIXED), _REDACTED),
    # name: value, name=value, "name": "value", "API key provided: value".
    (re.compile(rf"({_NAME})(?:(?:bearer|basic|token) )?{_VALUE}", _ANY), rf"\1{_REDACTED}"),
    (re.compile(r"[\w.%+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"), "[e-mail]"),
    # A file, a picture or a hash, in base64 or hex: of no use to a reader, and too long to be a word.
    (re.compile(r"[A-Za-z0-9+/_=-]{200,}"), "[data]"),
)


def redact(text: str, *, secrets: Iterable[str] = (), echo_of: str | None = None, limit: int = LIMIT) -> str:
    """*text* without keys, tokens, passwords, e-mail addresses, *secrets*, or long pieces of *echo_of*.

    The answer is one line of at most *limit* bytes, harmless for a terminal (see `clean_text`). *secrets* are
    known ones, also in their URL and JSON spellings; shorter than 4 characters they are ignored. *echo_of* is
    the job's input: whatever runs along it for 15 letters or digits or more goes, however it was escaped,
    spaced or capitalised; an input shorter than that goes as a whole. Takes time linear in both.
    """
    text = _window(text)
    for secret in _spellings(secrets):
        text = text.replace(secret, _REDACTED)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    if echo_of:
        text = _without_echo(text, echo_of)
    return clean_text(text, limit)


def _window(text: str) -> str:
    """The beginning of *text*, ending between words: half a key at its end would look like none."""
    if len(text) <= _WINDOW:
        return text
    end = _WINDOW
    while end and "!" <= text[end - 1] <= "~":
        end -= 1
    return f"{text[:end]} … "


def _spellings(secrets: Iterable[str]) -> list[str]:
    known = {secret.strip() for secret in secrets}
    known |= {quote(secret, safe="") for secret in known} | {json.dumps(secret)[1:-1] for secret in known}
    return sorted((s for s in known if len(s) >= _SHORTEST_SECRET), key=len, reverse=True)


# --- Echo of the input ------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\{1,8}(?:u([0-9a-fA-F]{4})|[nrtbf])")
_NOT_WORD = re.compile(r"[\W_]+")


def _without_echo(text: str, source: str) -> str:
    """*text* with every long run of letters and digits that *source* has too replaced by a mark.

    Both are folded to their letters and digits first, so that escaping, quoting and wrapping hide nothing.
    The grams (8 characters) of the short text are looked up; the long source is stepped through 8 at a time,
    and only round a hit character by character, so that a run of 15 is always met.
    """
    folded_source = _NOT_WORD.sub("", _unescape(source)).casefold()
    folded, places = _fold(text)
    size = min(_GRAM, len(folded_source))
    if size < _SHORTEST_SECRET:
        return text
    grams = {folded[at : at + size] for at in range(len(folded) - size + 1)}
    known = _known_grams(grams, folded_source, size)
    if not known:
        return text
    shortest = min(_SHORTEST_ECHO, len(folded_source))
    pieces: list[str] = []
    at = 0
    for start, end in _runs(folded, known, size):
        if end - start >= shortest:
            pieces += text[at : places[start][0]], _ECHO
            at = places[end - 1][1]
    return "".join(pieces) + text[at:]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else " ", text) if "\\" in text else text


def _fold(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The letters and digits of *text* in lower case, and for each the span in *text* that it came from."""
    folded: list[str] = []
    places: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        escape = _ESCAPE.match(text, at) if text[at] == "\\" else None
        end = escape.end() if escape else at + 1
        for char in _NOT_WORD.sub("", _unescape(text[at:end])).casefold():
            folded.append(char)
            places.append((at, end))
        at = end
    return "".join(folded), places


def _known_grams(grams: set[str], source: str, size: int) -> set[str]:
    known: set[str] = set()
    for at in range(0, len(source), size):
        if source[at : at + size] in grams:
            near = range(max(0, at - size + 1), at + size)
            known.update(gram for i in near if (gram := source[i : i + size]) in grams)
    return known


def _runs(folded: str, known: set[str], size: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for at in range(len(folded) - size + 1):
        if folded[at : at + size] in known:
            if runs and runs[-1][1] >= at:
                runs[-1] = (runs[-1][0], at + size)
            else:
                runs.append((at, at + size))
    return runs
