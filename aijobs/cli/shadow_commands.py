"""`aijobs shadow report`: a candidate provider or model beside the one in use."""

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aijobs.cli import words
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Since

if TYPE_CHECKING:
    from aijobs.services.shadowing import Candidate, Side

_WINDOW = timedelta(days=7)
_COLUMNS = ("", "CALLS", "SUCCESS", "P50 S", "P95 S", "TOKENS IN", "TOKENS OUT", "COST", "LENGTH")


@notes(
    "aijobs shadow report summarize",
    "aijobs shadow report summarize --since 2d --json",
    exits={0: "reported", 3: "no such job type", 5: "the store cannot be reached"},
)
def shadow_report(
    ctx: typer.Context,
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.")],
    since: Since = None,
) -> None:
    """Compare a candidate with what is in use, by the jobs that went to both.

    A type with `shadow:` sends a share of its jobs that succeeded to the candidate as well; that answer is
    compared and dropped. Success, seconds, tokens, cost and length are of the same jobs; agreement is of the
    fields of JSON results (`shadow.fields`, else all). The last 7 days unless --since.
    """
    from aijobs.services.shadowing import Shadowing

    context = context_of(ctx)
    now = context.store.clock.now()
    begin = words.past(since, "--since", now=now) or now - _WINDOW
    found = Shadowing(context.store, context.settings).report(type_name, begin)
    document = {"type": type_name, "since": begin, "candidates": [_shape(one) for one in found]}
    context.printer.emit(document, lambda: _print(context, type_name, found))


def _shape(one: "Candidate") -> dict[str, Any]:
    shares = {
        "success_rate": one.succeeded / one.jobs,
        "field_agreement": one.agreed_fields / one.compared_fields if one.compared_fields else None,
        "job_agreement": one.agreeing_jobs / one.comparable_jobs if one.comparable_jobs else None,
    }
    return asdict(one) | shares


def _print(context: Context, type_name: str, found: "list[Candidate]") -> None:
    printer = context.printer
    if not found:
        printer.say(f"nothing of type {type_name} has been compared: it needs shadow: in the configuration")
    for one in found:
        shape = _shape(one)
        printer.section(f"{one.provider} {one.model or ''}".strip(), f"{one.jobs} jobs")
        printer.table(
            _COLUMNS,
            [_row("in use", one.real, 1.0), _row("candidate", one.shadow, shape["success_rate"])],
        )
        errors = ", ".join(f"{name} {count}" for name, count in one.errors.items()) or "none"
        printer.fields(
            [
                ("agreement of fields", _share(shape["field_agreement"], one.compared_fields)),
                ("jobs that agree", _share(shape["job_agreement"], one.comparable_jobs)),
                ("errors", errors),
            ]
        )


def _row(name: str, side: "Side", success: float) -> tuple[object, ...]:
    seconds = (_number(side.seconds_p50, 2), _number(side.seconds_p95, 2))
    tokens = (_number(side.input_tokens, 0), _number(side.output_tokens, 0))
    cost, length = _number(side.cost, 6), _number(side.length, 0)
    return (name, side.calls, f"{success:.1%}", *seconds, *tokens, cost, length)


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def _share(value: float | None, of: int) -> str:
    return "nothing to compare" if value is None else f"{value:.1%} of {of}"
