"""Which jobs also go to a candidate, and how alike two answers are. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_WHOLE = 2**64
_OF_A_MODEL = frozenset({"text", "finish_reason"})
"""What is in every answer of a model, beside what differs from call to call (its id, its model)."""


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
    """Both are results, JSON texts; *shadow* None: no answer. Fields are compared between JSON objects.

    Of a model's answer its text counts, and the JSON in it; of any other result all of it. Without *fields*
    every field that either of them has is compared.
    """
    text, one = _answer(real)
    if shadow is None:
        return Alike(length=None, real_length=len(text))
    other_text, other = _answer(shadow)
    lengths = {"length": len(other_text), "real_length": len(text)}
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return Alike(**lengths)
    names = fields or sorted(one.keys() | other.keys())
    agreed = sum(name in one and name in other and _same(one[name], other[name]) for name in names)
    return Alike(**lengths, compared=len(names), agreed=agreed)


def _answer(result: str) -> tuple[str, object]:
    """The text of an answer, and its value: what the text says as JSON, if it is that."""
    value = json.loads(result)
    if isinstance(value, Mapping) and (value.keys() >= _OF_A_MODEL or value.keys() == {"text"}):
        text = str(value["text"])
        return text, value["json"] if "json" in value else _parsed(text)
    if isinstance(value, str):
        return value, _parsed(value)
    return result, value


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
