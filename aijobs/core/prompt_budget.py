"""What one rendering of a prompt may cost: a number of units that every step of it is paid from.

A template is short and what it asks for need not be: two nested loops, a text added to itself forty times, a
list that holds itself a thousand times over. Nothing here looks at a clock, so a template that is too much
is too much on every machine, and a slow one refuses none that is not.
"""

import threading
from collections.abc import Mapping

from aijobs.core.errors import InvalidInput

LONGEST = 10_000_000
"""Characters of any text on the way to a prompt; an eighth of it in elements of any list."""

WORK = 500_000_000
"""Units of one rendering: some seconds of a slow machine."""

STEP = 500
"""Units of a turn of a loop, a call, a filter; a rendering has a million of them."""

_WRITTEN = 10  # units of a character put out: what macros and blocks hold back stays below 50 MB
_ELEMENT = 30  # units to look at one value
_CHARACTERS = 8  # of a text that are copied or compared for one unit
_SCALAR = 8
_MOST_BITS = 20_000


class _Meter(threading.local):
    """What is left to the rendering of this thread."""

    left = WORK


_meter = _Meter()


def begin() -> None:
    """A new rendering starts, with everything to spend."""
    _meter.left = WORK


def spend(units: int) -> None:
    """Take *units* off. Raises InvalidInput when there are none left."""
    _meter.left -= units
    if _meter.left < 0:
        raise InvalidInput("prompt: the template asks for too much", hint="fewer or shorter loops")


def spend_text(length: int) -> None:
    """Take off what a text of *length* characters costs that is put out."""
    spend(_WRITTEN * length)


def within(length: int, what: str) -> None:
    """Raises InvalidInput when *what* would become longer than anything may be."""
    if length > LONGEST:
        raise InvalidInput(f"prompt: {what} makes more than {LONGEST} characters")


def weigh(value: object) -> int:
    """The size of *value* with all that is in it, as often as it is in it. Raises InvalidInput above LONGEST.

    A list that holds one long list a thousand times is small in memory, and not as text.
    """
    return _measure(value)[0]


def pay_for(*values: object) -> None:
    """Take off what it costs to go through *values* once. Raises InvalidInput as `weigh` and `spend` do."""
    for value in values:
        size, elements = _measure(value)
        spend(_ELEMENT * elements + size // _CHARACTERS)


def _measure(value: object) -> tuple[int, int]:
    size, elements, left = 0, 0, [value]
    while left:
        one = left.pop()
        elements += 1
        if isinstance(one, str):
            size += len(one) + 2
        elif isinstance(one, Mapping):
            size += 2 + 2 * len(one)
            left += one.keys()
            left += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            size += 2 + len(one)
            left += one
        elif isinstance(one, range):
            elements += len(one)
            size += _SCALAR * len(one)
        else:
            size += _SCALAR
            if isinstance(one, int) and one.bit_length() > _MOST_BITS:
                raise InvalidInput("prompt: a number becomes too large")
        if size > LONGEST or elements > LONGEST // _CHARACTERS:
            raise InvalidInput("prompt: a value becomes too large")
    return size, elements
