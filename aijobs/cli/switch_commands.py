"""`aijobs pause`, `resume`, `switch list`, `switch set`: the switches of an operator."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from aijobs.cli import previews
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Actor, Preview, Reason
from aijobs.cli.words import positive_duration
from aijobs.core.errors import UsageError
from aijobs.core.switches import ALL, Switch, SwitchKind, scope_name
from aijobs.services.switching import Switching

Types = Annotated[list[str] | None, typer.Argument(metavar="TYPE", help="Job types.")]
All = Annotated[bool, typer.Option("--all", help="Every type.")]
Below = Annotated[
    int | None, typer.Option("--below-priority", metavar="N", help="Only jobs of a lower priority than this.")
]
BelowAny = Annotated[bool, typer.Option("--below-priority", help="End the pause by priority.")]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="DURATION", help="Ends by itself after this: 30m, 2h. Else: open."),
]
_COLUMNS = ("SWITCH", "SCOPE", "VALUE", "UNTIL", "BY", "REASON")


@notes(
    "aijobs pause --below-priority 5 --for 2h --reason 'provider slow, users first'",
    "aijobs pause summarize --reason 'INC-1234'",
    "aijobs pause --all --reason 'INC-1234' --preview",
    exits={0: "paused", 3: "no such job type", 5: "the store cannot be reached"},
)
def pause(
    ctx: typer.Context, reason: Reason, types: Types = None, everything: All = False,
    below_priority: Below = None,
    lasting: For = None, preview: Preview = False, actor: Actor = None,
) -> None:  # fmt: skip
    """Start no more jobs: of some types, below a priority, or at all.

    What runs goes on to its end, and what a provider works on is still followed. Jobs wait where they are.
    """
    context = context_of(ctx)
    scopes = _scopes(types, everything=everything, below=below_priority is not None, verb="pause")
    span = positive_duration(lasting, "--for")
    switching = _switching(context)
    if preview:
        ends = previews.until(span, switching.store.clock.now(), ended_by="resumed")
        previews.pauses(context, switching, scopes, below=below_priority, lasting=ends)
        return
    made = switching.pause(
        scopes, below=below_priority, actor=context.actor(actor), reason=reason, lasting=span
    )
    _print(context, made)


@notes(
    "aijobs resume summarize --reason 'INC-1234 is over'",
    "aijobs resume --all --reason 'all clear'",
    exits={0: "resumed", 3: "it was not paused", 5: "the store cannot be reached"},
)
def resume(
    ctx: typer.Context, reason: Reason, types: Types = None, everything: All = False,
    below_priority: BelowAny = False,
    preview: Preview = False, actor: Actor = None,
) -> None:  # fmt: skip
    """End a pause. After --below-priority its number may follow, as it was given to `pause`."""
    context = context_of(ctx)
    if below_priority and types and len(types) == 1 and types[0].removeprefix("-").isdecimal():
        types = None
    scopes = _scopes(types, everything=everything, below=below_priority, verb="resume")
    switching = _switching(context)
    if preview:
        previews.resumptions(context, switching, scopes, below=below_priority)
        return
    ended = switching.resume(scopes, below=below_priority, actor=context.actor(actor), reason=reason)
    names = list(map(scope_name, ended))
    context.printer.emit({"resumed": names}, lambda: context.printer.line("resumed: " + ", ".join(names)))


@notes("aijobs switch list --json", exits={0: "listed", 5: "the store cannot be reached"})
def switch_list(ctx: typer.Context) -> None:
    """Show every switch that is on, by whom, why, and until when."""
    context = context_of(ctx)
    _print(context, _switching(context).in_force())


@notes(
    "aijobs switch set fallback summarize on --for 4h --reason 'openai outage, approved 2026-02'",
    "aijobs switch set stale-results digest off --reason 'back to normal'",
    exits={
        0: "done",
        3: "no such type, or it was not on",
        4: "the configuration does not allow it",
        5: "the store cannot be reached",
    },
)
def switch_set(
    ctx: typer.Context,
    kind: Annotated[
        Literal["stale-results", "fallback"], typer.Argument(metavar="stale-results|fallback", help="Which.")
    ],
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.")],
    state: Annotated[Literal["on", "off"], typer.Argument(metavar="on|off", help="On or off.")],
    reason: Reason,
    lasting: For = None,
    preview: Preview = False,
    actor: Actor = None,
) -> None:
    """Let the last results, or an approved other provider, stand in for a job type."""
    context = context_of(ctx)
    who, which, switching = context.actor(actor), SwitchKind(kind), _switching(context)
    span = positive_duration(lasting, "--for")
    if state == "off" and lasting is not None:
        raise UsageError("--for goes with on")
    if preview:
        previews.switched(context, switching, which, type_name, on=state == "on", lasting=span)
    elif state == "on":
        _print(context, [switching.turn_on(which, type_name, actor=who, reason=reason, lasting=span)])
    else:
        switching.turn_off(which, type_name, actor=who, reason=reason)
        _print(context, [])


def _switching(context: Context) -> Switching:
    return Switching(context.store, context.settings)


def _scopes(types: Sequence[str] | None, *, everything: bool, below: bool, verb: str) -> list[str]:
    """The scopes that were named; exactly one of the three ways to name them."""
    if sum((bool(types), everything, below)) != 1:
        raise UsageError(
            "say what: job types, --below-priority, or --all (one of them)",
            hint=f"aijobs {verb} summarize --reason '...'",
        )
    return [ALL] if everything else list(dict.fromkeys(types or []))


def _print(context: Context, found: Sequence[Switch]) -> None:
    document: dict[str, Any] = {
        "switches": [
            {
                "kind": s.kind.value, "scope": scope_name(s.scope), "value": s.value,
                "actor": s.actor, "reason": s.reason, "set_at": s.set_at, "expires_at": s.expires_at,
            }
            for s in found
        ]
    }  # fmt: skip
    rows = [(s.kind.value, scope_name(s.scope), s.value, s.expires_at, s.actor, s.reason) for s in found]
    context.printer.emit(
        document, lambda: context.printer.table(_COLUMNS, rows, empty="no switch is on: everything is normal")
    )
