"""Reads the whole at one moment, in one transaction, without looking at jobs that have ended."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from aijobs.core.overview import (
    OVERDUE,
    FailedJob,
    Load,
    Overview,
    ProviderSeen,
    RunningJob,
    ScheduleSeen,
    WorkerSeen,
)
from aijobs.core.settings import Settings
from aijobs.core.ticking import Rule, State
from aijobs.services.provider_desk import ProviderDesk, Standing
from aijobs.store import backlog, minutes, outbox, schedules, switches, usage_days, workers
from aijobs.store.engine import Store, Tx
from aijobs.store.usage_days import UsageSum
from aijobs.store.workers import WorkerRecord, WorkerState

HOUR = timedelta(hours=1)


class Statistics:
    """Takes the overview of one store under one configuration."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def overview(self) -> Overview:
        """Everything now. Raises StoreError."""
        now = self.store.clock.now()
        with self.store.read() as tx:
            return self.look(tx, now)

    def close_up(self, limit: int) -> tuple[Overview, list[RunningJob], list[FailedJob]]:
        """Everything now, with some of the jobs that run and of those that failed last. Raises StoreError."""
        now = self.store.clock.now()
        with self.store.read() as tx:
            return self.look(tx, now), backlog.running(tx, limit), backlog.failures(tx, limit)

    def look(self, tx: Tx, now: datetime) -> Overview:
        """The same within a transaction that reads more."""
        found = backlog.loads(tx, now)
        names = sorted(self.settings.types.keys() | found.keys())
        unmatched, oldest_unmatched = backlog.unmatched(tx)
        return Overview(
            now=now,
            loads={name: Load(**found.get(name, {})) for name in names},
            dead_letters=backlog.open_dead_letters(tx),
            oldest_dead_letter_at=backlog.oldest_dead_letter(tx),
            minutes=tuple(minutes.since(tx, now - self._span())),
            providers=tuple(
                provider_seen(one) for one in ProviderDesk(self.store, self.settings).look(tx, now)
            ),
            workers=tuple(workers_seen(tx, now, self.settings.worker.lease)),
            switches=tuple(switches.in_force(tx, now)),
            schedules=tuple(self._schedules(tx, now)),
            unmatched=unmatched,
            oldest_unmatched_at=oldest_unmatched,
            notifications_overdue=outbox.overdue(tx, now - OVERDUE),
        )

    def usage(self, by: Sequence[str], since: datetime | None) -> list[tuple[tuple[str, ...], UsageSum]]:
        """Tokens and cost by day, type, user, provider or model, of whole days from *since* (UTC) on."""
        with self.store.read() as tx:
            return usage_days.summed(tx, by, since.date().isoformat() if since else None)

    def _span(self) -> timedelta:
        """How far back the minutes must reach: an hour, and twice the longest window of an alert."""
        windows: list[timedelta] = [rule.window for _, rule in self.settings.alerts.rules]
        return max(HOUR, 2 * max(windows))

    def _schedules(self, tx: Tx, now: datetime) -> list[ScheduleSeen]:
        if not self.settings.schedules:
            return []
        from aijobs.services.scheduler import rule_of  # loads the cron library

        states, records = schedules.states(tx), schedules.records(tx)
        rules = {name: rule_of(name, one) for name, one in sorted(self.settings.schedules.items())}
        live = schedules.live(tx, rules)
        seen = []
        for name, rule in rules.items():
            state, record = states.get(name), records.get(name)
            waits = rule.overlap == "skip" and name in live
            seen.append(
                ScheduleSeen(
                    name=name,
                    skipped=record.skipped if record else 0,
                    overdue_since=None if waits else _overdue_since(rule, state, now),
                    last_tick_at=record.last_tick_at if record else None,
                )
            )
        return seen


def workers_seen(tx: Tx, now: datetime, lease: timedelta) -> list[WorkerSeen]:
    """Every worker of the register, and whether it is alive."""
    return [_worker_seen(one, now, lease) for one in workers.listed(tx)]


def _worker_seen(record: WorkerRecord, now: datetime, lease: timedelta) -> WorkerSeen:
    """A worker, and whether it was heard of within its lease."""
    return WorkerSeen(
        name=record.name,
        host=record.host,
        state=record.state.value,
        concurrency=record.concurrency,
        types=record.types,
        started_at=record.started_at,
        heartbeat_at=record.heartbeat_at,
        alive=record.state is not WorkerState.STOPPED and now - record.heartbeat_at <= lease,
    )


def _overdue_since(rule: Rule, state: State | None, now: datetime) -> datetime | None:
    """Since when a window is due that no tick has settled; of one no tick has ever seen nothing is known."""
    if state is None or state.fingerprint != rule.fingerprint:
        return None
    settled = max(state.seen_at, state.last_window or state.seen_at, state.paused_until or state.seen_at)
    due = next(iter(rule.schedule.fires(settled, now)), now)
    return due if now - due > OVERDUE else None


def provider_seen(standing: Standing) -> ProviderSeen:
    """How a provider is, without what only its row tells."""
    state, gate = standing.state, standing.gate
    return ProviderSeen(
        name=state.name,
        breaker=state.breaker,
        in_flight=standing.in_flight,
        allowed=gate.allowed,
        reason=standing.why,
        again_at=gate.again_at,
        since=standing.since,
        held=state.held_at is not None,
        paused_until=None if state.held_at else state.paused_until,
    )
