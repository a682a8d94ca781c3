"""What a shell is offered for a value: names out of the configuration, read only when a shell asks.

Which values are names of what is told by how the help calls them: a `TYPE` is always a configured type.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from aijobs.core.errors import AijobsError


def _drills(context: Any) -> Iterable[str]:  # noqa: ARG001  # as the others are called
    from aijobs.services.drill import NAMES

    return (*NAMES, "all")


_OFFERS: Mapping[str, Callable[[Any], Iterable[str]]] = MappingProxyType(
    {
        "TYPE": lambda context: context.settings.types,
        "PROVIDER": lambda context: context.settings.providers,
        "SCHEDULE": lambda context: context.settings.schedules,
        "DRILL": _drills,
    }
)


def offer_names(params: Iterable[Any]) -> None:
    """Let a shell complete those of *params* (typer's objects) that are names of something configured."""
    for param in params:
        offer = _OFFERS.get(param.metavar)
        if offer is not None:
            vars(param)["_custom_shell_complete"] = functools.partial(_named, offer)


def _named(offer: Callable[[Any], Iterable[str]], ctx: Any, param: Any, incomplete: str) -> list[str]:  # noqa: ARG001  # as typer calls it
    """The names that begin so; none where the configuration has faults: a shell is no place to tell them."""
    try:
        return [name for name in offer(ctx.obj) if name.startswith(incomplete)]
    except AijobsError:
        return []
