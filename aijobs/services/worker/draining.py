"""When a worker that drains is done: nothing runs, and nothing could run without a person or its user's
delay."""

from collections.abc import Sequence
from datetime import datetime

from aijobs.core.settings import Settings
from aijobs.core.switches import Pauses, SwitchKind, types_of
from aijobs.store import leases, provider_states, switches
from aijobs.store.engine import Tx


class Draining:
    """Looks at the jobs of *types*.

    Whatever runs is waited for, whoever holds it: it may come back. So are jobs that are due, and retries
    however late, with the provider's recovery they may wait for. Not waited for: jobs that their user
    delayed, jobs held for a decision, and what a person has to let go first (a pause, a limit of 0, a
    provider held for its quota or its credentials).
    """

    def __init__(self, settings: Settings, types: Sequence[str]) -> None:
        self._types = tuple(types)
        self._settings = settings
        self._open = () if _all_paused(settings) else tuple(n for n in types if not _paused(settings, n))

    def done(self, tx: Tx, now: datetime) -> bool:
        """Whether there is nothing left to wait for."""
        thrown = switches.in_force(tx, now)
        pauses = Pauses.of(thrown, now)
        on_fallback = types_of(thrown, SwitchKind.FALLBACK, now)
        providers = {name: self._provider(name, fallback=name in on_fallback) for name in self._open}
        states = provider_states.states(tx, set(providers.values()))
        waiting = [
            name
            for name in self._open
            if not pauses.everything
            and name not in pauses.types
            and self._settings.providers[providers[name]].concurrency != 0
            and states[providers[name]].held_at is None
        ]
        return not leases.runnable(tx, running=self._types, waiting=waiting, above=pauses.below, now=now)

    def _provider(self, name: str, *, fallback: bool) -> str:
        return self._settings.types[name].route(fallback=fallback)[0]


def _all_paused(settings: Settings) -> bool:
    return 0 in (settings.concurrency.global_, settings.concurrency.per_user)


def _paused(settings: Settings, name: str) -> bool:
    kind = settings.types[name]
    return 0 in (kind.concurrency, kind.per_user)
