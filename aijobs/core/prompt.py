"""Prompt templates: Jinja in a sandbox over the job's input.

A template computes text and nothing else: no files, no other templates, no chance, no reach into Python's
objects, no change to the input, a bound on what comes out and on the work it takes (see `prompt_budget`). A
name the input lacks is an error, because a prompt with a hole in it costs as much as a whole one. Lists and
mappings come out as JSON, not as Python.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, wraps
from itertools import islice
from typing import Any

from jinja2 import (
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
    pass_context,
)
from jinja2.exceptions import SecurityError
from jinja2.filters import do_indent
from jinja2.runtime import BlockReference, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from aijobs.core import prompt_budget as budget
from aijobs.core.errors import InvalidInput
from aijobs.core.payload import clean_text

LARGEST = 10 << 20
"""Bytes of a rendered prompt, when the caller names no other bound."""
_KEPT_GLOBALS = ("range", "dict", "namespace")
_REFUSED_FILTERS = ("random", "pprint", "urlize", "xmlattr", "center", "format")  # chance, HTML, padding
_CHEAP_FILTERS = ("length", "count", "first", "last", "default", "d", "int", "float", "abs", "attr")
_WIDEST_INDENT = 200
_MOST_COLUMNS = 100_000  # of `batch` and `slice`
_MOST_DIGITS = 300
_LONGEST_MESSAGE = 500
_LONGEST_TO_WRAP = 1_000_000
_QUOTED = re.compile(r"'([^']*)'")
_STRING_METHODS = frozenset(
    {
        "capitalize", "count", "endswith", "find", "isalpha", "isdigit", "islower", "isspace", "isupper",
        "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rfind", "rpartition",
        "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper",
    }
)  # fmt: skip
_OF_PYTHON = (
    TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError, SyntaxError,
)  # fmt: skip
"""Jinja makes Python of a template, and what Python says of it comes through: `{{ 3.٣ }}`."""
_REFUSED_TAGS = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from ... import",
    nodes.Extends: "extends",
}


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, where `order.items` is the input's own `items` before it is a method."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

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
        size = _size_of(operator, left, right)
        budget.within(size, "an expression")
        budget.spend(budget.STEP + size)
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int):
            budget.weigh(result)
        return result

    def call(self, __context: Any, __obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget.spend(budget.STEP)
        if not isinstance(__obj, Macro | LoopContext | BlockReference):  # these are counted as they run
            args = _paid(__obj, args)
            budget.pay_for(*kwargs.values())
        result = super().call(__context, __obj, *args, **kwargs)
        if not isinstance(result, range):
            budget.pay_for(result)
        return result


def _size_of(operator: str, left: object, right: object) -> int:
    """About how long the result is."""
    texts = [side for side in (left, right) if isinstance(side, str | list | tuple)]
    if operator == "+":
        return sum(map(len, texts))
    times = next((side for side in (left, right) if isinstance(side, int)), 0)
    return len(texts[0]) * max(times, 0) if texts and operator == "*" else 0


def _paid(function: object, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """*args* of a method or of `dict` and the like, paid for, and with a bound on what they make."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, str) and getattr(function, "__name__", "") == "join" and args:
        args = (_separated(owner, args[0]), *args[1:])
    budget.pay_for(*args, *([owner] if isinstance(owner, str | list | tuple) else ()))
    return args


def _separated(separator: str, parts: Any) -> list[Any]:
    """*parts*, when they fit into one text with *separator* between them."""
    kept = list(parts)
    budget.within(len(separator) * len(kept) + budget.weigh(kept), "a join")
    return kept


def render(template: str, data: Mapping[str, object], *, most_bytes: int = LARGEST) -> str:
    """*template* filled from *data*. Raises InvalidInput when a name is missing or it grows too long.

    The message names what the template asks for, never what the input holds.
    """
    budget.begin()
    try:
        return _joined(_compiled(template), data, most_bytes)
    except UndefinedError as error:
        hint = "the input lacks what the template asks for"
        raise InvalidInput(f"prompt: {_undefined(error, template)}", hint=hint) from None
    except TemplateSyntaxError as error:
        raise InvalidInput(f"prompt: line {error.lineno}: {_said(error)}") from None
    except TemplateError as error:
        raise InvalidInput(f"prompt: {_said(error)}") from None
    except (RecursionError, MemoryError):
        raise InvalidInput("prompt: the template asks for too much") from None
    except _OF_PYTHON as error:
        # The text of these may quote the input.
        message = f"prompt: the template cannot work with this input ({type(error).__name__})"
        raise InvalidInput(message) from None


def check(template: str) -> str | None:
    """What is wrong with *template* itself, or None. Renders nothing."""
    budget.begin()
    try:
        tree = _environment().parse(template)
        _environment().compile(tree)
    except TemplateSyntaxError as error:
        return f"template, line {error.lineno}: {_said(error)}"
    except TemplateError as error:
        return f"template: {_said(error)}"
    except (RecursionError, MemoryError):
        return "template: nested too deep"
    except _OF_PYTHON as error:
        return f"template: it cannot be compiled ({type(error).__name__})"
    refused = next((word for kind, word in _REFUSED_TAGS.items() if tree.find(kind)), None)
    return f"template: {{% {refused} %}} is not allowed" if refused else None


def _said(error: TemplateError) -> str:
    """What Jinja says of it, which may quote the template at any length."""
    return clean_text(error.message or type(error).__name__, _LONGEST_MESSAGE)


def _undefined(error: UndefinedError, template: str) -> str:
    """What is missing; a name that came out of the input, as in `{{ prices[currency] }}`, is not repeated."""
    message = _said(error)
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
    environment = _environment()
    tree = _Metered().visit(environment.parse(template))
    tree.set_environment(environment)
    return Template.from_code(environment, environment.compile(tree), environment.make_globals(None))


class _Metered(NodeTransformer):
    """A template in which every turn of a loop and whatever handles whole values is paid for.

    The names of the filters put in have a blank, so that no template can spell them.
    """

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  # jinja's naming
        return self._counted(node)

    visit_Macro = visit_CallBlock = visit_Block = visit_For  # noqa: N815  # jinja's naming

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802  # jinja's naming
        self.generic_visit(node)
        return _by("paid concat", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802  # jinja's naming
        self.generic_visit(node)
        node.expr = _paid_for(node.expr)
        for operand in node.ops:
            operand.expr = _paid_for(operand.expr)
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Node:  # noqa: N802  # jinja's naming
        self.generic_visit(node)
        node.node = _paid_for(node.node)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802  # jinja's naming
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _paid_for(node.node)
        else:
            node.arg = _paid_for(node.arg)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802  # jinja's naming
        self.generic_visit(node)
        node.key = _paid_for(node.key)
        return node

    def _counted(self, node: Any) -> nodes.Node:
        written = sum(len(one.data) for one in node.find_all(nodes.TemplateData))
        self.generic_visit(node)
        step = _by("paid step", nodes.Const(written, lineno=node.lineno))
        node.body.insert(0, nodes.ExprStmt(step, lineno=node.lineno))
        return node  # type: ignore[no-any-return]


def _by(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _paid_for(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _by("paid value", node)


# With the context handed in, none of the three is worked out while the template is compiled.


@pass_context
def _step(_: object, written: int) -> None:
    budget.spend(budget.STEP)
    budget.spend_text(written)


@pass_context
def _value(_: object, value: object) -> object:
    if isinstance(value, str | Mapping | list | tuple | range):
        budget.pay_for(value)
    return value


@pass_context
def _concat(_: object, parts: list[object]) -> str:
    budget.pay_for(parts)
    return "".join(map(str, parts))


@lru_cache(maxsize=1)
def _environment() -> _Environment:
    made = _Environment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_as_text
    )
    made.globals = {name: made.globals[name] for name in _KEPT_GLOBALS}
    for name in _REFUSED_FILTERS:
        del made.filters[name]
    made.filters |= _ours(dict(made.filters))
    costly = made.filters.keys() - set(_CHEAP_FILTERS)
    made.filters |= {name: _metered(made.filters[name]) for name in costly}
    made.filters |= {"paid step": _step, "paid value": _value, "paid concat": _concat}
    return made


def _metered(filter_: Callable[..., Any]) -> Callable[..., Any]:
    """*filter_*, paid for what goes in and what comes out; what it would make one by one it makes at once."""
    handed_in = int(hasattr(filter_, "jinja_pass_arg"))

    @wraps(filter_)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        budget.spend(budget.STEP)
        budget.pay_for(*args[handed_in:], *kwargs.values())
        result = filter_(*args, **kwargs)
        if isinstance(result, Iterator):
            result = list(islice(result, budget.LONGEST))
        budget.pay_for(result)
        return result

    return filtered


def _as_text(value: object) -> object:
    """What `{{ value }}` puts out."""
    if isinstance(value, str):
        budget.spend_text(len(value))
        return value
    if isinstance(value, int | float | Undefined) and not isinstance(value, bool):
        return value
    if value is None:
        return ""
    if isinstance(value, bool | dict | list | tuple):
        return _as_json(value)
    raise TypeError("neither text nor data")


def _as_json(value: object, indent: int | None = None) -> str:
    depth = 0 if indent is None else _bounded(indent, _WIDEST_INDENT, "tojson: indent")
    weight = budget.weigh(value)
    budget.within(weight * (1 + depth), "an indented JSON text")
    budget.spend_text(weight)
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_refuse)


# --- Filters whose result can be much longer than what goes in -----------------------------------------


def _ours(theirs: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """In place of Jinja's own, with a bound on what a number or text in their arguments makes of little."""

    def batch(value: Any, linecount: int, fill_with: Any = None) -> Any:
        return theirs["batch"](value, _bounded(linecount, _MOST_COLUMNS, "batch"), fill_with)

    def slices(value: Any, slices: int, fill_with: Any = None) -> Any:
        return theirs["slice"](list(value), _bounded(slices, _MOST_COLUMNS, "slice"), fill_with)

    def rounded(value: Any, precision: int = 0, method: Any = "common") -> Any:
        return theirs["round"](value, _bounded(precision, _MOST_DIGITS, "round"), method)

    def join(context: Any, value: Any, d: Any = "", attribute: Any = None) -> Any:
        return theirs["join"](context, _separated(str(d), value), d, attribute)

    def total(environment: Any, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
        _bounded(start, budget.LONGEST, "sum: start")  # with a list it would copy it for every element
        return theirs["sum"](environment, iterable, attribute, start)

    def wordwrap(environment: Any, s: str, width: int = 79, *args: Any, **kwargs: Any) -> Any:
        _bounded(len(s) * len(str([*args, *kwargs.values()])), 100 * _LONGEST_TO_WRAP, "wordwrap: text")
        return theirs["wordwrap"](environment, s, width, *args, **kwargs)

    def striptags(value: Any) -> Any:
        text = str(value)
        _bounded(text.count("<!--") * len(text), 1000 * budget.LONGEST, "striptags: comments")
        return theirs["striptags"](text)

    bounded: dict[str, Callable[..., Any]] = {
        "batch": batch,
        "slice": slices,
        "round": rounded,
        "striptags": striptags,
    }
    handed_in: dict[str, Callable[..., Any]] = {"join": join, "sum": total, "wordwrap": wordwrap}
    for name, function in handed_in.items():
        function.jinja_pass_arg = theirs[name].jinja_pass_arg  # type: ignore[attr-defined]
    return bounded | handed_in | {"tojson": _as_json, "replace": _replaced, "indent": _indented}


def _bounded(number: Any, most: int, what: str) -> Any:
    if not isinstance(number, int | float) or abs(number) > most:
        raise SecurityError(f"{what}: must be a number of at most {most}")
    return number


def _replaced(value: object, old: str, new: str) -> str:
    text = str(value)
    budget.within(len(text) + text.count(old) * len(new), "a replacement")
    return text.replace(old, new)


def _indented(value: object, width: int = 4, first: bool = False, blank: bool = False) -> str:
    text = str(value)
    budget.within(len(text) + text.count("\n") * _bounded(width, _WIDEST_INDENT, "indent"), "an indent")
    return str(do_indent(text, width, first, blank))


def _refuse(_: object) -> object:
    raise TypeError("no JSON")
