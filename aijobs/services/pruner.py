"""Retention: removes what has been kept as long as the configuration says, in bounded batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.core.model import Status
from aijobs.core.settings import Settings
from aijobs.store import refusals, retention, switches, workers
from aijobs.store.engine import Store, Tx

BATCH = 1000
"""Rows a transaction removes at most."""

FIRST = 50
LONG = 0.5
"""On SQLite nobody else writes while a batch is removed, and results may be large: batches begin with *FIRST*
rows, double as long as they are quick, and halve when one took longer than *LONG* seconds.
"""

_WORKERS_KEPT = timedelta(days=7)
_CALLS_KEPT = timedelta(days=1)
_MINUTES_KEPT = timedelta(days=14)  # twice the longest window an alert may look at


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one kind of thing came to: how many, and up to which age they were kept (None: for ever)."""

    what: str
    kept: timedelta | None
    count: int


_Remove = Callable[[Tx, datetime, int], tuple[int, bool]]
_Drop = Callable[[Tx, datetime, int, str], retention.Dropped]


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of thing: how to count what is too old, and how to remove a batch of it.

    *remove* says how many it removed, and whether there may be more.
    """

    what: str
    kept: timedelta | None
    count: Callable[[Tx, datetime], int]
    remove: _Remove


class _Pace:
    """How many rows the next transaction removes: on PostgreSQL, where nobody waits for it, always *most*."""

    def __init__(self, store: Store, most: int) -> None:
        self._most = most
        self._adapts = store.dialect == "sqlite"
        self.batch = min(FIRST, most) if self._adapts else most

    def took(self, seconds: float) -> None:
        """Learn from the last transaction."""
        if not self._adapts:
            return
        if seconds > LONG:
            self.batch = max(1, self.batch // 2)
        elif seconds * 2 < LONG:
            self.batch = min(self._most, self.batch * 2)


class Pruner:
    """Removes what is older than `retention` allows. Open dead letters and running totals stay."""

    def __init__(self, store: Store, settings: Settings, *, batch: int = BATCH) -> None:
        self.store = store
        self.settings = settings
        self.batch = batch

    def preview(self) -> list[Pruned]:
        """What a run would remove; nothing changes."""
        now = self.store.clock.now()
        with self.store.read() as tx:
            return [
                Pruned(kind.what, kind.kept, 0 if kind.kept is None else kind.count(tx, now - kind.kept))
                for kind in self._kinds(now)
            ]

    def run(self, progress: Callable[[str, int], None] | None = None) -> list[Pruned]:
        """Remove everything that is too old; *progress* hears of each batch. May be stopped at any point."""
        now = self.store.clock.now()
        found = [Pruned(kind.what, kind.kept, self._remove(kind, now, progress)) for kind in self._kinds(now)]
        with self.store.write() as tx:
            workers.forget(tx, before=now - _WORKERS_KEPT)
            retention.forget_calls(tx, now - max(_CALLS_KEPT, self.settings.retry.budget.window))
            retention.forget_minutes(tx, now - _MINUTES_KEPT)
            refusals.forget(tx, now - _MINUTES_KEPT)
            switches.forget_expired(tx, now)
        return found

    def _remove(self, kind: _Kind, now: datetime, progress: Callable[[str, int], None] | None) -> int:
        if kind.kept is None:
            return 0
        total, pace = 0, _Pace(self.store, self.batch)
        while True:
            with self.store.write() as tx:
                began = self.store.clock.monotonic()  # to wait for others is not to keep them waiting
                removed, more = kind.remove(tx, now - kind.kept, pace.batch)
            pace.took(self.store.clock.monotonic() - began)
            total += removed
            if progress:
                progress(kind.what, removed)
            if not more:
                return total

    def _kinds(self, now: datetime) -> Iterator[_Kind]:
        keep = self.settings.retention
        yield self._jobs("succeeded jobs", Status.SUCCEEDED, keep.succeeded, now)
        yield self._jobs("cancelled jobs", Status.CANCELLED, keep.cancelled, now)
        yield self._jobs("closed dead letters", Status.DEAD_LETTER, keep.closed, now)
        yield self._bodies("inputs", keep.inputs, retention.count_inputs, retention.drop_inputs)
        yield self._bodies("results", keep.results, retention.count_results, retention.drop_results)
        yield _Kind(
            "webhook deliveries",
            _span(keep.deliveries),
            retention.count_deliveries,
            _while_full(retention.drop_deliveries),
        )
        yield _Kind(
            "sent notifications",
            _span(keep.deliveries),
            retention.count_notifications,
            _while_full(retention.drop_notifications),
        )
        kept = _span(keep.records)
        yield _Kind("usage by day", kept, retention.count_usage, _while_full(retention.drop_usage))
        yield _Kind("ended replays", kept, retention.count_replays, retention.drop_replays)
        yield _Kind("events of no job", kept, retention.count_events, _while_full(retention.drop_events))

    def _jobs(self, what: str, status: Status, kept: timedelta | str, now: datetime) -> _Kind:
        def count(tx: Tx, before: datetime) -> int:
            return retention.count_ended(tx, status, before, now)

        since: datetime | None = None

        def remove(tx: Tx, before: datetime, limit: int) -> tuple[int, bool]:
            nonlocal since
            found = retention.ended_jobs(tx, status, before, now, limit, since=since)
            if not found:
                return 0, False
            since = found[-1].finished_at
            return retention.remove_jobs(tx, [row.id for row in found]), len(found) == limit

        return _Kind(what, _span(kept), count, remove)

    def _bodies(
        self, what: str, kept: timedelta | str, count: Callable[[Tx, datetime], int], drop: _Drop
    ) -> _Kind:
        after = ""

        def remove(tx: Tx, before: datetime, limit: int) -> tuple[int, bool]:
            nonlocal after
            dropped = drop(tx, before, limit, after)
            after = dropped.last or after
            return dropped.count, dropped.last is not None

        return _Kind(what, _span(kept), count, remove)


def _while_full(remove: Callable[[Tx, datetime, int], int]) -> _Remove:
    """A batch that is not full was the last."""

    def step(tx: Tx, before: datetime, limit: int) -> tuple[int, bool]:
        removed = remove(tx, before, limit)
        return removed, removed == limit

    return step


def _span(kept: timedelta | str) -> timedelta | None:
    return kept if isinstance(kept, timedelta) else None
