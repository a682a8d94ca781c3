"""`aijobs webhook ingest`: take one webhook delivery that another web server has received."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.inputs import opened
from aijobs.core.errors import UsageError

if TYPE_CHECKING:
    from aijobs.services.webhooks import Intake


@notes(
    "aijobs webhook ingest openai --header \"webhook-id: $ID\" --header \"webhook-timestamp: $TS\" "
    "--header \"webhook-signature: $SIG\" < body",
    exits={
        0: "it is written down (accepted, duplicate, unmatched or ignored): answer 200",
        1: "refused: a bad signature, too old, or malformed: answer 400",
        3: "no such provider, or no webhook_secret of it is configured: answer 404",
        5: "it could not be written down: answer 503, so that it is sent again",
    },
)  # fmt: skip
def webhook_ingest(
    ctx: typer.Context,
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="Whose delivery it is.")],
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="'NAME: VALUE'", help="A header as received; once for each."),
    ] = None,
) -> None:
    """Take a webhook delivery that another web server received: the body, byte for byte, on standard input.

    The three headers webhook-id, webhook-timestamp and webhook-signature are needed; others are passed over.
    A copy of a delivery is recognised by its id and does nothing. With --json: {provider, delivery_id,
    event_type, job_id, outcome}.
    """
    from aijobs.services.refusals import CAUSES
    from aijobs.services.webhooks import LONGEST_BODY, WebhookRefusedError, Webhooks

    context = context_of(ctx)
    context.settings.provider(provider)
    pairs = [_pair(text) for text in headers or ()]
    webhooks = Webhooks(context.coordinator, context.settings)
    with opened("-", context.printer) as stream:
        body = stream.read(LONGEST_BODY + 1)
    try:
        _print(context, webhooks.intake(provider, pairs, body))
    except WebhookRefusedError as error:
        error.hint = CAUSES[error.refusal].ingest
        raise


def _pair(text: str) -> tuple[bytes, bytes]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError("--header: write it as 'name: value'", hint="--header 'webhook-id: wh_1'")
    return name.strip().encode("utf-8", "surrogateescape"), value.strip().encode("utf-8", "surrogateescape")


def _print(context: Context, intake: "Intake") -> None:
    printer = context.printer
    document = asdict(intake)
    contradicts = document.pop("contradicts")
    printer.emit(document, lambda: printer.fields(document.items()))
    if contradicts:
        printer.warn(f"delivery {intake.delivery_id} came before with another body: the first stands")
