"""How many jobs an operator's word would concern: counted before it is said, and nothing is changed."""

from collections.abc import Callable
from dataclasses import dataclass

from aijobs.core.overview import Load, together
from aijobs.core.settings import Settings
from aijobs.core.switches import ALL, SwitchKind, types_of
from aijobs.store import backlog, switches
from aijobs.store.engine import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Concerned:
    """Jobs that wait, also for another try, and jobs that run or that a provider works on."""

    waiting: int
    running: int


class Concern:
    """Counts over one store under one configuration."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def of_type(self, scope: str) -> Concerned:
        """The jobs of a type, or with ALL of every type."""
        return self._of(lambda name: scope in (ALL, name))

    def of_provider(self, provider: str) -> Concerned:
        """The jobs of the types that go to *provider* now: to a fallback while that is switched on."""
        with self.store.read() as tx:
            thrown = switches.in_force(tx, self.store.clock.now())
        fallen = types_of(thrown, SwitchKind.FALLBACK, self.store.clock.now())
        there = {
            name
            for name, kind in self.settings.types.items()
            if kind.route(fallback=name in fallen)[0] == provider
        }
        return self._of(there.__contains__)

    def below(self, priority: int) -> Concerned:
        """The jobs of a lower priority than *priority*."""
        with self.store.read() as tx:
            waiting, running = backlog.below(tx, priority)
        return Concerned(waiting=waiting, running=running)

    def _of(self, wanted: Callable[[str], bool]) -> Concerned:
        with self.store.read() as tx:
            found = backlog.loads(tx, self.store.clock.now())
        load = together(Load(**fields) for name, fields in found.items() if wanted(name))
        return Concerned(waiting=load.waiting, running=load.running + load.parked)
