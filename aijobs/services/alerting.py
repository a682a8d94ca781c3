"""Evaluates the alert rules on the store, keeps since when each fires, and tells the configured targets.

The same alert is told once within the silence period, by whichever evaluation comes first.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from aijobs.core.alerts import Alert, evaluate
from aijobs.core.notifying import Told, alert_message
from aijobs.core.settings import Settings
from aijobs.services.statistics import Statistics
from aijobs.store import alert_states
from aijobs.store.alert_states import AlertState
from aijobs.store.engine import Store

Tell = Callable[[str, str, bytes], Told]
"""Delivers (target, message id, body)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReport:
    """One rule as it stands. *news*: it fires and was not told within the silence period before this."""

    alert: Alert
    since: datetime | None
    silenced_until: datetime | None
    news: bool
    told: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Alerting:
    """Looks, and tells."""

    def __init__(self, store: Store, settings: Settings, *, tell: Tell) -> None:
        self.store = store
        self.settings = settings
        self._tell = tell

    def run(self, *, passed_on: bool = False) -> list[AlertReport]:
        """Every enabled rule, the loudest first; what is news is told. Raises StoreError.

        *passed_on*: the caller tells somebody what is news. Without that, and without a target, it stays
        news: a look of one person must not silence it for the others.
        """
        now = self.store.clock.now()
        silence = self.settings.alerts.silence
        with self.store.read() as tx:
            alerts = evaluate(Statistics(self.store, self.settings).look(tx, now), self.settings)
        firing = [alert.rule for alert in alerts if alert.firing]
        with self.store.write() as tx:
            alert_states.note(tx, firing, now)
            news = {rule for rule in firing if alert_states.claim(tx, rule, now - silence, now)}
            states = alert_states.states(tx)
        reports = []
        for alert in alerts:
            state = states.get(alert.rule)
            if alert.rule in news:
                reports.append(self._told(alert, state, now, passed_on=passed_on))
            else:
                reports.append(self._report(alert, state, news=False))
        return reports

    def _told(self, alert: Alert, state: AlertState | None, now: datetime, *, passed_on: bool) -> AlertReport:
        told, failed = self._spread(alert, state.since if state else None, now)
        heard = told or (passed_on and not failed)
        if state and not heard:
            with self.store.write() as tx:
                alert_states.give_back(tx, alert.rule, now)
            state = replace(state, told_at=None)
        return self._report(alert, state, news=True, told=told, failed=failed)

    def _report(
        self, alert: Alert, state: AlertState | None, *, news: bool, told: tuple[str, ...] = (),
        failed: tuple[str, ...] = (),
    ) -> AlertReport:  # fmt: skip
        return AlertReport(
            alert=alert,
            since=state.since if state else None,
            silenced_until=_until(alert, state, self.settings.alerts.silence),
            news=news,
            told=told,
            failed=failed,
        )

    def _spread(
        self, alert: Alert, since: datetime | None, now: datetime
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tell every target; the names of those that were told, and of those that could not be."""
        targets = self.settings.alerts.notify
        values = {name: value for name, value in asdict(alert).items() if name != "firing"}
        body = alert_message(**values, since=since, now=now)
        answers = {
            name: self._tell(name, f"alert-{alert.rule}-{now:%Y%m%dT%H%M%S}", body) for name in targets
        }
        told = tuple(name for name, answer in answers.items() if answer.delivered)
        return told, tuple(name for name in targets if name not in told)


def _until(alert: Alert, state: AlertState | None, silence: timedelta) -> datetime | None:
    if not alert.firing or state is None or state.told_at is None:
        return None
    return state.told_at + silence
