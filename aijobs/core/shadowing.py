"""Which jobs also go to a candidate, and how alike two answers are. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_WHOLE = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """How two answers compare; lengths in characters. *agreed* of *compared* fields hold the same value."""

    length: int | None
    real_length: int
    compared: int = 0
    agreed: int = 0


def sampled(job_id: str, share: float) -> bool:
    """Whether a job is among the *share*: by its id alone, so a restart changes nothing."""
    drawn = int.from_bytes(hashlib.sha256(f"shadow:{job_id}".encode()).digest()[:8], "big")
    return drawn < share * _WHOLE


def compare(real: str, shadow: str | None, fields: Sequence[str]) -> Alike:
    """Both are JSON texts; *shadow* None: there is no answer. Fields are compared where both are objects.

    Without *fields* every field that either of them has is compared. A text that holds JSON counts as it.
    """
    one, other = _value(real), None if shadow is None else _value(shadow)
    length = None if shadow is None else len(_text(shadow))
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return Alike(length=length, real_length=len(_text(real)))
    names = fields or sorted(one.keys() | other.keys())
    agreed = sum(name in one and name in other and _same(one[name], other[name]) for name in names)
    return Alike(length=length, real_length=len(_text(real)), compared=len(names), agreed=agreed)


def _text(result: str) -> str:
    value = json.loads(result)
    return value if isinstance(value, str) else result


def _value(result: str) -> object:
    value = json.loads(result)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
