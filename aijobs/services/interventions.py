"""What people hold back or have switched on: the pauses, the switches, the schedules that fire nothing."""

from collections.abc import Iterator

from aijobs.core.diagnosis.steps import instant, until
from aijobs.core.settings import Settings
from aijobs.core.switches import ALL, BELOW_PRIORITY, Switch, SwitchKind, scope_name
from aijobs.services.timetable import Paused, Timetable
from aijobs.store import switches
from aijobs.store.engine import Store


def interventions(store: Store, settings: Settings) -> Iterator[tuple[str, str]]:
    """Each with its name, and who did it, since when, until when, why, and what ends it."""
    now = store.clock.now()
    with store.read() as tx:
        thrown = switches.in_force(tx, now)
    for switch in thrown:
        yield f"{switch.kind} {scope_name(switch.scope)}", _thrown(switch)
    for one in Timetable(settings, lambda: store).paused(now):
        yield f"schedule {one.name}", _paused(one)


def _thrown(one: Switch) -> str:
    value = "" if one.value == "on" else f" {one.value}"
    if one.kind is SwitchKind.PAUSE:
        what = {ALL: "--all", BELOW_PRIORITY: "--below-priority"}.get(one.scope, one.scope)
        end = f"`aijobs resume {what} --reason '...'`"
    else:
        end = f"`aijobs switch set {one.kind} {one.scope} off --reason '...'`"
    since = f"on{value} since {instant(one.set_at)}{until(one.expires_at)}"
    return f"{since}, by {one.actor}: {one.reason}; {end} ends it"


def _paused(one: Paused) -> str:
    said = f"paused{until(one.until)}; who did it is no longer on record"
    if one.by is not None:
        said = f"paused since {instant(one.by.at)}{until(one.until)}, by {one.by.actor}: {one.by.reason}"
    return f"{said}; `aijobs schedule resume {one.name} --reason '...'` ends it"
