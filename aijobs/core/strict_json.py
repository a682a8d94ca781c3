"""A reader of JSON that finds what Python's own lets pass: repeats, NaN, changed numbers, half characters.

The reading itself stays Python's (in C); whatever must be refused becomes a marker in the tree, and only when
there is one (or a suspicious escape) is the tree walked to tell its path.
"""

import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

LONGEST_NUMBER = 1000
"""In characters. Python converts up to 4300 digits, in quadratic time; nobody means such a number."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 pair: no UTF-8 can be written of it."""

_ODD_INTEGER = re.compile(r"\d{16}|-0")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_NONZERO = re.compile(r"-?[0.]*[1-9]")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something to refuse, and the names and positions that lead to it from the top."""

    path: tuple[str | int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class _Bad:
    """Stands in the tree for what must be refused; *pairs* are the members of an object with a name twice."""

    reason: str
    name: str | None = None
    pairs: tuple[tuple[str, object], ...] = ()


def load(source: str) -> tuple[object, Iterator[Fault]]:
    """The value of *source* and its faults in the order of the text; with a fault, the value is of no use.

    Raises json.JSONDecodeError. The caller has bounded size and depth.
    """
    reader = _mine.reader
    reader.intact = True
    # Calling back for every ordinary integer would double the time.
    decoder = reader.careful if _ODD_INTEGER.search(source) else reader.quick
    value = decoder.decode(source)
    halves = bool(_SURROGATE_ESCAPE.search(source))
    faults = iter(()) if reader.intact and not halves else _walk(value, (), halves=halves)
    return value, faults


class _Reader:
    """The callbacks of a reading; *intact* turns False when one had to put a `_Bad` into the tree."""

    def __init__(self) -> None:
        self.intact = True
        self.quick = self._decoder(None)
        self.careful = self._decoder(self.integer)

    def _decoder(self, parse_int: Callable[[str], object] | None) -> json.JSONDecoder:
        return json.JSONDecoder(
            object_pairs_hook=self.members,
            parse_float=self.fraction,
            parse_constant=self.constant,
            parse_int=parse_int,
        )

    def bad(self, reason: str, name: str | None = None, pairs: tuple[tuple[str, object], ...] = ()) -> _Bad:
        self.intact = False
        return _Bad(reason, name, pairs)

    def constant(self, literal: str) -> object:
        return self.bad(f"{literal} is not a JSON number")

    def members(self, pairs: list[tuple[str, object]]) -> object:
        value = dict(pairs)
        return (
            value
            if len(value) == len(pairs)
            else self.bad("the name is given twice", _twice(pairs), tuple(pairs))
        )

    def integer(self, literal: str) -> object:
        if len(literal) > LONGEST_NUMBER:
            return self.bad(f"a number of more than {LONGEST_NUMBER} digits")
        return -0.0 if literal == "-0" else int(literal)

    def fraction(self, literal: str) -> object:
        if len(literal) > LONGEST_NUMBER:
            return self.bad(f"a number of more than {LONGEST_NUMBER} digits")
        value = float(literal)
        return (
            value if _survives(literal, value) else self.bad("a number that would come back as another one")
        )


class _Mine(threading.local):
    """One reader a thread: to make one takes as long as to read a short text."""

    def __init__(self) -> None:
        self.reader = _Reader()


_mine = _Mine()


def _twice(pairs: list[tuple[str, object]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("only called when a name is given twice")


def _survives(literal: str, value: float) -> bool:
    """Whether *value*, in its shortest or its 17-digit spelling, is the very number that was written."""
    if value == 0.0 or math.isinf(value):
        return value == 0.0 and not _NONZERO.match(literal)
    return Decimal(literal) in (Decimal(repr(value)), Decimal(f"{value:.17g}"))


def _walk(value: object, path: tuple[str | int, ...], *, halves: bool) -> Iterator[Fault]:
    match value:
        case _Bad(reason=reason, name=None):
            yield Fault(path, reason)
        case _Bad(reason=reason, name=str(name), pairs=pairs):
            # What stands before it in the text is named first.
            yield from _members(pairs, path, halves=halves)
            yield Fault((*path, name), reason)
        case str() if halves and SURROGATE.search(value):
            yield Fault(path, "half a surrogate pair, which is not a character")
        case dict():
            yield from _members(tuple(value.items()), path, halves=halves)
        case list():
            for index, item in enumerate(value):
                yield from _walk(item, (*path, index), halves=halves)


def _members(
    pairs: tuple[tuple[str, object], ...], path: tuple[str | int, ...], *, halves: bool
) -> Iterator[Fault]:
    for name, item in pairs:
        if halves and SURROGATE.search(name):
            yield Fault((*path, name), "a name with half a surrogate pair, which is not a character")
        yield from _walk(item, (*path, name), halves=halves)
