"""The tick: what fell due becomes jobs, once, whoever ticks, however often, on however many machines.

First it looks, in one transaction that only reads; mostly nothing is due, and then nothing that fires has
been imported. What is due is decided again schedule by schedule, each in a transaction of its own that holds
the schedule's row: the job and the settled window are stored together, or neither is. A job's key is the
window's instant in UTC, so that even a schedule whose state was lost gives no window a second job.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING
from unicodedata import normalize

from aijobs.core.cron import Schedule
from aijobs.core.durations import format_duration
from aijobs.core.errors import AijobsError, Conflict, StoreError, UsageError
from aijobs.core.ticking import SOON_BACK, Decision, Rule, State, decide_tick
from aijobs.services.tick_report import TickReport
from aijobs.store import schedules
from aijobs.store.engine import Store, Tx

if TYPE_CHECKING:
    from aijobs.core.model import NewJob
    from aijobs.core.settings import ScheduleSettings, Settings
    from aijobs.services.coordinator import Coordinator


_GONE = (
    "it is no longer in the file, and does not fire; back within "
    f"{format_duration(SOON_BACK)} it goes on where it stood"
)


class Scheduler:
    """Ticks. *coordinator* is asked for only when something fires."""

    def __init__(
        self, store: Store, settings: "Settings", *, coordinator: "Callable[[], Coordinator]"
    ) -> None:
        self.store = store
        self.settings = settings
        self._coordinator = coordinator
        self._rules = {name: rule_of(name, one) for name, one in settings.schedules.items()}

    def tick(self, now: datetime | None = None, *, preview: bool = False) -> TickReport:
        """Fire what is due at *now*, by default the store's; a preview decides the same and changes nothing.

        Raises StoreError, and ConfigError over an empty file; whatever else keeps one schedule from firing is
        reported and keeps no other.
        """
        self.settings.refuse_blank()
        now = now or self.store.clock.now()
        report = TickReport(at=now)
        with self.store.read() as tx:
            states = schedules.states(tx)
            decided = self._decide_all(tx, states, now)
            active = [] if preview else [name for name, one in decided.items() if one.fire or one.becomes]
            for name, decision in decided.items():
                if name not in active:
                    self._look(tx, name, decision, report)
        for name in active:
            self._try(name, now, report)
        self._retire(states, report, preview=preview)
        return report

    # --- Looking ----------------------------------------------------------------------------------

    def _decide_all(self, tx: Tx, states: Mapping[str, State], now: datetime) -> dict[str, Decision]:
        decided = {name: decide_tick(rule, states.get(name), now) for name, rule in self._rules.items()}
        matters = [name for name, one in decided.items() if one.fire and self._rules[name].overlap == "skip"]
        for name in schedules.live(tx, matters) if matters else ():
            decided[name] = decide_tick(self._rules[name], states.get(name), now, live=True)
        return decided

    def _look(self, tx: Tx, name: str, decision: Decision, report: TickReport) -> None:
        """Report *decision* without doing it: in a preview, or because there is nothing to do."""
        report.add_rest(name, decision)
        if decision.settled:
            job_id = self._job_of(tx, name, decision.settled)
            if job_id is not None:
                report.add_fired(name, decision.settled, job_id, existing=True)
        try:
            for window in decision.fire:
                job_id = self._job_of(tx, name, window)
                if job_id is None:
                    self._job(name, window)  # refuses what the real run would refuse
                report.add_fired(name, window, job_id, existing=job_id is not None)
        except AijobsError as error:
            report.add_failed(name, error.message)

    # --- Doing ------------------------------------------------------------------------------------

    def _try(self, name: str, now: datetime, report: TickReport) -> None:
        try:
            report.absorb(self._perform(name, now))
        except StoreError:
            raise
        except AijobsError as error:
            report.add_failed(name, error.message)

    def _perform(self, name: str, now: datetime) -> TickReport:
        """Decide again under the lock, and do it: jobs and settled window in one transaction."""
        part = TickReport(at=now)
        with self.store.write() as tx:
            state = schedules.locked(tx, name)
            decision = self._decide(tx, name, state, now)
            if state is None and not self._begin(tx, name, decision, now):
                state = schedules.locked(tx, name)  # another tick was first; its row is there now
                decision = self._decide(tx, name, state, now)
            self._fire(tx, name, decision, part)
            if state is not None:
                self._move(tx, name, state, decision, now)
        part.add_rest(name, decision)
        return part

    def _decide(self, tx: Tx, name: str, state: State | None, now: datetime) -> Decision:
        rule = self._rules[name]
        decision = decide_tick(rule, state, now)
        if decision.fire and rule.overlap == "skip" and schedules.live(tx, [name]):
            return decide_tick(rule, state, now, live=True)
        return decision

    def _begin(self, tx: Tx, name: str, decision: Decision, now: datetime) -> bool:
        assert decision.becomes is not None  # what is seen for the first time is always stored
        return schedules.begin(tx, name, decision.becomes, now, skipped=decision.left_out)

    def _move(self, tx: Tx, name: str, state: State, decision: Decision, now: datetime) -> None:
        becomes = decision.becomes
        if becomes and not schedules.move(tx, name, state, becomes, now, skipped=decision.left_out):
            raise Conflict(f"schedule {name} was moved by another tick: nothing was changed")

    def _fire(self, tx: Tx, name: str, decision: Decision, part: TickReport) -> None:
        new = []
        for window in (*([decision.settled] if decision.settled else []), *decision.fire):
            job_id = self._job_of(tx, name, window)
            if job_id is not None:
                part.add_fired(name, window, job_id, existing=True)
            elif window in decision.fire:
                new.append(window)
        if not new:
            return
        wanted = [self._job(name, window) for window in new]
        answers = self._coordinator().enqueue_in(tx, wanted, actor=f"schedule:{name}")
        for window, answer in zip(new, answers, strict=True):
            part.add_fired(name, window, answer.job.id, existing=answer.duplicate)

    def _job(self, name: str, window: datetime) -> "NewJob":
        """The job of one window. Its deadline counts from now, not from a window that may be long past."""
        from aijobs.services.submission import Request, new_job

        schedule = self.settings.schedules[name]
        request = Request(
            type=schedule.type,
            input=schedule.input,
            user=schedule.user or None,
            priority=schedule.priority,
            key=key_of(name, window),
        )
        return replace(new_job(request, self.settings, now=self.store.clock.now()), schedule=name)

    def _job_of(self, tx: Tx, name: str, window: datetime) -> str | None:
        from aijobs.store import jobs

        schedule = self.settings.schedules[name]
        user = normalize("NFC", schedule.user.strip())  # as `submission` writes it
        key = (user, schedule.type, key_of(name, window))
        job = jobs.by_key(tx, [key]).get(key)
        return job.id if job else None

    def _retire(self, states: Mapping[str, State], report: TickReport, *, preview: bool) -> None:
        """Note which schedules are gone from the file: commented out for a week is a pause, not a downtime.

        Without a file nothing is known of schedules, so nothing is gone.
        """
        if self.settings.source is None:
            return
        for name, state in states.items():
            if (
                name not in self._rules
                and state.retired_at is None
                and self._put_away(name, state, report.at, preview=preview)
            ):
                report.add_note(name, _GONE)

    def _put_away(self, name: str, state: State, now: datetime, *, preview: bool) -> bool:
        if preview:
            return True
        with self.store.write() as tx:
            return schedules.retire(tx, name, state, now)


def rule_of(name: str, settings: "ScheduleSettings") -> Rule:
    """A schedule as the decision needs it. UsageError when its times make no sense."""
    try:
        schedule = Schedule.parse(cron=settings.cron, every=settings.every, timezone=settings.timezone)
    except ValueError as error:
        raise UsageError(f"schedules.{name}: {error}") from None
    return Rule(
        schedule=schedule,
        fingerprint=f"{schedule.fingerprint} {settings.type}",
        catch_up=settings.catch_up,
        catch_up_limit=settings.catch_up_limit,
        overlap=settings.overlap,
    )


def key_of(name: str, window: datetime) -> str:
    """The idempotency key of a window's job: the instant, not what the clock on the wall showed twice."""
    return f"schedule:{name}:{window.isoformat(timespec='seconds').replace('+00:00', 'Z')}"
