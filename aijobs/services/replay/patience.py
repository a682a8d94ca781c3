"""Telling a person what a run waits for, when nothing has ended for a while."""

from collections.abc import Callable
from datetime import datetime, timedelta

from aijobs.core.replaying import check_workers
from aijobs.core.settings import Settings
from aijobs.services.statistics import workers_seen
from aijobs.store import replays
from aijobs.store.engine import Store

PATIENCE = timedelta(seconds=10)
"""How long nothing may be heard before it is told what is waited for."""

Tell = Callable[[str], None]


class Patience:
    """Knows when something was last heard of one replay; tells of each wait once."""

    def __init__(self, store: Store, settings: Settings, replay_id: str, tell: Tell) -> None:
        self._store = store
        self._settings = settings
        self._replay_id = replay_id
        self._tell = tell
        self._since = store.clock.now()
        self._told: str | None = None

    def heard(self) -> None:
        """Something was: it goes on."""
        self._since = self._store.clock.now()

    def look(self, what: str) -> None:
        """*what* has to end before it goes on: tell so, unless it is early or has been told."""
        now = self._store.clock.now()
        if now - self._since < PATIENCE:
            return
        self._since = now
        cause, words = self._wait(what, now)
        if cause != self._told:
            self._told = cause
            self._tell(words)

    def _wait(self, what: str, now: datetime) -> tuple[str, str]:
        """What it waits for, and that in words: somebody who works, or *what*."""
        with self._store.read() as tx:
            running = [item for item in replays.items(tx, self._replay_id) if item.state == "replayed"]
            seen = workers_seen(tx, now, self._settings.worker.lease)
        there = check_workers(seen, {item.type for item in running})
        if not there.ok:
            return there.check, there.evidence
        look = f": aijobs diagnose {running[0].job_id}" if running else ""
        return what, f"waiting for {what} to end{look}"
