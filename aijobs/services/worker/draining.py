"""When a worker that drains is done: nothing runs, and nothing could run without a person or its user's
delay. Until then, what it waits for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.core.clock import Clock
from aijobs.core.diagnosis.steps import instant, not_called
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.settings import Settings
from aijobs.core.switches import Pauses, SwitchKind, types_of
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.statistics import provider_seen
from aijobs.store import leases, provider_states, switches
from aijobs.store.engine import Store, Tx

SAY_EVERY = timedelta(seconds=60)
"""So often a worker says what it waits for, while that stays the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What is waited for, in words, and until when, if that is known; the *cause* outlasts the time."""

    cause: str
    words: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look at the store; jobs of a priority below *above* are passed over when they wait."""

    tx: Tx
    now: datetime
    above: int | None

    def there(self, *, running: Sequence[str] = (), waiting: Sequence[str] = ()) -> bool:
        """Whether a job of the types *running* runs, or one of the types *waiting* is due or a retry."""
        return leases.runnable(self.tx, running=running, waiting=waiting, above=self.above, now=self.now)

    def next_retry(self, waiting: Sequence[str]) -> datetime | None:
        """When the next retry of these types is due, of those that are not due yet."""
        return leases.next_retry(self.tx, waiting=waiting, above=self.above, now=self.now)


class Draining:
    """Looks at the jobs of *types*.

    Whatever runs is waited for, whoever holds it: it may come back. So are jobs that are due, and retries
    however late, with the provider's recovery they may wait for. Not waited for: jobs that their user
    delayed, jobs held for a decision, and what a person has to let go first (a pause, a limit of 0, a
    provider held for its quota or its credentials).
    """

    def __init__(self, store: Store, settings: Settings, types: Sequence[str]) -> None:
        self._types = tuple(types)
        self._settings = settings
        self._desk = ProviderDesk(store, settings)
        self._open = () if _all_paused(settings) else tuple(n for n in types if not _paused(settings, n))

    def wait(self, tx: Tx, now: datetime) -> Wait | None:
        """What keeps it from its end while nothing can be claimed; None when there is nothing left."""
        thrown = switches.in_force(tx, now)
        pauses = Pauses.of(thrown, now)
        on_fallback = types_of(thrown, SwitchKind.FALLBACK, now)
        look = _Look(tx=tx, now=now, above=pauses.below)
        providers = {
            name: self._provider(name, fallback=name in on_fallback)
            for name in self._open
            if not pauses.everything and name not in pauses.types
        }
        states = provider_states.states(tx, set(providers.values()))
        waiting = {
            name: provider
            for name, provider in providers.items()
            if self._settings.providers[provider].concurrency != 0 and states[provider].held_at is None
        }
        if not look.there(running=self._types, waiting=tuple(waiting)):
            return None
        return self._for_a_provider(look, waiting) or self._for_jobs(look, tuple(waiting))

    def _for_a_provider(self, look: _Look, waiting: Mapping[str, str]) -> Wait | None:
        """One that is not called now, though jobs wait for it; *waiting* are types and their providers."""
        for seen in map(provider_seen, self._desk.look(look.tx, look.now)):
            types = tuple(name for name, provider in waiting.items() if provider == seen.name)
            if seen.allowed == 0 and types and look.there(waiting=types):
                return Wait(cause=f"{seen.name}: {seen.reason}", words=not_called(seen), until=seen.again_at)
        return None

    def _for_jobs(self, look: _Look, waiting: Sequence[str]) -> Wait:
        if look.there(running=self._types):
            return Wait(cause="running", words="jobs run at other workers, or at a provider by themselves")
        again = look.next_retry(waiting)
        if again is not None:
            return Wait(cause="retries", words=f"the next retry is due at {instant(again)}", until=again)
        return Wait(cause="limits", words="a limit keeps jobs that are due: aijobs diagnose JOB")

    def _provider(self, name: str, *, fallback: bool) -> str:
        return self._settings.types[name].route(fallback=fallback)[0]


class Waiting:
    """Tells the log what a drain waits for: when it is something else, and every minute while it goes on."""

    def __init__(self, *, clock: Clock, log: Log) -> None:
        self._clock = clock
        self._log = log
        self._seen: str | None = None
        self._said: str | None = None
        self._said_at = 0.0

    def look(self, wait: Wait | None) -> None:
        """Take what a claim that came back empty has found.

        Only what two looks in a row have seen is told: something may have let go since the claim.
        """
        seen, self._seen = self._seen, wait.cause if wait else None
        if wait is None or wait.cause != seen:
            return
        now = self._clock.monotonic()
        if wait.cause != self._said or now - self._said_at >= SAY_EVERY.total_seconds():
            self._said, self._said_at = wait.cause, now
            self._log.emit(LogEvent.DRAIN_WAITS, why=wait.words, until=wait.until)


def _all_paused(settings: Settings) -> bool:
    return 0 in (settings.concurrency.global_, settings.concurrency.per_user)


def _paused(settings: Settings, name: str) -> bool:
    kind = settings.types[name]
    return 0 in (kind.concurrency, kind.per_user)
