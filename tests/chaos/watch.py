"""Looks at the store all the time: whose lease ran out when, and how long nothing ended."""

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, select

from aijobs.core.errors import StoreError
from aijobs.store.engine import open_store
from aijobs.store.tables import jobs

EVERY = 0.2
_j = jobs.c
_RUNNING = select(_j.id, _j.lock_token, _j.locked_until).where(
    _j.status == "processing", _j.parked_at.is_(None)
)
_ENDED = select(func.count()).where(_j.finished_at.is_not(None))

Span = tuple[float, float]


@dataclass
class Seen:
    """*leases*: (job, fence) -> the last end of its lease that was seen. *pauses*: while no job ended.

    Times are Unix seconds.
    """

    leases: dict[tuple[str, int], float] = field(default_factory=dict)
    pauses: list[Span] = field(default_factory=list)
    looks: int = 0
    misses: int = 0


class Watch(threading.Thread):
    """Reads until told to stop."""

    def __init__(self, url: str) -> None:
        super().__init__(name="watch", daemon=True)
        self.seen = Seen()
        self._store = open_store(url)
        self._over = threading.Event()
        self._ended = 0
        self._moved_at = time.time()

    def run(self) -> None:
        """Look, and look again."""
        while not self._over.wait(EVERY):
            try:
                self._look()
            except StoreError:
                self.seen.misses += 1

    def stop(self) -> None:
        """End."""
        self._over.set()
        self.join(30)
        self._store.close()

    def _look(self) -> None:
        with self._store.read() as tx:
            rows = tx.execute(_RUNNING).all()
            ended = tx.execute(_ENDED).scalar_one()
        seen, now = self.seen, time.time()
        seen.looks += 1
        for job_id, fence, until in rows:
            assert isinstance(until, datetime)
            seen.leases[job_id, fence] = until.timestamp()
        if ended > self._ended:
            seen.pauses.append((self._moved_at, now))
            self._moved_at, self._ended = now, ended


def overlap(begin: float, end: float, spans: list[Span]) -> float:
    """Seconds of [begin, end] that lie in one of *spans*, which may overlap."""
    total, done = 0.0, begin
    for start, stop in sorted(spans):
        start, stop = max(start, done), min(stop, end)
        if stop > start:
            total += stop - start
            done = stop
    return total
