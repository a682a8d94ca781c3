"""What all workers know of the providers, as the claim and the end of an attempt use it.

The claim asks how many calls each provider may be sent; the end of an attempt tells how its call went. Both
happen in the transaction of the claim or the end itself, so the breaker, the trials and the rate hold over
all processes. A provider that has never been in trouble costs one look and no write.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from aijobs.core import breaker
from aijobs.core.breaker import NEVER, Admission, Breaker, Change, Health, Rules
from aijobs.core.durations import Rate
from aijobs.core.lifecycle import Failed, Parked, Succeeded
from aijobs.core.log_events import LogEvent
from aijobs.core.model import ErrorClass, Event, Failure, Job
from aijobs.core.rates import Bucket, take_tokens, tokens_at
from aijobs.core.retry import budget_allows
from aijobs.core.settings import Settings
from aijobs.core.timeouts import longest_timeout
from aijobs.services.coordinator.values import BreakerChange, Ended
from aijobs.store import claims, history, provider_states
from aijobs.store.engine import Tx
from aijobs.store.provider_states import ProviderState

_HEALTH_NAMES = tuple(Health.__dataclass_fields__)
_BUCKET_SECONDS = 10
_HEADERS_EVERY = timedelta(seconds=10)
_CHANGED_TO = MappingProxyType(
    {
        Breaker.OPEN: LogEvent.BREAKER_OPENED,
        Breaker.HALF_OPEN: LogEvent.BREAKER_HALF_OPEN,
        Breaker.RAMP: LogEvent.BREAKER_RAMP,
        Breaker.CLOSED: LogEvent.BREAKER_CLOSED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How many calls a provider may be sent now (None: no bound of its own), why, and when to ask again.

    *turns*: the next call makes the breaker half open; it was open, and its time is up.
    """

    allowed: int | None
    reason: str
    trial: bool = False
    turns: bool = False
    again_at: datetime | None = None


OPEN = Gate(allowed=None, reason="nothing speaks against it")


class Gates:
    """The gates of one configuration."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rules = {name: Rules.from_settings(p.breaker) for name, p in settings.providers.items()}
        self.rates: dict[str, Rate] = {
            name: p.rate for name, p in settings.providers.items() if p.rate is not None
        }

    # --- The claim ---

    def are_plain(self, tx: Tx, names: Iterable[str]) -> bool:
        """Whether nothing bounds what these providers may be sent, nor is to be counted."""
        states = provider_states.states(tx, sorted(set(names)))
        return all(name not in self.rates and _plain(state) for name, state in states.items())

    def look(self, tx: Tx, names: Iterable[str], now: datetime) -> dict[str, Gate]:
        """The gate of each provider. The caller is the only one who claims."""
        states = provider_states.states(tx, sorted(set(names)))
        if all(name not in self.rates and _plain(state) for name, state in states.items()):
            return dict.fromkeys(states, OPEN)
        flying = claims.in_flight(tx)
        trials = provider_states.trials_out(tx, now)
        return {
            name: self.gate(state, now, flying.get(name, 0), trials.get(name, 0))
            for name, state in states.items()
        }

    def gate(self, state: ProviderState, now: datetime, in_flight: int, trials_out: int) -> Gate:
        """What one provider lets through, by its row and what is under way."""
        rules = self.rules.get(state.name, Rules())
        admission = breaker.admit(health_of(state), rules, now, in_flight=in_flight, trials_out=trials_out)
        gate = Gate(
            allowed=admission.allowed, reason=f"{state.name}: {admission.reason}", trial=admission.trial,
            turns=admission.trial and state.breaker == Breaker.OPEN,
            again_at=_again_at(state, admission, now),
        )  # fmt: skip
        rate = self.rates.get(state.name)
        return gate if rate is None else _metered(gate, state, rate, now)

    def took(
        self, tx: Tx, claimed: Sequence[Job], gates: Mapping[str, Gate], now: datetime
    ) -> dict[str, BreakerChange]:
        """Note what was claimed: trials, tokens of the rate, first calls and retries.

        By job: which call is the first that a breaker lets through since it opened.
        """
        if not claimed:
            return {}
        self._note_trials(tx, claimed, gates, now)
        changes = self._half_open(tx, claimed, gates, now)
        counts: dict[str, list[int]] = {}
        for job in claimed:
            counts.setdefault(job.provider or "", [0, 0])[job.attempts > 1 or job.deferrals > 0] += 1
        for name, (first, again) in sorted(counts.items()):
            if name in self.rates:
                self._spend(tx, name, first + again, now)
        began = now.timestamp() // _BUCKET_SECONDS * _BUCKET_SECONDS
        bucket = datetime.fromtimestamp(began, now.tzinfo)
        provider_states.count_calls(
            tx,
            [
                {"provider": name, "bucket": bucket, "first_calls": first, "retries": again}
                for name, (first, again) in sorted(counts.items())
            ],
        )
        return changes

    def _note_trials(self, tx: Tx, claimed: Sequence[Job], gates: Mapping[str, Gate], now: datetime) -> None:
        """Lease the trial calls: each counts until it has ended, or until it must have."""
        rows: list[dict[str, object]] = [
            {
                "provider": job.provider, "job_id": job.id, "fence": job.lock_token,
                "locked_until": now + self._longest(job),
            }
            for job in claimed
            if gates.get(job.provider or "", OPEN).trial
        ]  # fmt: skip
        if rows:
            provider_states.add_trials(tx, rows)

    def _half_open(
        self, tx: Tx, claimed: Sequence[Job], gates: Mapping[str, Gate], now: datetime
    ) -> dict[str, BreakerChange]:
        """Write down what time alone has done, with the first call that goes out since: it is told once."""
        turning = [job for job in claimed if gates.get(job.provider or "", OPEN).turns]
        firsts = {job.provider or "": job.id for job in reversed(turning)}
        states = provider_states.locked(tx, firsts, now) if firsts else {}
        changes: dict[str, BreakerChange] = {}
        for name, state in states.items():
            passed = breaker.passed(health_of(state), now)
            if passed.breaker != state.breaker:  # or an end has changed it since the look
                provider_states.save(tx, replace(state, **asdict(passed)), now)
                changes[firsts[name]] = BreakerChange(event=LogEvent.BREAKER_HALF_OPEN, provider=name)
        return changes

    def _longest(self, job: Job) -> timedelta:
        kind = self.settings.types[job.type]
        return longest_timeout(kind, self.settings.timeouts) + self.settings.worker.lease

    def _spend(self, tx: Tx, name: str, count: int, now: datetime) -> None:
        (state,) = provider_states.locked(tx, [name], now).values()
        spent = take_tokens(self.rates[name], Bucket(state.rate_tokens, state.rate_at), now, count)
        provider_states.save(tx, replace(state, rate_tokens=spent.tokens, rate_at=spent.at), now)

    def opens_at(self, tx: Tx, now: datetime) -> datetime | None:
        """When the next gate that is shut opens by time alone; None when time opens none."""
        states = provider_states.states(tx, self.settings.providers)
        times = [self.gate(state, now, 0, 0).again_at for state in states.values()]
        return min((at for at in times if at is not None and at > now), default=None)

    # --- The end of an attempt ---

    def recovering(self, tx: Tx, found: Iterable[Job], now: datetime) -> frozenset[str]:
        """The providers known to be unwell: what they fail costs their jobs nothing."""
        states = provider_states.states(tx, {job.provider for job in found if job.provider})
        return frozenset(
            name for name, state in states.items() if breaker.is_recovering(health_of(state), now)
        )

    def spent_budgets(self, tx: Tx, now: datetime) -> frozenset[str]:
        """The providers whose retries have used up the share of their first calls that the budget allows."""
        budget = self.settings.retry.budget
        calls = provider_states.calls_since(tx, now - budget.window)
        return frozenset(
            name
            for name, (first, again) in calls.items()
            if not budget_allows(first, again, ratio=budget.ratio, floor=budget.floor)
        )

    def told(self, tx: Tx, ends: Sequence[tuple[Ended, Job]], now: datetime) -> dict[str, BreakerChange]:
        """Let the breakers learn from how calls ended; a change worth knowing becomes an event.

        By job: which end changed a breaker, or began a hold.
        """
        ids = [job.id for _, job in ends]
        names = sorted({job.provider for _, job in ends if job.provider})
        states = provider_states.states(tx, names)
        quiet = all(_plain(state) and not _old(state, now) for state in states.values())
        if quiet and not any(_news(ended) for ended, _ in ends):
            return {}
        states = provider_states.locked(tx, names, now)
        # Only failures are compared with it, and to count a hundred thousand jobs takes its time.
        failed = any(isinstance(ended.end, Failed) for ended, _ in ends)
        flying = claims.in_flight(tx) if failed else {}
        provider_states.drop_trials(tx, ids)
        changes: dict[str, BreakerChange] = {}
        for name in names:
            ours = [ended for ended, job in ends if job.provider == name]
            changes |= self._learn(tx, states[name], ours, now, flying.get(name, 0))
        return changes

    def _learn(
        self, tx: Tx, state: ProviderState, ends: Sequence[Ended], now: datetime, in_flight: int
    ) -> dict[str, BreakerChange]:
        rules = self.rules.get(state.name, Rules())
        before = health = health_of(state)
        reasons: list[str] = []
        changes: dict[str, BreakerChange] = {}
        for ended in ends:
            change = _after(health, rules, now, ended, in_flight)
            if change.reasons and (turned := _turned(state.name, breaker.passed(health, now), change)):
                changes[ended.job.id] = turned
            health = change.health
            reasons += change.reasons
        headers = next((text for ended in reversed(ends) if (text := _limits_said(ended))), None)
        if health == before and headers in (None, state.last_headers):
            return {}
        changed = replace(state, **asdict(health), last_headers=headers or state.last_headers)
        provider_states.save(tx, changed, now)
        if health.breaker == Breaker.CLOSED != before.breaker:
            provider_states.forget_trials(tx, state.name)
        tell(tx, state.name, reasons, now)
        return changes


def health_of(state: ProviderState) -> Health:
    """The part of a provider's row that the breaker knows."""
    return Health(**{name: getattr(state, name) for name in _HEALTH_NAMES})


def tell(
    tx: Tx, name: str, reasons: Iterable[str], now: datetime, *, actor: str = "system", why: str | None = None
) -> None:
    """Write down what happened to a provider."""
    events = [
        Event(kind="provider", actor=actor, at=now, reason=why, detail={"provider": name, "what": reason})
        for reason in reasons
    ]
    if events:
        history.add_events(tx, events)


def _turned(name: str, before: Health, change: Change) -> BreakerChange | None:
    """Whether the breaker stands otherwise than *before*, or a hold began; a pause is neither."""
    after = change.health
    why = change.reasons[0].partition(": ")[2]
    if after.held_at and not before.held_at:
        event, until = LogEvent.PROVIDER_HELD, after.paused_until
    elif (after.breaker, after.breaker_since) != (before.breaker, before.breaker_since):
        event, until = _CHANGED_TO[Breaker(after.breaker)], after.opened_until
    else:
        return None
    return BreakerChange(event=event, provider=name, why=why, until=until)


def _plain(state: ProviderState) -> bool:
    return (
        state.breaker == Breaker.CLOSED
        and not state.failures
        and state.paused_until is None
        and state.held_at is None
        and state.concurrency_cap is None
    )


def _old(state: ProviderState, now: datetime) -> bool:
    """Whether what its headers last said of its limits is worth writing down anew."""
    return state.updated_at is None or now - state.updated_at >= _HEADERS_EVERY


def _news(ended: Ended) -> bool:
    """Whether a healthy provider could change by it."""
    if isinstance(ended.end, Failed):
        failure = ended.end.failure
        unwell = (ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED, ErrorClass.AUTH)
        return failure.error_class in unwell or breaker.is_counted(failure)
    return False


def _after(health: Health, rules: Rules, now: datetime, ended: Ended, in_flight: int) -> Change:
    match ended.end:
        case Failed(failure=failure):
            return breaker.failed(
                health, rules, now, failure=failure, started_at=ended.started_at, in_flight=in_flight
            )
        case Succeeded():
            return breaker.succeeded(health, rules, now, started_at=ended.started_at)
        case Parked(facts=facts) if facts.http_status is not None and facts.http_status < 400:
            return breaker.succeeded(health, rules, now, started_at=ended.started_at)
        case _:
            return Change(health=health)


def _limits_said(ended: Ended) -> str | None:
    match ended.end:
        case Failed(failure=Failure(facts=facts)) | Succeeded(facts=facts) | Parked(facts=facts):
            return facts.rate_limits
        case _:
            return None


def _again_at(state: ProviderState, admission: Admission, now: datetime) -> datetime | None:
    """When a gate that is shut opens by time alone, for a probe too; None when a person has to open it."""
    if admission.allowed is None or admission.allowed > 0:
        return None
    times = [t for t in (state.paused_until, state.opened_until) if t is not None and now < t < NEVER]
    return min(times, default=None)


def _metered(gate: Gate, state: ProviderState, rate: Rate, now: datetime) -> Gate:
    """*gate* under a rate: never more calls than it has tokens for."""
    bucket = tokens_at(rate, Bucket(state.rate_tokens, state.rate_at), now)
    there = int(bucket.tokens or 0)
    if gate.allowed is not None and gate.allowed <= there:
        return gate
    if there > 0:
        return replace(gate, allowed=there, reason=f"{state.name}: rate {rate}")
    return replace(gate, allowed=0, reason=f"{state.name}: rate {rate} used up", again_at=bucket.next_at)
