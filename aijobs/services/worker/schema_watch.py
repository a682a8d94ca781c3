"""Notices that the store was upgraded, or restored, under a worker that is at work."""

from aijobs.core.errors import SchemaMismatch
from aijobs.store import schema
from aijobs.store.engine import Store

EVERY_SECONDS = 1.0
"""So often the version is read at most. What is claimed in between is safe too: every migration leaves the
release before able to work."""


class SchemaWatch:
    """Remembers a change for good: a worker that has seen one claims nothing any more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fault: SchemaMismatch | None = None
        self._next_look = store.clock.monotonic()

    def fault(self) -> SchemaMismatch | None:
        """Why this program must not claim from the store; None as long as it may. Raises StoreError."""
        now = self._store.clock.monotonic()
        if self._fault is None and now >= self._next_look:
            self._next_look = now + EVERY_SECONDS
            self._fault = self._look()
        return self._fault

    def _look(self) -> SchemaMismatch | None:
        with self._store.read() as tx:
            version = schema.version_of(tx)
        try:
            if version is not None:
                schema.require_head(version, location=self._store.location)
        except SchemaMismatch as fault:
            return fault
        return None
