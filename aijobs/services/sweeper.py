"""Finding what fell through and putting it right: a bounded pass that several machines may make at once.

Each repair is a guarded move of the coordinator, so whoever comes second finds nothing left to do. Workers
make the pass over expired leases themselves every few seconds; a sweep is for when no worker runs.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from aijobs.services.coordinator import Coordinator, Rescue
from aijobs.services.orphans import expire
from aijobs.store import claims, leases, wake

LIMIT = 1000
"""How many of each kind one pass repairs, unless told otherwise; the next pass goes on."""

STUCK_AFTER = timedelta(minutes=1)
"""A job that has been due for so long and is not in line yet is put there; workers do it within a second."""

Repair = Callable[..., Rescue]


class Sweeper:
    """Makes the pass. What it finds and what it did come back by kind; with a preview nothing is changed."""

    def __init__(self, coordinator: Coordinator, *, orphans: Repair | None = None) -> None:
        """*orphans* asks the providers after deliveries without a job; None leaves that to others."""
        self._coordinator = coordinator
        self._repairs: Mapping[str, Repair] = {
            "expired_leases": coordinator.rescue,
            "past_deadline": coordinator.expire,
            "stuck_pending": self._line_up,
            **({"orphans": orphans} if orphans else {}),
            "deliveries": partial(expire, coordinator),
        }

    def sweep(self, *, limit: int = LIMIT, preview: bool = False) -> dict[str, Rescue]:
        """At most *limit* repairs of each kind, in this order. Raises StoreError; earlier repairs stay."""
        return {kind: repair(limit=limit, preview=preview) for kind, repair in self._repairs.items()}

    def _line_up(self, *, limit: int, preview: bool) -> Rescue:
        store, before = self._coordinator.store, self._coordinator.clock.now() - STUCK_AFTER
        if preview:
            with store.read() as tx:
                found = leases.not_in_line(tx, before, limit)
            return Rescue(found=len(found), ids=tuple(found))
        with store.write() as tx:
            found = leases.not_in_line(tx, before, limit)
            repaired = claims.promote(tx, before, limit) if found else 0
            if repaired:
                wake.notify(tx)
        return Rescue(found=len(found), repaired=repaired, ids=tuple(found))
