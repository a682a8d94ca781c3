"""Standard Webhooks 1.0 (the scheme OpenAI uses too): verify what comes in, sign what goes out. Pure.

The signed bytes are `{webhook-id}.{webhook-timestamp}.{body}` exactly as received; the MAC is HMAC-SHA256 in
base64, listed in `webhook-signature` as `v1,<mac>` tokens separated by spaces, several while a secret is
rotated.

Source: the Standard Webhooks specification, sections "Signature scheme" and "Verifying signatures". Unlike in
the reference libraries, whatever is malformed is a refusal with a reason, never an exception: a receiver
that answers 500 to a hostile header is asked again for days.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

TOLERANCE = timedelta(minutes=5)
"""How far a delivery's timestamp may be from now, in either direction."""

_MOST_TOKENS = 64
_TIMESTAMP = re.compile(rb"[0-9]{1,12}")
_ID = re.compile(rb"[\x21-\x2d\x2f-\x7e]{1,256}")  # printable ASCII without white space and without "."
_FIELDS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class Refusal(StrEnum):
    """Why a delivery is not believed."""

    MALFORMED = "malformed"  # headers missing, doubled, or not in the form of the standard
    BAD_SIGNATURE = "bad_signature"  # no listed signature is one of ours
    STALE = "stale"  # rightly signed, but too old or from the future: a replay, or a clock that is off


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A delivery that is what it says it is."""

    delivery_id: str
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A delivery that is not to be believed; *reason* is for our log only, never for the sender."""

    kind: Refusal
    reason: str


Headers = Mapping[str, str] | Iterable[tuple[bytes, bytes]]


def verify(
    headers: Headers, body: bytes, *, keys: Sequence[bytes], now: datetime, tolerance: timedelta = TOLERANCE
) -> Verified | Refused:
    """Whether *body* with *headers* was signed with one of *keys* within *tolerance* of *now*.

    The MAC is checked before the timestamp's age, so that `stale` always means a right signature and points
    at a clock. The work is bounded by the size of the body and a fixed number of signatures.
    """
    found = _fields(headers)
    if isinstance(found, Refused):
        return found
    delivery_id, timestamp, signatures = found
    if not _ID.fullmatch(delivery_id):
        return _malformed("webhook-id is empty, too long, or has forbidden characters")
    if not _TIMESTAMP.fullmatch(timestamp):
        return _malformed("webhook-timestamp is not a number of whole seconds")
    offered = _offered(signatures)
    if not offered:
        return Refused(kind=Refusal.BAD_SIGNATURE, reason="webhook-signature lists no v1 signature")
    content = b".".join((delivery_id, timestamp, body))
    if not _matches(content, offered, keys):
        return Refused(kind=Refusal.BAD_SIGNATURE, reason="no listed signature matches a configured secret")
    return _fresh(delivery_id.decode(), int(timestamp), now, tolerance)


def sign(delivery_id: str, body: bytes, *, keys: Sequence[bytes], now: datetime) -> dict[str, str]:
    """The three headers for *body*, signed with each of *keys*."""
    timestamp = str(int(now.timestamp()))
    content = b".".join((delivery_id.encode(), timestamp.encode(), body))
    tokens = (base64.b64encode(_mac(key, content)).decode() for key in keys)
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{token}" for token in tokens),
    }


def _fields(headers: Headers) -> tuple[bytes, bytes, bytes] | Refused:
    """The three header fields; each must be there exactly once, so that nobody chooses which one counts."""
    pairs = _encoded(headers.items()) if isinstance(headers, Mapping) else headers
    values: dict[str, list[bytes]] = {field: [] for field in _FIELDS}
    for name, value in pairs:
        field = name.decode("latin-1").lower()
        if field in values:
            values[field].append(value.strip())
    for field, given in values.items():
        if len(given) != 1:
            much = "missing" if not given else "given more than once"
            return _malformed(f"{field} is {much}")
    return values[_FIELDS[0]][0], values[_FIELDS[1]][0], values[_FIELDS[2]][0]


def _encoded(items: Iterable[tuple[str, str]]) -> Iterable[tuple[bytes, bytes]]:
    return ((name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in items)


def _malformed(reason: str) -> Refused:
    return Refused(kind=Refusal.MALFORMED, reason=reason)


def _offered(signatures: bytes) -> list[bytes]:
    """The MACs of the `v1` tokens that decode; other versions and garbage between them are passed over."""
    offered: list[bytes] = []
    for token in signatures.split(b" ", _MOST_TOKENS)[:_MOST_TOKENS]:
        version, comma, text = token.partition(b",")
        if version != b"v1" or not comma:
            continue
        try:
            offered.append(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            continue
    return offered


def _matches(content: bytes, offered: Sequence[bytes], keys: Sequence[bytes]) -> bool:
    matched = False
    for key in keys:
        expected = _mac(key, content)
        for mac in offered:
            matched |= hmac.compare_digest(expected, mac)
    return matched


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, hashlib.sha256).digest()


def _fresh(delivery_id: str, timestamp: int, now: datetime, tolerance: timedelta) -> Verified | Refused:
    age = now.timestamp() - timestamp
    if abs(age) > tolerance.total_seconds():
        side = "old" if age > 0 else "far in the future"
        return Refused(
            kind=Refusal.STALE,
            reason=f"rightly signed, but {abs(age):.0f} s {side}: are both machines' clocks right?",
        )
    return Verified(delivery_id=delivery_id, sent_at=datetime.fromtimestamp(timestamp, UTC))
