"""`aijobs provider list|show|reset|hold`: how the providers are, and what to do about it."""

import json
from datetime import datetime
from typing import Annotated, Any

import typer

from aijobs.cli import previews
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Actor, Preview, Reason
from aijobs.cli.words import positive_duration
from aijobs.core.breaker import NEVER, Breaker
from aijobs.services.concerned import Concern
from aijobs.services.provider_desk import ProviderDesk, Standing
from aijobs.store.provider_states import ProviderState

Name = Annotated[str, typer.Argument(metavar="PROVIDER", help="The provider's name in the configuration.")]
For = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="Ends by itself after this. Else: open.")
]
_COLUMNS = ("PROVIDER", "BREAKER", "SINCE", "CALLS", "MAY START", "UNTIL", "WHY")


@notes("aijobs provider list --json", exits={0: "listed", 5: "the store cannot be reached"})
def provider_list(ctx: typer.Context) -> None:
    """Show every provider: breaker, calls under way, and what holds calls back."""
    context = context_of(ctx)
    found = _desk(context).all()
    rows = [
        (s.state.name, s.state.breaker, _since(s), s.in_flight, _may_start(s), _until(s), _why(s))
        for s in found
    ]
    context.printer.emit(
        {"providers": [provider_shape(s) for s in found]}, lambda: context.printer.table(_COLUMNS, rows)
    )


@notes(
    "aijobs provider show openai",
    exits={0: "shown", 3: "no such provider", 5: "the store cannot be reached"},
)
def provider_show(ctx: typer.Context, name: Name) -> None:
    """Show one provider: breaker, slow start, pause, hold, rate, and what its last headers said."""
    context = context_of(ctx)
    _print(context, _desk(context).one(name))


@notes(
    "aijobs provider reset openai --reason 'the key was renewed'",
    exits={0: "reset", 3: "no such provider", 5: "the store cannot be reached"},
)
def provider_reset(
    ctx: typer.Context, name: Name, reason: Reason, preview: Preview = False, actor: Actor = None
) -> None:
    """Say that a provider is well again: its breaker closes, pauses and holds end."""
    context = context_of(ctx)
    if preview:
        kept = _why(_desk(context).one(name))
        _preview(
            context, name, f"be sent there again, although {kept}" if kept else "go there as they do now"
        )
        return
    _print(context, _desk(context).reset(name, actor=context.actor(actor), reason=reason))


@notes(
    "aijobs provider hold openai --for 1h --reason 'their status page says so'",
    "aijobs provider hold openai --reason 'their status page says so' --preview",
    exits={0: "held", 3: "no such provider", 5: "the store cannot be reached"},
)
def provider_hold(
    ctx: typer.Context, name: Name, reason: Reason, lasting: For = None, preview: Preview = False,
    actor: Actor = None,
) -> None:  # fmt: skip
    """Send nothing to a provider until it is reset, or for a time. Jobs wait and lose nothing."""
    context = context_of(ctx)
    span = positive_duration(lasting, "--for")
    if preview:
        ends = previews.until(span, context.store.clock.now(), ended_by="reset")
        _preview(context, name, f"wait {ends}; what runs goes on")
        return
    _print(context, _desk(context).hold(name, actor=context.actor(actor), reason=reason, lasting=span))


def provider_shape(standing: Standing) -> dict[str, Any]:
    """A provider as JSON."""
    state = standing.state
    return {
        "provider": state.name, "breaker": state.breaker, "breaker_since": state.breaker_since,
        "opened_until": state.opened_until, "opened_because": standing.opened_because,
        "slow_start": standing.step, "in_flight": standing.in_flight,
        "trials_out": standing.trials_out, "may_start": standing.gate.allowed, "why": _why(standing),
        "paused_until": None if state.held_at else state.paused_until,
        "pause_reason": None if state.held_at else state.pause_reason, "held_at": state.held_at,
        "hold_reason": state.hold_reason, "next_probe_at": _next_probe(state),
        "concurrency_cap": state.concurrency_cap, "cap_until": state.cap_until,
        "first_calls": standing.calls[0], "retries": standing.calls[1],
        "last_headers": json.loads(state.last_headers) if state.last_headers else None,
        "updated_at": state.updated_at,
    }  # fmt: skip


def _preview(context: Context, name: str, would: str) -> None:
    context.settings.provider(name)
    found = Concern(context.store, context.settings).of_provider(name)
    previews.show(context, [(name, found, would)], name="provider")


def _print(context: Context, standing: Standing) -> None:
    shape = provider_shape(standing)
    context.printer.emit(shape, lambda: context.printer.fields(shape.items()))


def _desk(context: Context) -> ProviderDesk:
    return ProviderDesk(context.store, context.settings)


def _may_start(standing: Standing) -> str:
    return "any" if standing.gate.allowed is None else str(standing.gate.allowed)


def _until(standing: Standing) -> object:
    return standing.gate.again_at


def _since(standing: Standing) -> datetime | None:
    """Of one that is well it would be since when it is well again."""
    well = standing.state.breaker == Breaker.CLOSED and standing.state.held_at is None
    return None if well else standing.since


def _next_probe(state: ProviderState) -> datetime | None:
    """Of one that a person holds there is none."""
    return state.paused_until if state.held_at and state.paused_until != NEVER else None


def _why(standing: Standing) -> str | None:
    if standing.gate.allowed is None:
        return None
    return standing.why
