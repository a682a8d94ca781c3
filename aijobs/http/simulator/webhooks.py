"""Sends webhooks by the Standard Webhooks scheme, well or badly, over plain sockets."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from aijobs.core.clock import Clock
from aijobs.core.faults import Fault
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.http.simulator.ledger import Ledger
from aijobs.http.simulator.reply import as_json

TEST_SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
"""What webhooks are signed with when no secret was given; nothing that must be kept secret."""

_RETIRED = "whsec_" + b64encode(bytes(range(64, 96))).decode()
_RETRIES = (0.1, 0.5, 2.0, 5.0)
_PATIENCE = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """Where webhooks go, and the secret that signs them (`whsec_...`). Raises ValueError when it is none."""

    url: str
    secret: str = TEST_SECRET

    def __post_init__(self) -> None:
        decode_key(self.secret)
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname:
            raise ValueError("the webhook URL must begin with http:// or https:// and name a host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook as it will be sent. *age* is how old its timestamp claims to be."""

    id: str
    type: str
    body: bytes
    signers: tuple[str, ...]
    age: timedelta = timedelta(0)

    def headers(self, now: datetime) -> dict[str, str]:
        """The headers of an attempt at *now*; the timestamp is each attempt's own."""
        keys = [decode_key(secret) for secret in self.signers]
        signed = sign(self.id, self.body, keys=keys, now=now - self.age)
        if not keys:
            signed["webhook-signature"] = "v1 garbage, \xe9"
        return {"content-type": "application/json", "user-agent": "aijobs-simulator/1.0", **signed}


def plan(fault: Fault | None, first: Delivery, secret: str) -> list[Delivery]:
    """The deliveries that *fault* makes of the one that is due."""
    match fault.name if fault else "":
        case "webhook_never":
            return []
        case "webhook_duplicate":
            return [first, first]
        case "webhook_bad_sig":
            return [replace(first, signers=(_RETIRED,))]
        case "webhook_garbage_sig":
            return [replace(first, signers=())]
        case "webhook_two_sigs":
            return [replace(first, signers=(_RETIRED, secret))]
        case "webhook_old_ts":
            age = 600 if fault is None or fault.number is None else fault.number
            return [replace(first, age=timedelta(seconds=age))]
        case "webhook_out_of_order":
            return [first, _retyped(first, "response.failed", "_late")]
        case "webhook_unknown_type":
            return [_retyped(first, "response.pondered", "")]
        case _:
            return [first]


def _retyped(first: Delivery, kind: str, suffix: str) -> Delivery:
    body = first.body.replace(f'"{first.type}"'.encode(), f'"{kind}"'.encode(), 1)
    return replace(first, id=first.id + suffix, type=kind, body=body)


def event(event_id: str, kind: str, *, response_id: str, ended_at: datetime) -> bytes:
    """The body of a webhook: thin, as OpenAI sends it."""
    return as_json(
        {
            "object": "event",
            "id": f"evt_{event_id}",
            "type": kind,
            "created_at": int(ended_at.timestamp()),
            "data": {"id": response_id},
        }
    )


class Courier:
    """Delivers webhooks, again and again until somebody says 2xx (five times at most)."""

    def __init__(self, clock: Clock, ledger: Ledger, pause: Callable[[float], Awaitable[None]]) -> None:
        self._clock, self._ledger, self._pause = clock, ledger, pause

    async def deliver(self, url: str, delivery: Delivery, *, response_id: str) -> None:
        """Send *delivery* to *url* until it is taken; every attempt is in the ledger."""
        for wait in (0.0, *_RETRIES):
            if wait:
                await self._pause(wait)
            now = self._clock.now()
            status = await self._attempt(url, delivery, now)
            self._ledger.webhooks.append(
                {
                    "id": delivery.id,
                    "type": delivery.type,
                    "response_id": response_id,
                    "at": now.isoformat().replace("+00:00", "Z"),
                    "status": status,
                }
            )
            if status and 200 <= status < 300:
                return

    async def _attempt(self, url: str, delivery: Delivery, now: datetime) -> int | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await post(url, delivery.headers(now), delivery.body)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            return None


async def post(url: str, headers: dict[str, str], body: bytes) -> int:
    """POST and the status it got. Raises OSError, ValueError (no HTTP came back)."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target or '/'} HTTP/1.1", f"host: {parts.netloc}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    try:
        writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + body)
        status = (await reader.readline()).split()
        await reader.read()
        return int(status[1]) if len(status) > 1 else 0
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
