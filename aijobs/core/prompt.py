"""Prompt templates: Jinja in a sandbox over the job's input.

A template computes text and nothing else: no files, no other templates, no chance, no reach into Python's
objects, no change to the input, a bound on what comes out. A name the input lacks is an error, because a
prompt with a hole in it costs as much as a whole one. Lists and mappings come out as JSON, not as Python.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import (
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
)
from jinja2.exceptions import SecurityError
from jinja2.filters import do_indent
from jinja2.sandbox import ImmutableSandboxedEnvironment

from aijobs.core.errors import InvalidInput

LARGEST = 10 << 20
"""Bytes of a rendered prompt, when the caller names no other bound."""
_LONGEST_STRING = 10_000_000  # characters that `"x" * n` may make before anything is put out
_KEPT_GLOBALS = ("range", "dict", "namespace")
_REFUSED_FILTERS = ("random", "pprint", "urlize", "xmlattr", "center", "format")  # chance, HTML, padding
_WIDEST_INDENT = 200
_QUOTED = re.compile(r"'([^']*)'")
_STRING_METHODS = frozenset(
    {
        "capitalize", "count", "endswith", "find", "isalpha", "isdigit", "islower", "isspace", "isupper",
        "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rfind", "rpartition",
        "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper",
    }
)  # fmt: skip
_REFUSED_TAGS = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from ... import",
    nodes.Extends: "extends",
}


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, where `order.items` is the input's own `items` before it is a method."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> None:
        """Leave `str.format` to the rule below, which refuses it: a width in it makes text without end."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr not in _STRING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("powers are not allowed")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting by % is not allowed")
        texts = [side for side in (left, right) if isinstance(side, str | list | tuple)]
        times = next((side for side in (left, right) if isinstance(side, int)), 0)
        if texts and len(texts[0]) * times > _LONGEST_STRING:
            raise SecurityError("a repetition is too long")
        return super().call_binop(context, operator, left, right)


def render(template: str, data: Mapping[str, object], *, most_bytes: int = LARGEST) -> str:
    """*template* filled from *data*. Raises InvalidInput when a name is missing or it grows too long.

    The message names what the template asks for, never what the input holds.
    """
    try:
        return _joined(_compiled(template), data, most_bytes)
    except UndefinedError as error:
        hint = "the input lacks what the template asks for"
        raise InvalidInput(f"prompt: {_undefined(error, template)}", hint=hint) from None
    except TemplateSyntaxError as error:
        raise InvalidInput(f"prompt: line {error.lineno}: {error.message}") from None
    except TemplateError as error:
        raise InvalidInput(f"prompt: {error.message}") from None
    except (RecursionError, MemoryError):
        raise InvalidInput("prompt: the template asks for too much") from None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # The text of these may quote the input.
        message = f"prompt: the template cannot work with this input ({type(error).__name__})"
        raise InvalidInput(message) from None


def check(template: str) -> str | None:
    """What is wrong with *template* itself, or None. Renders nothing."""
    try:
        tree = _environment().parse(template)
        _environment().compile(tree)
    except TemplateSyntaxError as error:
        return f"template, line {error.lineno}: {error.message}"
    except TemplateError as error:
        return f"template: {error.message}"
    except RecursionError:
        return "template: nested too deep"
    refused = next((word for kind, word in _REFUSED_TAGS.items() if tree.find(kind)), None)
    return f"template: {{% {refused} %}} is not allowed" if refused else None


def _undefined(error: UndefinedError, template: str) -> str:
    """What is missing; a name that came out of the input, as in `{{ prices[currency] }}`, is not repeated."""
    message = error.message or ""
    names = _QUOTED.findall(message)
    return message if names and names[-1] in template else "an element that the input names is not there"


def _joined(template: Template, data: Mapping[str, object], most_bytes: int) -> str:
    parts: list[str] = []
    size = 0
    for part in template.generate({"input": data, **data}):
        size += len(part.encode("utf-8", "surrogatepass"))
        if size > most_bytes:
            raise SecurityError(f"the prompt is longer than {most_bytes} bytes")
        parts.append(part)
    return "".join(parts)


@lru_cache(maxsize=256)
def _compiled(template: str) -> Template:
    return _environment().from_string(template)


@lru_cache(maxsize=1)
def _environment() -> _Environment:
    made = _Environment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_as_text
    )
    made.globals = {name: made.globals[name] for name in _KEPT_GLOBALS}
    for name in _REFUSED_FILTERS:
        del made.filters[name]
    made.filters |= {"tojson": _as_json, "replace": _replaced, "indent": _indented}
    return made


def _as_text(value: object) -> object:
    """What `{{ value }}` puts out."""
    if isinstance(value, str | int | float | Undefined) and not isinstance(value, bool):
        return value
    if value is None:
        return ""
    if isinstance(value, bool | dict | list | tuple):
        return _as_json(value)
    raise TypeError("neither text nor data")


def _as_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_refuse)


def _replaced(value: object, old: str, new: str) -> str:
    text = str(value)
    if len(text) + text.count(old) * len(new) > _LONGEST_STRING:
        raise SecurityError("a replacement makes the text too long")
    return text.replace(old, new)


def _indented(value: object, width: int = 4, first: bool = False, blank: bool = False) -> str:
    if width > _WIDEST_INDENT:
        raise SecurityError(f"indented by more than {_WIDEST_INDENT}")
    return str(do_indent(str(value), width, first, blank))


def _refuse(_: object) -> object:
    raise TypeError("no JSON")
