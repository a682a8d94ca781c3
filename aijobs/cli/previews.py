"""What a pause, a switch or a hold would concern, a row for each thing that was named; nothing is done."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from aijobs.cli.context import Context
from aijobs.cli.plain import cell
from aijobs.core.switches import BELOW_PRIORITY, Switch, SwitchKind, scope_name
from aijobs.services.concerned import Concern, Concerned
from aijobs.services.switching import Switching, find

Row = tuple[str, Concerned, str]


def until(lasting: timedelta | None, now: datetime, *, ended_by: str) -> str:
    """How long something would last that ends by itself after *lasting*, or by a command."""
    return f"until {ended_by}" if lasting is None else f"until {cell(now + lasting)}"


def pauses(
    context: Context, switching: Switching, scopes: Sequence[str], *, below: int | None, lasting: str
) -> None:
    """What `pause` would do. Raises NotFound for a type that is not configured."""
    switching.check_scopes(scopes)
    concern = Concern(context.store, context.settings)
    would = f"wait {lasting}; what runs goes on"
    rows = [(scope, concern.of_type(scope), would) for scope in scopes]
    if below is not None:
        rows.append((BELOW_PRIORITY, concern.below(below), would))
    show(context, rows)


def resumptions(context: Context, switching: Switching, scopes: Sequence[str], *, below: bool) -> None:
    """What `resume` would do. Raises NotFound when one of them is not paused."""
    concern, thrown = Concern(context.store, context.settings), switching.in_force()
    rows: list[Row] = []
    ending = [
        find(thrown, SwitchKind.PAUSE, scope) for scope in (*scopes, *([BELOW_PRIORITY] if below else ()))
    ]
    rest = [one for one in thrown if one.kind is SwitchKind.PAUSE and one not in ending]
    for one in ending:
        by_priority = one.scope == BELOW_PRIORITY
        found = concern.below(int(one.value)) if by_priority else concern.of_type(one.scope)
        rows.append((one.scope, found, _after(rest)))
    show(context, rows)


def _after(rest: Sequence[Switch]) -> str:
    if not rest:
        return "start again"
    return "start again where no other pause is on: " + ", ".join(scope_name(one.scope) for one in rest)


def switched(
    context: Context, switching: Switching, kind: SwitchKind, type_name: str, *, on: bool,
    lasting: timedelta | None,
) -> None:  # fmt: skip
    """What `switch set` would do. Raises NotFound and Conflict as that does."""
    if on:
        switching.check_allowed(kind, type_name)
    else:
        find(switching.in_force(), kind, type_name)
    ends = until(lasting, switching.store.clock.now(), ended_by="switched off") if on else "from now on"
    if kind is SwitchKind.FALLBACK:
        would = f"go to {context.settings.type(type_name).route(fallback=on)[0]} {ends}"
    else:
        would = f"be answered for by the last result {ends}" if on else "have no older result stand in"
    show(context, [(type_name, Concern(context.store, context.settings).of_type(type_name), would)])


def show(context: Context, rows: Iterable[Row], *, name: str = "scope") -> None:
    """Print a preview; *name* is what the first column holds."""
    shapes: list[dict[str, Any]] = [
        {name: scope_name(scope), "waiting": found.waiting, "running": found.running, "would": would}
        for scope, found, would in rows
    ]
    columns = (name.upper(), "WAITING", "RUNNING", "WOULD")
    context.printer.emit(
        {"preview": shapes}, lambda: context.printer.table(columns, [list(one.values()) for one in shapes])
    )
