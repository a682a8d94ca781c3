"""What an operator sees of the providers, and does about them; every change is written down."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from aijobs.core import breaker
from aijobs.core.breaker import Change, Rules
from aijobs.core.reasons import checked_reason
from aijobs.core.settings import Settings
from aijobs.services.coordinator.gates import Gate, Gates, health_of, tell
from aijobs.store import claims, provider_states, wake
from aijobs.store.engine import Store, Tx
from aijobs.store.provider_states import ProviderState


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One provider now: its row, what its gate says, and how many calls are under way."""

    state: ProviderState
    gate: Gate
    in_flight: int
    trials_out: int
    ramp: tuple[int, ...]
    calls: tuple[int, int]  # first calls and retries within the budget's window
    opened_because: str | None = None  # of a breaker that is not closed, when that is still on record

    @property
    def why(self) -> str:
        """What its gate says, and what led to that; the provider is not named."""
        said = self.gate.reason.removeprefix(f"{self.state.name}: ")
        by_breaker = said.startswith(("the breaker", "slow start"))
        return f"{said}: {self.opened_because}" if by_breaker and self.opened_because else said

    @property
    def since(self) -> datetime | None:
        """Since when it is held, or its breaker stands as it does."""
        return self.state.held_at or self.state.breaker_since

    @property
    def step(self) -> int | None:
        """How many calls the slow start lets through at once; None when there is none."""
        if self.state.breaker != breaker.Breaker.RAMP:
            return None
        return self.ramp[min(self.state.ramp_step, len(self.ramp) - 1)]


class ProviderDesk:
    """Looks at providers and sets them right."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._gates = Gates(settings)

    def all(self) -> list[Standing]:
        """Every configured provider, by name."""
        with self.store.read() as tx:
            return self.look(tx, self.store.clock.now())

    def look(self, tx: Tx, now: datetime) -> list[Standing]:
        """The same within a transaction that reads more."""
        states = provider_states.states(tx, self.settings.providers)
        flying = claims.in_flight(tx)
        trials = provider_states.trials_out(tx, now)
        calls = provider_states.calls_since(tx, now - self.settings.retry.budget.window)
        found = [self._standing(state, flying, trials, calls, now) for _, state in sorted(states.items())]
        return [replace(one, opened_because=_why_opened(tx, states[one.state.name])) for one in found]

    def one(self, name: str) -> Standing:
        """One provider. Raises NotFound."""
        self.settings.provider(name)
        return next(standing for standing in self.all() if standing.state.name == name)

    def reset(self, name: str, *, actor: str, reason: str) -> Standing:
        """Say that a provider is well: breaker closed, no pause, no hold. Raises NotFound."""
        return self._change(name, actor, reason, lambda state, now: breaker.reset(health_of(state), now))

    def hold(self, name: str, *, actor: str, reason: str, lasting: timedelta | None) -> Standing:
        """Send nothing to a provider until it is reset, or for *lasting*; jobs wait. Raises NotFound."""

        def change(state: ProviderState, now: datetime) -> Change:
            health = health_of(state)
            if lasting is None:
                done = breaker.hold(health, now, reason)
            else:
                done = breaker.pause_until(health, now + lasting, reason, now)
            # To extend what the program holds is no news, but that a person did it is to be on record.
            word = "held" if lasting is None else "paused"
            return done if done.health == health else replace(done, reasons=(f"{word}: {reason}",))

        return self._change(name, actor, reason, change)

    def _change(
        self, name: str, actor: str, reason: str, change: Callable[[ProviderState, datetime], Change]
    ) -> Standing:
        self.settings.provider(name)
        checked_reason(reason)
        now = self.store.clock.now()
        with self.store.write() as tx:
            (state,) = provider_states.locked(tx, [name], now).values()
            done = change(state, now)
            provider_states.save(tx, replace(state, **asdict(done.health)), now)
            if done.health.breaker == breaker.Breaker.CLOSED:
                provider_states.forget_trials(tx, name)
            tell(tx, name, done.reasons, now, actor=actor, why=reason)
            wake.notify(tx)  # what was kept back may go out now
        return self.one(name)

    def _standing(
        self, state: ProviderState, flying: Mapping[str, int], trials: Mapping[str, int],
        calls: Mapping[str, tuple[int, int]], now: datetime,
    ) -> Standing:  # fmt: skip
        in_flight, trials_out = flying.get(state.name, 0), trials.get(state.name, 0)
        passed = replace(state, **asdict(breaker.passed(health_of(state), now)))
        return Standing(
            state=passed,
            gate=self._gates.gate(passed, now, in_flight, trials_out),
            in_flight=in_flight,
            trials_out=trials_out,
            ramp=self._gates.rules.get(state.name, Rules()).ramp,
            calls=calls.get(state.name, (0, 0)),
        )


def _why_opened(tx: Tx, state: ProviderState) -> str | None:
    """What was said when its breaker opened last; its row has the instant. None when it is closed."""
    if state.breaker == breaker.Breaker.CLOSED or state.breaker_since is None:
        return None
    return provider_states.why_opened(tx, state.name, state.breaker_since)
