"""How many tokens an answer may take, and how many the next try is given after one that was cut off. Pure."""

import math
from collections.abc import Mapping

NAMES = ("max_output_tokens", "max_completion_tokens", "max_tokens")
"""What the providers call the limit; a request names one of them."""


def grown(request: Mapping[str, object], times: int, *, factor: float, most: int) -> dict[str, object]:
    """*request* with *factor* to the power of *times* more room, at most *most* tokens; never with less.

    A request that names no limit stays as it is: there is nothing to grow.
    """
    return {
        name: _more(value, times, factor, most) if name in NAMES and type(value) is int else value
        for name, value in request.items()
    }


def has_room(request: Mapping[str, object], times: int, *, factor: float, most: int) -> bool:
    """Whether one more time gives a larger limit than *times* did."""
    now = grown(request, times, factor=factor, most=most)
    return grown(request, times + 1, factor=factor, most=most) != now


def _more(limit: int, times: int, factor: float, most: int) -> int:
    return max(limit, min(most, math.ceil(limit * factor**times)))
