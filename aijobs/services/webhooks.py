"""Webhook intake: the one way in, behind `serve` and `webhook ingest`.

Verify the raw bytes, write the delivery down with its follow-up, answer. The work itself (asking the provider
what became of the job) is done by workers.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from aijobs.core.errors import AijobsError, NotFound, SchemaMismatch, StoreLocked, StoreUnreachable
from aijobs.core.settings import Kind, ProviderSettings, Settings
from aijobs.core.signature import Headers, Refusal, Refused, Verified, verify
from aijobs.core.signing_key import decode_key
from aijobs.services.coordinator import Coordinator, Received
from aijobs.store.deliveries import Delivery

LONGEST_BODY = 1 << 20
"""Bytes of a delivery we read; a thin event is a few hundred."""

_FINAL_EVENTS = frozenset(
    {"response.completed", "response.failed", "response.incomplete", "response.cancelled"}
)
_UNNAMED = "(none)"
_LONGEST_NAME = 200
_LATEST_SECOND = 253_402_300_800  # the year 10000


class WebhookRefusedError(AijobsError):
    """A delivery that is not to be believed. *reason* is for the log; the sender is told only the kind."""

    def __init__(self, refusal: Refusal, reason: str) -> None:
        super().__init__(f"the delivery was refused: {reason}")
        self.refusal = refusal
        self.reason = reason
        self.kind = refusal.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What is said, and logged, of an accepted delivery: names and outcome, nothing of its content."""

    provider: str
    delivery_id: str
    event_type: str
    job_id: str | None
    outcome: str
    contradicts: bool = False


def _speaks_openai(provider: ProviderSettings) -> bool:
    """Whether its event types are OpenAI's; of others any event with an id is a reason to look."""
    if provider.webhook_kind is not None:
        return provider.webhook_kind == "openai"
    return provider.kind in (Kind.OPENAI_RESPONSES, Kind.OPENAI_CHAT, Kind.SIMULATOR)


class Webhooks:
    """The intake of one configuration."""

    def __init__(self, coordinator: Coordinator, settings: Settings) -> None:
        self.coordinator = coordinator
        self._only_final = {name for name, one in settings.providers.items() if _speaks_openai(one)}
        self._tolerances = {name: one.webhook_tolerance for name, one in settings.providers.items()}
        self._keys = {
            name: tuple(decode_key(secret.get_secret_value()) for secret in provider.webhook_secret)
            for name, provider in settings.providers.items()
            if provider.webhook_secret
        }

    def accepts(self, provider: str) -> bool:
        """Whether deliveries of *provider* are taken: only with a secret configured."""
        return provider in self._keys

    def intake(self, provider: str, headers: Headers | Iterable[tuple[bytes, bytes]], body: bytes) -> Intake:
        """Take one delivery.

        Raises NotFound (no such provider, or no secret of it is configured), WebhookRefusedError (whatever
        is wrong with the delivery), and StoreError when it could not be written down: only then should the
        sender try again.
        """
        (answer,) = self.record([self.read(provider, headers, body)])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read(self, provider: str, headers: Headers | Iterable[tuple[bytes, bytes]], body: bytes) -> Delivery:
        """What is to be written down of a delivery, which is verified. Asks no store.

        Raises NotFound and WebhookRefusedError, as `intake` does.
        """
        verified = self._verified(provider, headers, body)
        event_type, provider_job_id, happened_at = _event(body)
        heeded = provider not in self._only_final or event_type in _FINAL_EVENTS
        concerns_a_job = heeded and provider_job_id is not None
        now = self.coordinator.clock.now()
        return Delivery(
            provider=provider,
            delivery_id=verified.delivery_id,
            event_type=event_type,
            provider_job_id=provider_job_id if concerns_a_job else None,
            job_id=None,
            body_hash=hashlib.sha256(body).hexdigest(),
            outcome="unmatched" if concerns_a_job else "ignored",
            sent_at=min(verified.sent_at, happened_at or verified.sent_at),
            received_at=now,
            handled_at=None if concerns_a_job else now,
        )

    def record(self, found: Sequence[Delivery]) -> list[Intake | Exception]:
        """Write deliveries down in one transaction; one answer each, in order, or why there is none.

        If that fails, each half of them is tried by itself: what is wrong with one is its own answer and
        harms no other. A store that is away is away for all.
        """
        try:
            received = self.coordinator.receive_many(found)
        except (StoreUnreachable, StoreLocked, SchemaMismatch) as away:
            return [away] * len(found)
        except Exception as fault:  # it belongs to whoever sent this delivery
            half = len(found) // 2
            return [*self.record(found[:half]), *self.record(found[half:])] if half else [fault]
        return [_intake(one, answer) for one, answer in zip(found, received, strict=True)]

    def _verified(self, provider: str, headers: Headers, body: bytes) -> Verified:
        keys = self._keys.get(provider)
        if keys is None:
            raise NotFound(
                f"no webhooks are taken for {provider!r}",
                hint="set webhook_secret of the provider in the configuration",
            )
        if len(body) > LONGEST_BODY:
            raise WebhookRefusedError(Refusal.MALFORMED, f"a body of more than {LONGEST_BODY} bytes")
        now, tolerance = self.coordinator.clock.now(), self._tolerances[provider]
        answer = verify(headers, body, keys=keys, now=now, tolerance=tolerance)
        if isinstance(answer, Refused):
            raise WebhookRefusedError(answer.kind, answer.reason)
        return answer


def _intake(delivery: Delivery, received: Received) -> Intake:
    return Intake(
        provider=delivery.provider,
        delivery_id=delivery.delivery_id,
        event_type=delivery.event_type,
        job_id=received.job_id,
        outcome=received.reception.value,
        contradicts=received.contradicts,
    )


def _event(body: bytes) -> tuple[str, str | None, datetime | None]:
    """Type, provider's id and time of the event in a rightly signed body; one that is no object is refused.

    A delivery that is repeated is signed anew: only the event's own time tells how late it comes.
    """
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        raise WebhookRefusedError(Refusal.MALFORMED, "rightly signed, but not JSON") from None
    if not isinstance(event, dict):
        raise WebhookRefusedError(Refusal.MALFORMED, "rightly signed, but not a JSON object")
    data = event.get("data")
    provider_job_id = data.get("id") if isinstance(data, dict) else None
    return _text(event.get("type")) or _UNNAMED, _text(provider_job_id), _instant(event.get("created_at"))


def _instant(value: object) -> datetime | None:
    """Seconds since 1970 as a time; whatever else stands there tells nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LATEST_SECOND:
        return None
    return datetime.fromtimestamp(value, UTC)


def _text(value: object) -> str | None:
    """*value* if it is short printable text, as types and ids are; None otherwise."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable():
        return value
    return None
