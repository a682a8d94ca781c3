"""How long one call of each type may take; what `timeout: auto` learns is looked up now and then."""

from datetime import timedelta

from aijobs.core.settings import Settings
from aijobs.core.timeouts import timeout_for
from aijobs.services.time_limits import time_limit
from aijobs.store.engine import Store

LEARN_EVERY = timedelta(minutes=5)


class TimeLimits:
    """The limit of each type: the one set, the one learned, or that of its tier."""

    def __init__(self, settings: Settings, *, store: Store) -> None:
        self._store = store
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take new settings; what was learned has to be looked up again (`learn`)."""
        self._settings = settings
        self._known: dict[str, timedelta] = {}
        self._learning = [name for name, kind in settings.types.items() if kind.timeout == "auto"]

    def of(self, type_name: str) -> timedelta:
        """How long one call of the type may take. Raises NotFound."""
        known = self._known.get(type_name)
        if known is None:
            kind = self._settings.type(type_name)
            known = timeout_for(kind, [], timeouts=self._settings.timeouts).value
            self._known[type_name] = known
        return known

    def learn(self) -> None:
        """Look up how long the types that learn have taken lately. Raises StoreError."""
        if not self._learning:
            return
        with self._store.read() as tx:
            for name in self._learning:
                self._known[name] = time_limit(tx, self._settings, name).value
