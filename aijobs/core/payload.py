"""JSON at the door and at the exit: what a job may be given, and how a result becomes text any store keeps.

One rule for both databases: JSON is kept as text, so only text that reads back as the same value is let in.
Whatever the outside world answers is made storable instead of refused, so that no state change fails over it.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from aijobs.core.errors import InvalidInput
from aijobs.core.strict_json import LONGEST_NUMBER, SURROGATE, load

MAX_BYTES = 10 * 1024 * 1024
"""Default limit of a payload and of a result, in bytes of UTF-8."""

MAX_DEPTH = 100
"""Default limit of nesting: other people's readers stop at 64, 128 or 512, Python's near 1000."""

_DEEPEST = 400  # no caller can ask for more: past it the interpreter's own recursion limit comes near
_T = TypeVar("_T")
_N = TypeVar("_N", bound=float | None)
_BOM = "\ufeff"
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_LONG_NAME = 60
_SYNTAX_HINT = "JSON wants double quotes round names and texts, no trailing comma, no leading zero"


# --- Reading ----------------------------------------------------------------------------------------


def parse_json(
    text: str | bytes, *, what: str | None, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> object:
    """The value of JSON *text*; *what* begins the message of an error ("--input", "the body").

    Without *what* the text is one line, whose number the caller says: a place is the column alone.

    Raises InvalidInput, naming line and column or the path inside, for: anything that is not UTF-8, not JSON,
    or followed by more; a size above *max_bytes*; nesting above *max_depth*; a name given twice; NaN and
    infinity; a number that would come back as another; half a surrogate pair. A byte order mark is accepted.
    """
    source = _decode(text, what, max_bytes)
    _check_depth(source, what, min(max_depth, _DEEPEST))
    try:
        value, faults = load(source)
    except json.JSONDecodeError as error:
        place = _place(error.doc[: error.pos], what)
        raise InvalidInput(f"{place}: not JSON: {_syntax(error)}", hint=_SYNTAX_HINT) from None
    for fault in faults:
        raise InvalidInput(_named(what, f"{path_text(fault.path)}: {fault.reason}"))
    return value


def parse_object(
    text: str | bytes, *, what: str | None, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> dict[str, object]:
    """As `parse_json`, and refuses everything but a JSON object: a job's input has named fields."""
    value = parse_json(text, what=what, max_bytes=max_bytes, max_depth=max_depth)
    if not isinstance(value, dict):
        raise InvalidInput(_named(what, f"must be a JSON object, such as {{}}, and is {kind_of(value)}"))
    return value


def kind_of(value: object) -> str:
    """What JSON calls *value*, with an article: "an array"."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "an object"
        case _:
            return "an array"


def _decode(text: str | bytes, what: str | None, max_bytes: int) -> str:
    if len(text) > max_bytes:
        raise _too_large(what, max_bytes)
    if isinstance(text, bytes):
        try:
            source = text.decode("utf-8")
        except UnicodeDecodeError as error:
            place = _place(text[: error.start].decode("utf-8"), what)
            raise InvalidInput(f"{place}: not UTF-8 text", hint="save the file as UTF-8") from None
    else:
        source = text
        if half := SURROGATE.search(text):
            raise InvalidInput(f"{_place(text[: half.start()], what)}: not UTF-8 text")
        if len(text.encode()) > max_bytes:
            raise _too_large(what, max_bytes)
    source = source.removeprefix(_BOM)
    if not source.strip():
        raise InvalidInput(_named(what, "is empty; JSON is expected"), hint="an empty object is written {}")
    return source


def _too_large(what: str | None, max_bytes: int) -> InvalidInput:
    return InvalidInput(
        _named(what, f"larger than {max_bytes} bytes"),
        hint="keep the data elsewhere and put a reference to it in the input",
    )


def _named(what: str | None, fault: str) -> str:
    return fault if what is None else f"{what}: {fault}"


def _place(before: str, what: str | None) -> str:
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")  # rfind gives -1 on the first line, which is what counts from 1
    return f"column {column}" if what is None else f"{what}: line {line} column {column}"


def _check_depth(source: str, what: str | None, max_depth: int) -> None:
    if source.count("[") + source.count("{") <= max_depth:
        return
    depth = 0
    for token in _STRUCTURE.finditer(source):
        first = source[token.start()]
        if first in "[{":
            depth += 1
            if depth > max_depth:
                place = _place(source[: token.start()], what)
                raise InvalidInput(f"{place}: nested deeper than {max_depth} levels")
        elif first != '"':
            depth -= 1


def _syntax(error: json.JSONDecodeError) -> str:
    message = "something follows the value" if error.msg == "Extra data" else error.msg
    message = message.removesuffix(" at").removesuffix(" starting")  # the place is told before it
    return message[0].lower() + message[1:]


def path_text(path: Iterable[str | int]) -> str:
    """*path* as people write it: `t[3].x`, `t["odd name"]`; long names are shortened, none is "top level"."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif key.isidentifier() and len(key) < _LONG_NAME:
            text += f".{key}" if text else key
        else:
            text += f"[{json.dumps(clean_text(key, _LONG_NAME), ensure_ascii=False)}]"
    return clean_text(text, 10 * _LONG_NAME) or "top level"


# --- Writing ----------------------------------------------------------------------------------------


def dump_json(value: object) -> str:
    """*value* as compact JSON text that both databases keep as it is (NUL stays the escape `\\u0000`).

    Raises InvalidInput for what JSON cannot say: other types, NaN, a value that contains itself or is too
    deep, half a surrogate pair. For answers from outside use `clean_json`, which always finds a text.
    """
    try:
        text = _dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"not a JSON value: {_unserialisable(error)}") from None
    if SURROGATE.search(text):
        raise InvalidInput("not a JSON value: half a surrogate pair, which is not a character")
    return text


def _encoder(*, sort_keys: bool) -> Callable[[object], str]:
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys
    )
    return encoder.encode


_dumps = _encoder(sort_keys=False)  # made once: json.dumps makes an encoder for each call
_sorted_dumps = _encoder(sort_keys=True)


def _unserialisable(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    return "a type that JSON does not have" if isinstance(error, TypeError) else "NaN, infinity, or a loop"


def input_hash(value: object) -> str:
    """SHA-256 (hex) of *value*, compact and with sorted names: the order of names does not matter."""
    return hashlib.sha256(_sorted_dumps(value).encode()).hexdigest()


def clean_json(value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> str:
    """JSON text of a *value* from outside that can always be stored and printed.

    Half surrogate pairs become U+FFFD, NaN and infinity null. What is above *max_bytes* (at least 1024) or
    *max_depth* is cut and says so: `{"aijobs_truncated": {limits}, "partial": ...}`. Raises InvalidInput only
    for types JSON lacks.
    """
    cleaner = _Cleaner(room=max_bytes, max_depth=max_depth)
    cleaned = cleaner.clean(value, 0)
    if not cleaner.cut:
        return _dumps(cleaned)
    limits = {"max_bytes": max_bytes, "max_depth": max_depth}
    cleaner = _Cleaner(room=max_bytes - _MARK_BYTES, max_depth=max_depth)
    return _dumps({"aijobs_truncated": limits, "partial": cleaner.clean(value, 0)})


def clean_parsed(value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> str:
    """As `clean_json`, several times as fast, for a *value* that was parsed from JSON.

    Such a value shares nothing with itself and has texts for names, so it may simply be tried.
    """
    try:
        text = dump_json(value)
    except InvalidInput:
        return clean_json(value, max_bytes=max_bytes, max_depth=max_depth)
    in_order = 4 * len(text) <= max_bytes and text.count("[") + text.count("{") <= max_depth
    return text if in_order else clean_json(value, max_bytes=max_bytes, max_depth=max_depth)


_MARK_BYTES = 256  # of the wrapper, and of the brackets that close a value cut in its depths


class _Cleaner:
    """Copies a value within a budget of bytes, so that shared or looping values cannot blow it up."""

    def __init__(self, *, room: int, max_depth: int) -> None:
        self.room = room
        self.max_depth = min(max_depth, _DEEPEST)
        self.cut = False

    def clean(self, value: object, depth: int) -> object:
        match value:
            case str():
                return self._text(value)
            case None | bool():
                return self._take(6, value)
            case int():
                return self._integer(value)
            case float():
                return self._number(value if math.isfinite(value) else None)
            case Mapping() | list() | tuple() if depth >= self.max_depth:
                self.cut = True
                return self._text("[nested deeper than this]")
            case Mapping():
                return self._object(value, depth)
            case list() | tuple():
                return self._array(value, depth)
            case _:
                raise InvalidInput(f"not a JSON value: a {type(value).__name__}")

    def _integer(self, value: int) -> int | None:
        if value.bit_length() <= 3 * LONGEST_NUMBER:  # Python refuses to print more than 4300 digits
            return self._number(value)
        self.cut = True
        return self._number(None)

    def _number(self, value: _N) -> _N | None:
        size = len(str(value)) + 1
        if size > self.room:
            self.cut = True
            return self._take(5, None)
        return self._take(size, value)

    def _text(self, value: str) -> str:
        value = SURROGATE.sub("\ufffd", str(value))
        size = len(json.dumps(value, ensure_ascii=False).encode()) + 1
        if size > self.room:
            self.cut = True
            value = value[: max(0, self.room // 6 - 1)] + "…"  # the longest escape of a character has 6 bytes
            size = self.room
        return self._take(size, value)

    def _object(self, value: Mapping[object, object], depth: int) -> dict[str, object]:
        self._take(3, None)
        cleaned: dict[str, object] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidInput("not a JSON value: an object whose name is not a text")
            if self._full():
                break
            name = self._text(key)
            cleaned[name] = self.clean(item, depth + 1)
        return cleaned

    def _array(self, value: list[object] | tuple[object, ...], depth: int) -> list[object]:
        self._take(3, None)
        cleaned: list[object] = []
        for item in value:
            if self._full():
                break
            cleaned.append(self.clean(item, depth + 1))
        return cleaned

    def _take(self, size: int, value: _T) -> _T:
        self.room -= size
        self.cut = self.cut or self.room < 0
        return value

    def _full(self) -> bool:
        if self.room > 0:
            return False
        self.cut = True
        return True


# --- Plain text -------------------------------------------------------------------------------------

_SPACING = re.compile("[\t\n\r\v\f\x1c-\x1f\x85\u2028\u2029]+")
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
CUT = " …[cut]"
"""What ends a text that was longer than its limit."""


def clean_text(text: str, limit: int) -> str:
    """*text* on one line, at most *limit* bytes of UTF-8, safe for a terminal, a log and any database.

    Line breaks and tabs become a space; other control, zero-width and direction-changing characters, NUL and
    half surrogate pairs become U+FFFD; what is cut off is marked.
    """
    cut = len(text) > limit
    text = _INVISIBLE.sub("\ufffd", _SPACING.sub(" ", text[:limit])).strip()
    data = text.encode()
    if not cut and len(data) <= limit:
        return text
    mark = CUT if limit > 2 * len(CUT.encode()) else ""
    return data[: limit - len(mark.encode())].decode("utf-8", "ignore").rstrip() + mark


# --- Schema -----------------------------------------------------------------------------------------

_MOST_FAULTS = 20


def check_schema(value: object, schema: Mapping[str, object]) -> list[str]:
    """What of *value* breaks the JSON Schema *schema*, as "path: rule"; empty if nothing does.

    The lines name paths and the schema's own rules, never the value: they end up in logs and plans.
    References are only followed inside the schema; nothing is fetched. At most 20 faults are listed.
    """
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind: Any = validator_for(schema, default=Draft202012Validator)
    registry: Registry[Any] = Registry()  # the default one would fetch references over the network
    try:
        errors = islice(kind(schema, registry=registry).iter_errors(value), _MOST_FAULTS)
        return list(dict.fromkeys(f"{path_text(error.absolute_path)}: {_rule(error)}" for error in errors))
    except Unresolvable:
        return ["top level: the schema refers to something that is not in it"]
    except RecursionError:
        return ["top level: the schema and the value are nested too deep to compare"]


def schema_fault(schema: object) -> str | None:
    """Why *schema* is not a JSON Schema, or None if it is one."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    if not isinstance(schema, dict):
        return f"a schema is an object, and this is {kind_of(schema)}"
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return f"{path_text(error.absolute_path)}: {clean_text(error.message, 200)}"
    return None


def _rule(error: Any) -> str:
    keyword, rule, value = error.validator, error.validator_value, error.instance
    if keyword == "required":
        return f"lacks {', '.join(str(name) for name in rule if name not in value)}"
    if keyword == "type":
        wanted = rule if isinstance(rule, str) else " or ".join(map(str, rule))
        return f"must be of type {wanted}, and is {kind_of(value)}"
    if isinstance(rule, dict):
        return f"breaks the rule {keyword!r}"
    return f"breaks the rule {keyword}: {clean_text(json.dumps(rule, ensure_ascii=False, default=str), 120)}"
