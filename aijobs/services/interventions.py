"""What people hold back or have switched on: pauses, switches, held providers, schedules that do not fire."""

from collections.abc import Iterator

from aijobs.core.diagnosis.steps import instant, until
from aijobs.core.settings import Settings
from aijobs.core.switches import ALL, BELOW_PRIORITY, Switch, SwitchKind, scope_name
from aijobs.services.timetable import Paused, Timetable
from aijobs.store import provider_holds, switches
from aijobs.store.engine import Store
from aijobs.store.provider_holds import Hold


def interventions(store: Store, settings: Settings) -> Iterator[tuple[str, str]]:
    """Each with its name, and who did it, since when, until when, why, and what ends it."""
    now = store.clock.now()
    with store.read() as tx:
        thrown = switches.in_force(tx, now)
        holds = provider_holds.by_people(tx, settings.providers, now)
    for switch in thrown:
        yield f"{switch.kind} {scope_name(switch.scope)}", _thrown(switch)
    for hold in holds:
        yield f"hold {hold.provider}", _held(hold)
    for one in Timetable(settings, lambda: store).paused(now):
        yield f"schedule {one.name}", _paused(one)


def _thrown(one: Switch) -> str:
    whom = f" for jobs below priority {one.value}" if one.scope == BELOW_PRIORITY else ""
    if one.kind is SwitchKind.PAUSE:
        what = {ALL: "--all", BELOW_PRIORITY: "--below-priority"}.get(one.scope, one.scope)
        end = f"`aijobs resume {what} --reason '...'`"
    else:
        end = f"`aijobs switch set {one.kind} {one.scope} off --reason '...'`"
    since = f"on{whom} since {instant(one.set_at)}{until(one.expires_at)}"
    return f"{since}, by {one.actor}: {one.reason}; {end} ends it"


def _held(one: Hold) -> str:
    who = f"by {one.actor}" if one.actor else "who did it is no longer on record"
    end = f"`aijobs provider reset {one.provider} --reason '...'`"
    return f"held since {instant(one.since)}{until(one.until)}, {who}: {one.reason}; {end} ends it"


def _paused(one: Paused) -> str:
    said = f"paused{until(one.until)}; who did it is no longer on record"
    if one.by is not None:
        said = f"paused since {instant(one.by.at)}{until(one.until)}, by {one.by.actor}: {one.by.reason}"
    return f"{said}; `aijobs schedule resume {one.name} --reason '...'` ends it"
