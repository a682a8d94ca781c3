"""Nothing that writes a person's reason down takes one that says nothing, whoever calls it."""

import threading
from collections.abc import Callable

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.errors import UsageError
from aijobs.core.switches import ALL, SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.replay import Runner
from aijobs.services.switching import Switching
from aijobs.services.timetable import Timetable
from aijobs.store.engine import Store
from tests.support.jobs import settings_of

SETTINGS = settings_of(
    types={"t": {"provider": "p", "stale_results": {"allowed": True, "max_age": "1d"}}},
    schedules={"s": {"type": "t", "every": "1h"}},
)


def _switching(store: Store) -> Switching:
    return Switching(store, SETTINGS)


def _timetable(store: Store) -> Timetable:
    return Timetable(SETTINGS, lambda: store)


def _runner(store: Store) -> Runner:
    coordinator = Coordinator(store, SETTINGS, chance=seeded_chance(1))
    return Runner(store, coordinator, owner="w", actor="ana")


CHANGES: dict[str, Callable[[Store, str], object]] = {
    "pause": lambda store, why: _switching(store).pause(
        [ALL], below=None, actor="ana", reason=why, lasting=None
    ),
    "resume": lambda store, why: _switching(store).resume([ALL], below=False, actor="ana", reason=why),
    "switch on": lambda store, why: _switching(store).turn_on(
        SwitchKind.STALE_RESULTS, "t", actor="ana", reason=why, lasting=None
    ),
    "switch off": lambda store, why: _switching(store).turn_off(
        SwitchKind.STALE_RESULTS, "t", actor="ana", reason=why
    ),
    "hold": lambda store, why: ProviderDesk(store, SETTINGS).hold("p", actor="ana", reason=why, lasting=None),
    "reset": lambda store, why: ProviderDesk(store, SETTINGS).reset("p", actor="ana", reason=why),
    "pause a schedule": lambda store, why: _timetable(store).pause(
        "s", actor="ana", reason=why, lasting=None
    ),
    "replay": lambda store, why: _runner(store).run("a plan", hear=print, stop=threading.Event(), reason=why),
    "abort a replay": lambda store, why: _runner(store).abort("a plan", reason=why),
    "resume a schedule": lambda store, why: _timetable(store).resume("s", actor="ana", reason=why),
}


def test_a_reason_that_says_nothing_is_refused_and_changes_nothing(store: Store) -> None:
    CHANGES["pause"](store, "an outage")
    CHANGES["switch on"](store, "an outage")
    before = _switching(store).in_force()

    for change in CHANGES.values():
        with pytest.raises(UsageError, match="a reason is needed"):
            change(store, " \t")

    assert _switching(store).in_force() == before
    assert _timetable(store).paused(store.clock.now()) == []
