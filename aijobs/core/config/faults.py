"""What pydantic finds wrong, as faults with a place in the file and words for whoever wrote it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from aijobs.core.config.document import Document, Path
from aijobs.core.config.scalars import EnvironmentText, misread, resolve
from aijobs.core.durations import LONGEST, format_duration
from aijobs.core.model import ErrorClass
from aijobs.core.settings import Settings, closest

_SIMPLE = {
    "missing": "required, and not there",
    "int_type": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "float_type": "a number is needed",
    "float_parsing": "a number is needed",
    "bool_type": "true or false is needed",
    "string_type": "text is needed",
    "dict_type": "a mapping (key: value) is needed",
    "model_type": "a mapping (key: value) is needed",
    "model_attributes_type": "a mapping (key: value) is needed",
    "tuple_type": "a list is needed",
    "list_type": "a list is needed",
    "date_type": "a day is needed, like 2026-01-31",
    "date_from_datetime_parsing": "a day is needed, like 2026-01-31",
    "finite_number": "a finite number is needed",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "must be at least {}"),
    "greater_than": ("gt", "must be more than {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "less_than": ("lt", "must be less than {}"),
    "string_too_long": ("max_length", "must have at most {} characters"),
    "too_long": ("max_length", "must have at most {} entries"),
    "too_short": ("min_length", "must have at least {} entry"),
    "string_too_short": ("min_length", "must not be empty"),
}
_NUMBERS = frozenset({"int_type", "float_type", "bool_type"})


def report(error: ValidationError, document: Document) -> None:
    """Add every fault of *error* to *document*, except where that place has one already."""
    for one in error.errors(include_url=False, include_input=False):
        location = one["loc"]
        key_is_meant = bool(location) and location[-1] == "[key]"
        path = in_file(location[:-1] if key_is_meant else location, document.data)
        if any(path[: len(broken)] == broken for broken in document.broken):
            continue
        message, hint = _say(one, path, document)
        spot = document.keys.get(path) if key_is_meant or one["type"] == "extra_forbidden" else None
        document.fault(path, message, spot=spot, hint=hint)


def take_numbers(error: ValidationError, data: dict[str, Any]) -> bool:
    """Where a number or boolean is needed and the environment's text spells one, put it in its place."""
    taken = False
    for one in error.errors(include_url=False, include_input=False):
        path = in_file(one["loc"], data)
        text = at(path, data)
        if one["type"] in _NUMBERS and isinstance(text, EnvironmentText):
            value = resolve(str(text))
            if value is not None and not isinstance(value, str):
                holder: Any = at(path[:-1], data)
                holder[path[-1]] = value
                taken = True
    return taken


def in_file(location: tuple[str | int, ...], data: object) -> Path:
    """*location* in pydantic's data as a path in the file, where one value may stand for a list of one."""
    path: list[str | int] = []
    for part in location:
        if isinstance(part, int):
            if not isinstance(data, list):
                continue
            data = data[part] if part < len(data) else None
        else:
            data = data.get(part) if isinstance(data, Mapping) else None
        path.append(part)
    return tuple(path)


def at(path: Path, data: object) -> object:
    """The value at *path*, or None."""
    for part in path:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def _say(error: Any, path: Path, document: Document) -> tuple[str, str | None]:
    kind, details = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(path)
    if kind == "value_error":
        message = _without_what_was_handed_in(str(details["error"]), at(path, document.data))
        return message, _misreading(path, document) if "is not a duration" in message else None
    if kind in ("literal_error", "enum"):
        return _choice(str(details["expected"]), at(path, document.data), path, document)
    if kind in _BOUNDS:
        return _out_of_bounds(kind, details, path), None
    message = _SIMPLE.get(kind, error["msg"])
    if kind == "missing":
        return message, None
    given = at(path, document.data)
    if given is None:
        return f"{message}, and there is nothing", None
    if isinstance(given, float) and kind in _NUMBERS:
        return message + _instead(given), f"write {int(given)}" if given.is_integer() else None
    return message + _instead(given), _misreading(path, document, text=kind == "string_type")


def _without_what_was_handed_in(message: str, value: object) -> str:
    """*message* without text from the environment: in the wrong place it may be a secret."""
    if not isinstance(value, EnvironmentText):
        return message
    return message.replace(repr(str(value).strip()), "what the environment gives")


def _unknown(path: Path) -> tuple[str, str | None]:
    key = str(path[-1])
    known = _keys_at(path[:-1])
    if path[:-1] == ("retry",) and key in set(ErrorClass):
        return f"{key} is never retried: trying again cannot help", None
    near = closest(key, dict.fromkeys(known))
    return f"unknown key {key!r}", f"did you mean {near!r}?" if near else f"known here: {', '.join(known)}"


def _choice(expected: str, given: object, path: Path, document: Document) -> tuple[str, str | None]:
    words = [word.strip(" '") for word in expected.replace(" or ", ",").split(",")]
    near = closest(given, dict.fromkeys(words)) if isinstance(given, str) else None
    hint = f"did you mean {near!r}?" if near else _misreading(path, document, text=True)
    return f"must be one of: {', '.join(words)}", hint


def _instead(value: object) -> str:
    match value:
        case bool():
            return f", not {'true' if value else 'false'}"
        case int() | float():
            return f", not the number {value}"
        case str():
            return ", not text"
        case list():
            return ", not a list"
        case dict():
            return ", not a mapping"
        case _:
            return ""


def _misreading(path: Path, document: Document, *, text: bool = False) -> str | None:
    """What the spelling of the value at *path* explains; with *text*, text was expected there."""
    value, source = at(path, document.data), document.sources.get(path)
    if source is None or isinstance(value, EnvironmentText):
        return None
    spot = document.values[path]
    if isinstance(value, str):
        if spot.spelled is not None:
            return misread(source)
        return "remove the quotes" if not isinstance(resolve(source), str | None) else None
    return f'quote it if text is meant: "{source}"' if text and spot.spelled is not None else None


def _plain(bound: object) -> str:
    return format_duration(bound) if isinstance(bound, timedelta) else str(bound)


def _out_of_bounds(kind: str, details: Any, path: Path) -> str:
    """With both ends of the range, so that one look is enough."""
    bound, words = _BOUNDS[kind]
    limits = dict(_limits_at(path))
    message = words.format(_plain(limits.get(bound, details[bound])))
    low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
    if low is None or high in (None, LONGEST):
        return message
    return f"{message} (from {_plain(low)} to {_plain(high)})"


# --- The model behind a path ----------------------------------------------------------------------


def _keys_at(path: Path) -> list[str]:
    models = [kind for kind in _unwrapped(_annotation_at(path)) if _is_model(kind)]
    return [field.alias or name for model in models for name, field in model.model_fields.items()]


def _limits_at(path: Path) -> Iterator[tuple[str, object]]:
    field = _field_at(path)
    if field is None:
        return
    inner = (one for kind in get_args(field.annotation) for one in getattr(kind, "__metadata__", ()))
    for constraint in (*(one for info in inner for one in getattr(info, "metadata", ())), *field.metadata):
        for name in ("ge", "gt", "le", "lt"):
            bound = getattr(constraint, name, None)
            if bound is not None:
                yield name, bound


def _field_at(path: Path) -> Any:
    if not path:
        return None
    for kind in _unwrapped(_annotation_at(path[:-1])):
        if _is_model(kind):
            for name, field in kind.model_fields.items():
                if path[-1] in (name, field.alias):
                    return field
    return None


def _annotation_at(path: Path) -> Any:
    if not path:
        return Settings
    field = _field_at(path)
    if field is not None:
        return field.annotation
    for kind in _unwrapped(_annotation_at(path[:-1])):
        if get_origin(kind) is dict:
            return get_args(kind)[1]
        if get_origin(kind) is tuple:
            return get_args(kind)[0]
    return None


def _unwrapped(annotation: Any) -> Iterator[Any]:
    """The plain types in an annotation: out of Annotated, unions and lists of one kind."""
    if get_origin(annotation) in (Union, UnionType):
        for inner in get_args(annotation):
            yield from _unwrapped(inner)
    elif hasattr(annotation, "__metadata__"):
        yield from _unwrapped(annotation.__origin__)
    elif get_origin(annotation) is tuple:
        yield annotation
        yield from _unwrapped(get_args(annotation)[0])
    else:
        yield annotation


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
