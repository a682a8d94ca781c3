"""The schedules as people look at them: when they fall due, what became of them; and their pauses."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from aijobs.core.cron import Schedule
from aijobs.core.errors import StoreUnreachable
from aijobs.core.model import Event
from aijobs.core.reasons import checked_reason
from aijobs.core.settings import ScheduleSettings, Settings
from aijobs.core.ticking import OPEN_END, State
from aijobs.core.wallclock import LATEST, ClockChange
from aijobs.services.scheduler import rule_of
from aijobs.store import history, schedules
from aijobs.store.engine import Store
from aijobs.store.schedules import Pause, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One fire time: in UTC, on the clock of the schedule's zone, and the clock change of that day if any."""

    utc: datetime
    local: datetime
    change: ClockChange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One schedule as seen at *now*, with its next fire times. *record* is None before the first tick."""

    name: str
    now: datetime
    settings: ScheduleSettings
    next: list[Fire]
    previous: Fire | None
    record: Record | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """All schedules, by name. *unknown_because*: why what became of them was not found out."""

    entries: list[Entry]
    unknown_because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A schedule that fires nothing now, till *until* (None: till it is resumed), and whose doing that is."""

    name: str
    until: datetime | None
    by: Pause | None


class Timetable:
    """Looks up. *store* is asked for only by what needs it."""

    def __init__(self, settings: Settings, store: Callable[[], Store]) -> None:
        self.settings = settings
        self._store = store

    def entries(self, now: datetime, *, count: int) -> Listed:
        """Every schedule. Without a store what became of them is unknown, and the answer says so."""
        records: dict[str, Record] = {}
        why = None
        try:
            records = self._records()
        except StoreUnreachable as error:
            why = error.message
        entries = [
            self._entry(name, now, count=count, record=records.get(name))
            for name in sorted(self.settings.schedules)
        ]
        return Listed(entries=entries, unknown_because=why)

    def fires(self, name: str, after: datetime, *, count: int) -> list[Fire]:
        """The next *count* fire times of one schedule, later than *after*. NotFound if there is none."""
        schedule = rule_of(name, self.settings.schedule(name)).schedule
        return [_fire(schedule, at) for at in islice(schedule.fires(after, LATEST), count)]

    def paused(self, now: datetime) -> list[Paused]:
        """The schedules that a person has paused, by name."""
        with self._store().read() as tx:
            ends = {
                name: record.paused_until
                for name, record in sorted(schedules.records(tx).items())
                if name in self.settings.schedules and record.paused_until and record.paused_until > now
            }
            by = schedules.last_pauses(tx, ends) if ends else {}
        return [
            Paused(name=name, until=None if end == OPEN_END else end, by=by.get(name))
            for name, end in ends.items()
        ]

    def pause(self, name: str, *, actor: str, reason: str, lasting: timedelta | None) -> datetime:
        """Fire nothing for *lasting*, or until resumed; what falls due in it never fires. Returns its end."""
        now = self._store().clock.now()
        until = OPEN_END if lasting is None else now + lasting
        self._set_pause(name, until, now, kind="schedule_paused", actor=actor, reason=reason)
        return until

    def resume(self, name: str, *, actor: str, reason: str) -> None:
        """Fire again, from now on."""
        now = self._store().clock.now()
        self._set_pause(name, now, now, kind="schedule_resumed", actor=actor, reason=reason)

    def _set_pause(
        self, name: str, until: datetime, now: datetime, *, kind: str, actor: str, reason: str
    ) -> None:
        rule = rule_of(name, self.settings.schedule(name))
        detail: dict[str, object] = {"schedule": name, "until": until.isoformat()}
        first = State(fingerprint=rule.fingerprint, seen_at=now, paused_until=until)
        with self._store().write() as tx:
            if not schedules.begin(tx, name, first, now):
                schedules.pause(tx, name, until, now)
            event = Event(kind=kind, actor=actor, at=now, reason=checked_reason(reason), detail=detail)
            history.add_events(tx, [event])

    def _records(self) -> dict[str, Record]:
        with self._store().read() as tx:
            return schedules.records(tx)

    def _entry(self, name: str, now: datetime, *, count: int, record: Record | None) -> Entry:
        settings = self.settings.schedule(name)
        schedule = rule_of(name, settings).schedule
        previous = schedule.previous_fire(now)
        return Entry(
            name=name,
            now=now,
            settings=settings,
            next=self.fires(name, now, count=count),
            previous=_fire(schedule, previous) if previous else None,
            record=record,
        )


def _fire(schedule: Schedule, at: datetime) -> Fire:
    local = schedule.local(at)
    return Fire(utc=at, local=local, change=schedule.clock_change_on(local.date()))
