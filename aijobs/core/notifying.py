"""Telling others that a job ended: what is said, and when a delivery is tried again. Pure."""

import ipaddress
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.core.clock import Chance
from aijobs.core.durations import format_instant

WAITS = tuple(
    timedelta(seconds=seconds) for seconds in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
"""The wait after the first, second, ... failed delivery; the last one repeats. These are the waits that the
Standard Webhooks specification suggests to senders; up to a tenth is added, lest many come at once."""

_JITTER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How one delivery went. *gone*: the receiver wants no more (410); *hint*: its word on when to retry."""

    delivered: bool
    error: str | None = None
    http_status: int | None = None
    gone: bool = False
    hint: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What becomes of a notification: `delivered`, `pending` until *next_run_at*, `failed` or `gone`."""

    state: str
    next_run_at: datetime | None = None


def next_step(
    told: Told,
    *,
    attempts: int,
    created_at: datetime,
    give_up_after: timedelta,
    now: datetime,
    chance: Chance,
) -> NextStep:
    """What a delivery that went as *told* leads to; *attempts* includes it."""
    if told.delivered:
        return NextStep(state="delivered")
    if told.gone:
        return NextStep(state="gone")
    wait = WAITS[min(attempts, len(WAITS)) - 1]
    wait = max(wait + wait * _JITTER * chance.random(), told.hint or timedelta(0))
    if now + wait > created_at + give_up_after:
        return NextStep(state="failed")
    return NextStep(state="pending", next_run_at=now + wait)


def message(
    *, event: str, job_id: str, type_name: str, user: str, key: str | None, round_number: int, attempts: int,
    error_class: str | None, error_code: str | None, finished_at: datetime | None,
) -> bytes:  # fmt: skip
    """The body of a notification: what ended and how, as references; no input, no result, no error text."""
    return json.dumps(
        {
            "type": f"job.{event}",
            "timestamp": _instant(finished_at),
            "data": {
                "job_id": job_id, "type": type_name, "user": user or None, "key": key, "status": event,
                "round": round_number, "attempts": attempts, "error_class": error_class,
                "error_code": error_code, "finished_at": _instant(finished_at),
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()  # fmt: skip


def alert_message(
    *, rule: str, severity: str, value: float | None, threshold: float, samples: int, evidence: str,
    since: datetime | None, now: datetime,
) -> bytes:  # fmt: skip
    """The body that tells of an alert: the rule and what was measured."""
    return json.dumps(
        {
            "type": "alert.firing",
            "timestamp": _instant(now),
            "data": {
                "rule": rule, "severity": severity, "value": value, "threshold": threshold,
                "samples": samples, "evidence": evidence, "since": _instant(since),
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()  # fmt: skip


def private_address(addresses: Iterable[str]) -> str | None:
    """The first of *addresses* that is not a public one, or None.

    A receiver's name is chosen in the configuration but resolved by somebody else's DNS: without this check a
    notification could be made to knock at a service inside the operator's own network.
    """
    for text in addresses:
        if any(
            not one.is_global or one.is_multicast
            for one in _reached(ipaddress.ip_address(text.partition("%")[0]))
        ):
            return text
    return None


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_WITH_IPV4_AT_ITS_END = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))  # NAT64; the oldest form


def _reached(address: _Address) -> Iterator[_Address]:
    """*address*, and the IPv4 address to which a translator or a tunnel would carry what is sent there."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    yield mapped or address
    if isinstance(address, ipaddress.IPv6Address):
        if address.sixtofour is not None:
            yield address.sixtofour
        if any(address in network for network in _WITH_IPV4_AT_ITS_END):
            yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)


def _instant(value: datetime | None) -> str | None:
    return None if value is None else format_instant(value)
