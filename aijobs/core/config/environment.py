"""`${NAME}` in a value: replaced once, after parsing, by text that is never parsed again."""

import re
from collections.abc import Mapping
from urllib.parse import quote

from aijobs.core.config.scalars import EnvironmentText

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    rf"\$\$|\$\{{(?P<name>{_NAME})(?::-(?P<default>[^}}]*))?\}}|(?P<open>\$\{{)|\$(?P<bare>[A-Z_][A-Z0-9_]*)"
)
_IN_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^:/@?#]*:[^@/?#]*")
_TO_HOST = re.compile(r"[^@/?#]*@")


class UnresolvedError(ValueError):
    """A reference to the environment that leads nowhere; the text says which and what to do."""


def expand(text: str, environ: Mapping[str, str], *, url: bool = False) -> str:
    """*text* with its references replaced; `EnvironmentText` if there were any. Raises UnresolvedError.

    `${NAME:-default}` takes the default when NAME is unset or empty; `$$` is a dollar sign. With *url*, what
    stands in the password of a URL is percent-encoded, so that any password arrives as it is.
    """
    if "$" not in text:
        return text
    faults: list[str] = []
    parts: list[str] = []
    end, replaced = 0, False
    for match in _TOKEN.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        if match[0] == "$$":
            parts.append("$")
            continue
        replaced = True
        try:
            value = _value(match, environ)
        except UnresolvedError as fault:
            faults.append(str(fault))
            continue
        if url and _IN_PASSWORD.fullmatch("".join(parts)) and _TO_HOST.match(text, end):
            value = quote(value, safe="")
        parts.append(value)
    if faults:
        raise UnresolvedError("; ".join(faults))
    whole = "".join([*parts, text[end:]])
    return EnvironmentText(whole) if replaced else whole


def mentions(text: str) -> bool:
    """Whether *text* refers to the environment."""
    return any(match[0] != "$$" for match in _TOKEN.finditer(text))


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match["open"]:
        raise UnresolvedError(
            "${ begins no reference: write ${NAME} or ${NAME:-default}, or $${ for the characters"
        )
    if match["bare"]:
        raise UnresolvedError(
            f"${match['bare']}: write ${{{match['bare']}}}, or $${match['bare']} for the characters"
        )
    value, default = environ.get(match["name"]), match["default"]
    if default is not None:
        return value or default
    if value is None:
        raise UnresolvedError(f"environment variable {match['name']} is not set")
    return value
