"""What an unquoted word in the file means: YAML 1.2's core rules, and text wherever parsers disagree.

`no`, `on` and `yes` are text, and so are `1:30`, `0123`, `1_000` and `2026-01-01`: a field that needs a
number or a boolean then refuses them by name, and a field of text keeps what was typed.
"""

import re

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,299})")
_OTHER_BASE = re.compile(r"0(?:o[0-7]{1,100}|x[0-9a-fA-F]{1,100})")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"(?P<sign>[-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_LOOKS_BOOLEAN = frozenset({"y", "n", "yes", "no", "on", "off"})
_LOOKS_NUMERIC = re.compile(r"[-+]?[0-9][0-9_:]*(?:\.[0-9_]*)?|[-+]?0b[01_]+")
_TAG = "tag:yaml.org,2002:"
PLAIN = "plain"
"""The tag of a scalar that was written without quotes and without a tag."""

Scalar = str | int | float | bool | None


class EnvironmentText(str):
    """Text that came, wholly or in part, from the environment: always data, never read as YAML."""

    __slots__ = ()


def resolve(text: str) -> Scalar:
    """The value of the unquoted word *text*."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special:
        return float(f"{special['sign'] or ''}{text[-3:].lower()}")
    return text


def tagged(tag: str, text: str) -> Scalar:
    """The value of *text* under an explicit *tag* (`!!str`, `!!int`, ...). ValueError for any other tag."""
    kind = tag.removeprefix(_TAG)
    if kind == "str":
        return str(text)
    value = resolve(str(text))
    wanted: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool}
    if kind in wanted:
        if isinstance(value, wanted[kind]) and (kind == "bool" or not isinstance(value, bool)):
            return float(value) if kind == "float" and isinstance(value, int) else value
        raise ValueError(f"this is not what !!{kind} says it is")
    if kind == "null" and value is None:
        return None
    raise ValueError("tags are not used here: remove it (only !!str, !!int, !!float and !!bool are known)")


def misread(text: str) -> str | None:
    """Why *text*, left as text, may have been meant as something else by who knows other parsers; or None."""
    if text.lower() in _LOOKS_BOOLEAN:
        return f"{text} is text here: write true or false"
    if not _LOOKS_NUMERIC.fullmatch(text) or resolve(text) != text:
        return None
    if ":" in text:
        return f"{text} is text here: parsers disagree on what it means"
    return f"parsers disagree on what {text} means: write it in plain digits"
