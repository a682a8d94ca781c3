"""Notices that the store was upgraded under a worker at work, or that another one has taken its place."""

from aijobs.core.errors import SchemaMismatch, StoreError
from aijobs.store import schema
from aijobs.store.engine import Store
from aijobs.store.sqlite import StoreReplaced

EVERY_SECONDS = 1.0
"""So often it looks at most. What is claimed in between is safe too: every migration leaves the release
before able to work, and what was claimed from a file is saved into that file."""


class SchemaWatch:
    """Remembers a change for good: a worker that has seen one claims nothing any more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fault: StoreError | None = None
        self._next_look = store.clock.monotonic()

    def fault(self) -> StoreError | None:
        """Why this program must not claim from the store; None as long as it may. Raises StoreError."""
        now = self._store.clock.monotonic()
        if self._fault is None and now >= self._next_look:
            self._fault = self._look()
            self._next_look = now + EVERY_SECONDS  # not after an error: nothing is claimed before a look
        return self._fault

    def _look(self) -> StoreError | None:
        try:
            if self._store.file:
                self._store.file.require()
        except StoreReplaced as fault:
            return fault
        with self._store.read() as tx:
            version = schema.version_of(tx)
        try:
            if version is not None:
                schema.require_head(version, location=self._store.location)
        except SchemaMismatch as fault:
            return fault
        return None
