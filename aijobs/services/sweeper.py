"""Finding what fell through and putting it right: a bounded pass that several machines may make at once.

Each repair is a guarded move of the coordinator, so whoever comes second finds nothing left to do. Workers
make the pass over expired leases themselves every few seconds; a sweep is for when no worker runs.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from aijobs.core.errors import NotFound
from aijobs.services.coordinator import Coordinator, Rescue
from aijobs.services.diagnosis import Diagnosing
from aijobs.services.orphans import expire
from aijobs.store import claims, leases, provider_states, replays, wake, workers

LIMIT = 1000
"""How many of each kind one pass repairs, unless told otherwise; the next pass goes on."""

STUCK_AFTER = timedelta(minutes=1)
"""A job that has been due for so long and is not in line yet is put there; workers do it within a second."""

WAITED_FOR = timedelta(minutes=10)
"""A job that could have started for so long and has not is told of, with what keeps it."""

MOST_REASONS = 20
GONE_AFTER = timedelta(days=1)
"""A worker not heard of for so long is forgotten."""

Repair = Callable[..., Rescue]


class Sweeper:
    """Makes the pass. What it finds and what it did come back by kind; with a preview nothing is changed."""

    def __init__(
        self, coordinator: Coordinator, *, orphans: Repair | None = None, notifications: Repair | None = None
    ) -> None:
        """*orphans* asks the providers after deliveries without a job, *notifications* delivers what nobody
        has; None leaves that to others."""
        self._coordinator = coordinator
        self._repairs: Mapping[str, Repair] = {
            "expired_leases": coordinator.rescue,
            "past_deadline": coordinator.expire,
            "stuck_pending": self._line_up,
            **({"orphans": orphans} if orphans else {}),
            "deliveries": partial(expire, coordinator),
            **({"unsent_notifications": notifications} if notifications else {}),
            "dead_replays": self._replays,
            "dead_trials": self._trials,
            "gone_workers": self._workers,
        }

    def sweep(self, *, limit: int = LIMIT, preview: bool = False) -> dict[str, Rescue]:
        """At most *limit* repairs of each kind, in this order. Raises StoreError; earlier repairs stay."""
        return {kind: repair(limit=limit, preview=preview) for kind, repair in self._repairs.items()}

    def _line_up(self, *, limit: int, preview: bool) -> Rescue:
        """Put due jobs in line; of those that stand there for too long, say why nobody claims them."""
        store, now = self._coordinator.store, self._coordinator.clock.now()
        with store.read() as tx:
            found = leases.not_in_line(tx, now - STUCK_AFTER, limit)
            waiting = leases.waiting_since(tx, now - WAITED_FOR, limit - len(found))
        repaired = 0
        if found and not preview:
            with store.write() as tx:
                repaired = len(claims.promote(tx, now - STUCK_AFTER, limit))
                wake.notify(tx)
        ids = (*found, *waiting)
        return Rescue(found=len(ids), repaired=repaired, ids=ids, why=self._reasons(waiting[:MOST_REASONS]))

    def _reasons(self, waiting: Sequence[str]) -> tuple[tuple[str, str], ...]:
        diagnosing, why = Diagnosing(self._coordinator.store, self._coordinator.settings), []
        for job_id in waiting:
            with suppress(NotFound):  # it has ended and was removed since it was found
                why.append((job_id, diagnosing.job(job_id).summary))
        return tuple(why)

    def _replays(self, *, limit: int, preview: bool) -> Rescue:
        store, now = self._coordinator.store, self._coordinator.clock.now()
        with store.read() as tx:
            found = replays.ownerless(tx, now, limit)
        if preview or not found:
            return Rescue(found=len(found), ids=tuple(found))
        with store.write() as tx:
            return Rescue(found=len(found), repaired=replays.interrupt(tx, found, now), ids=tuple(found))

    def _trials(self, *, limit: int, preview: bool) -> Rescue:
        """Trial calls of dead workers. They stopped counting by themselves; this removes what is left."""
        store, now = self._coordinator.store, self._coordinator.clock.now()
        with store.read() as tx:
            found = provider_states.dead_trials(tx, now)[:limit]
        if preview or not found:
            return Rescue(found=len(found), ids=tuple(found))
        with store.write() as tx:
            repaired = provider_states.drop_dead_trials(tx, found, now)
        return Rescue(found=len(found), repaired=repaired, ids=tuple(found))

    def _workers(self, *, limit: int, preview: bool) -> Rescue:
        store, before = self._coordinator.store, self._coordinator.clock.now() - GONE_AFTER
        with store.read() as tx:
            found = [one.name for one in workers.listed(tx) if one.heartbeat_at < before][:limit]
        if preview or not found:
            return Rescue(found=len(found), ids=tuple(found))
        with store.write() as tx:
            return Rescue(found=len(found), repaired=workers.forget(tx, before=before), ids=tuple(found))
