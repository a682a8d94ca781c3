"""`POST /webhooks/{provider}`: answered in milliseconds, never 2xx before the delivery is written down."""

from starlette.requests import Request
from starlette.responses import Response

from aijobs.core.errors import NotFound, StoreError
from aijobs.core.log_events import LogEvent
from aijobs.core.signature import Refusal
from aijobs.http.serve.answers import Refused, document
from aijobs.http.serve.door import read_body
from aijobs.http.serve.serving import Serving
from aijobs.services.refusals import NO_SECRET
from aijobs.services.webhooks import LONGEST_BODY, Intake, WebhookRefusedError


async def webhook(request: Request, serving: Serving) -> Response:
    """Take a delivery. What is refused, is refused with the same body whatever is wrong with it."""
    provider = request.path_params["provider"]
    if not serving.webhooks.accepts(provider):
        serving.refused.note(provider, NO_SECRET)
        raise Refused(404, "not_found", "no webhooks are taken here")
    body = await _body(request, provider, serving)
    intake = await _take(provider, request, body, serving)
    event = LogEvent.DELIVERY_CONTRADICTS if intake.contradicts else LogEvent.DELIVERY_TAKEN
    serving.log.emit(
        event, provider=provider, event_type=intake.event_type, delivery_id=intake.delivery_id,
        job=intake.job_id, outcome=intake.outcome,
    )  # fmt: skip
    return document({"outcome": intake.outcome})


async def _body(request: Request, provider: str, serving: Serving) -> bytes:
    try:
        return await read_body(request, limit=LONGEST_BODY, seconds=serving.bounds.body)
    except Refused as refused:
        _note(provider, Refusal.MALFORMED, refused.detail, serving)
        raise


async def _take(provider: str, request: Request, body: bytes, serving: Serving) -> Intake:
    try:
        return await serving.inbox.add(serving.webhooks.read(provider, request.headers.raw, body))
    except WebhookRefusedError as refused:
        _note(provider, refused.refusal, refused.reason, serving)
        if refused.refusal is Refusal.MALFORMED:
            raise Refused(400, "malformed", "this is no webhook delivery") from None
        raise Refused(401, "unauthorized", "the delivery could not be verified") from None
    except StoreError as error:
        serving.log.emit(LogEvent.DELIVERY_NOT_SAVED, provider=provider, error=type(error).__name__)
        raise
    except NotFound:
        raise Refused(404, "not_found", "no webhooks are taken here") from None


def _note(provider: str, refusal: Refusal, reason: str, serving: Serving) -> None:
    serving.log.emit(LogEvent.DELIVERY_REFUSED, provider=provider, reason=reason)
    serving.refused.note(provider, refusal)
