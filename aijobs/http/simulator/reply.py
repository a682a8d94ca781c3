"""What goes back: one value that says everything, so that deciding and sending are apart."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from aijobs.core.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. *wire* is a fault of the sending; *billed* whether the model did the work for it."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    wire: Fault | None = None
    billed: bool = False
    response_id: str | None = None


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def as_json(value: object) -> bytes:
    """*value* as the bytes of a JSON body; a lone surrogate stays the escape it came as."""
    return _encode(value).encode("utf-8", "backslashreplace")


JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html; charset=utf-8"}
