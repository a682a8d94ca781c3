"""Limits and fairness: which of the waiting jobs may start now. Pure; the claim transaction performs it.

The rule, in one sentence: among the jobs that no limit holds back, the highest priority first; within a
priority the types take turns, and within a type the users take turns (start-time fair queueing), so that one
user's flood costs the others one place, not the whole queue.

A rule of strict priorities lets long jobs of low priority take every place before an urgent one comes. Where
that matters, some places of the global limit can be kept for jobs of at least a given priority.

A running job counts until its lease is gone (finished, or found lost), whether a worker holds it or a
provider works on it in the background: otherwise background mode would walk around every limit.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLimits:
    """What bounds one type. None: no bound; 0: nothing starts."""

    provider: str
    concurrency: int | None = None
    per_user: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every bound in force, by name."""

    total: int | None = None
    reserved: int = 0  # places of *total* that are kept ...
    reserved_from: int = 0  # ... for jobs of at least this priority
    per_user: int | None = None  # over all types
    providers: Mapping[str, int | None] = field(default_factory=dict)
    types: Mapping[str, TypeLimits] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether a claim has to count what runs (and so to be the only one claiming)."""
        bounds = [self.total, self.per_user, *self.providers.values()]
        bounds += [bound for t in self.types.values() for bound in (t.concurrency, t.per_user)]
        return any(bound is not None for bound in bounds)

    def most_of_user(self, type_name: str) -> int | None:
        """How many jobs of the type one user may have running at most; None where nothing bounds it."""
        bounds = (self.per_user, self.types[type_name].per_user)
        return min((bound for bound in bounds if bound is not None), default=None)

    def along(self, providers: Mapping[str, str]) -> "Limits":
        """The same, the types named in *providers* counted against the provider their calls really go to."""
        elsewhere = {
            name: replace(self.types[name], provider=provider)
            for name, provider in providers.items()
            if provider != self.types[name].provider
        }
        return replace(self, types={**self.types, **elsewhere}) if elsewhere else self


@dataclass(frozen=True, slots=True)
class Running:
    """How many jobs of one (type, user, provider) run now."""

    type: str
    user: str
    provider: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """One waiting job whose turn may have come."""

    id: str
    type: str
    user: str
    priority: int
    turn: int
    due_at: datetime | None = None


_NO_GATES: Mapping[str, tuple[int, str]] = MappingProxyType({})


class Tally:
    """What runs, counted by each limit's own measure; grows as candidates are taken."""

    def __init__(
        self,
        limits: Limits,
        running: Iterable[Running] = (),
        *,
        starts: Mapping[str, tuple[int, str]] = _NO_GATES,
    ) -> None:
        """*starts*: how many more calls some providers may be sent now, and why no more."""
        self.limits = limits
        self._starts = {provider: left for provider, (left, _) in starts.items()}
        self._why = {provider: reason for provider, (_, reason) in starts.items()}
        self._total = 0
        self._users: Counter[str] = Counter()
        self._providers: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._type_users: Counter[tuple[str, str]] = Counter()
        for one in running:
            self._count(one.type, one.user, one.provider, one.count)

    def blocked_type(self, type_name: str) -> str | None:
        """The limit that keeps every job of the type from starting, in words, or None."""
        limits = self.limits.types[type_name]
        provider = limits.provider
        if self._starts.get(provider) == 0:
            return self._why[provider]
        if _full(self._total, self.limits.total):
            return f"the global limit of {self.limits.total} is reached"
        if _full(self._providers[provider], self.limits.providers.get(provider)):
            return f"provider {provider} runs its limit of {self.limits.providers[provider]}"
        if _full(self._types[type_name], limits.concurrency):
            return f"type {type_name} runs its limit of {limits.concurrency}"
        return None

    def blocked_priority(self, priority: int) -> str | None:
        """Whether the last places are kept for more urgent jobs than this, in words, or None."""
        limits = self.limits
        if limits.total is None or not limits.reserved or priority >= limits.reserved_from:
            return None
        if self._total < limits.total - limits.reserved:
            return None
        return (
            f"the last {limits.reserved} places are kept for jobs of priority {limits.reserved_from} and more"
        )

    def blocked_user(self, type_name: str, user: str) -> str | None:
        """The limit that keeps this user's jobs of the type from starting, in words, or None."""
        if _full(self._users[user], self.limits.per_user):
            return f"user {user or '(none)'} runs the limit of {self.limits.per_user}"
        per_user = self.limits.types[type_name].per_user
        if _full(self._type_users[type_name, user], per_user):
            return f"user {user or '(none)'} runs the limit of {per_user} of type {type_name}"
        return None

    def take(self, candidate: Candidate) -> bool:
        """Count *candidate* as running if no limit holds it back; say whether it was taken."""
        if self.blocked_type(candidate.type) or self.blocked_user(candidate.type, candidate.user):
            return False
        if self.blocked_priority(candidate.priority):
            return False
        provider = self.limits.types[candidate.type].provider
        self._count(candidate.type, candidate.user, provider, 1)
        if provider in self._starts:
            self._starts[provider] -= 1
        return True

    def _count(self, type_name: str, user: str, provider: str | None, count: int) -> None:
        self._total += count
        self._users[user] += count
        self._types[type_name] += count
        self._type_users[type_name, user] += count
        if provider is not None:
            self._providers[provider] += count


def choose(candidates: Sequence[Candidate], tally: Tally, slots: int) -> list[Candidate]:
    """The candidates to start, best first, at most *slots*; *tally* then counts them as running.

    Turns are numbered within a type; to set types side by side each candidate is measured by its distance
    from the first turn of its type and priority.
    """
    heads: dict[tuple[str, int], int] = {}
    for one in candidates:
        place = (one.type, one.priority)
        heads[place] = min(heads.get(place, one.turn), one.turn)
    ordered = sorted(candidates, key=lambda c: (-c.priority, c.turn - heads[c.type, c.priority], c.id))
    chosen: list[Candidate] = []
    for one in ordered:
        if len(chosen) >= slots:
            break
        if tally.take(one):
            chosen.append(one)
    return chosen


def _full(count: int, bound: int | None) -> bool:
    return bound is not None and count >= bound
