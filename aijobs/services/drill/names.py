"""How a drill and all that it makes are called: by that it is told from what others have in the store."""

import re

from aijobs.core.clock import Chance

PREFIX = "drill-"
_DRILL = re.compile(r"(drill-[0-9a-f]{8})-[a-z0-9]+")


def new_name(chance: Chance) -> str:
    """The name of a new drill."""
    return f"{PREFIX}{chance.getrandbits(32):08x}"


def name_of(drill: str, what: str) -> str:
    """What a job type, user or process of *drill* is called."""
    return f"{drill}-{what}"


def drill_of(name: str) -> str | None:
    """The drill that a job type, user or process of this name is of, or None."""
    found = _DRILL.fullmatch(name)
    return found[1] if found else None
