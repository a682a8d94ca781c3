"""The provider that drills call: a real HTTP server, simulated, which keeps a list of what it was asked."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol


class ProviderCall(Protocol):
    """One call as the provider saw it."""

    @property
    def at(self) -> datetime:
        """When it came."""
        ...

    @property
    def finished_at(self) -> datetime | None:
        """When its answer was out; None while it is not."""
        ...

    @property
    def method(self) -> str:
        """Of HTTP."""
        ...

    @property
    def job(self) -> str:
        """The id of the job it is about."""
        ...

    @property
    def status(self) -> int | None:
        """How it was answered; None: not at all."""
        ...

    @property
    def in_flight(self) -> int:
        """How many were under way as it began, itself included."""
        ...


class Provider(Protocol):
    """The simulated provider, as far as drills need it."""

    @property
    def url(self) -> str:
        """Where it answers, without a path."""
        ...

    def calls(self) -> Sequence[ProviderCall]:
        """Every call so far, in order."""
        ...

    def billed(self, job: str | None = None) -> int:
        """How often it did the work: in all, or for one job."""
        ...

    def snapshot(self) -> Mapping[str, object]:
        """What it counted."""
        ...

    def set_fault(self, fault: str | None) -> None:
        """From now on this goes wrong (None: nothing)."""
        ...

    def set_latency(self, latency: str | float) -> None:
        """From now on its work takes so long."""
        ...


class StartProvider(Protocol):
    """Starts a provider, which stops at the end of the block."""

    def __call__(self) -> AbstractContextManager[Provider]:
        """A new one."""
        ...


def submits(calls: Iterable[ProviderCall], jobs: Iterable[str]) -> list[ProviderCall]:
    """The calls that asked for work on one of *jobs*, in order."""
    wanted = frozenset(jobs)
    return [call for call in calls if call.method == "POST" and call.job in wanted]


def most_at_once(calls: Iterable[ProviderCall]) -> int:
    """The most of *calls* that were under way at one instant; one that ends as another begins is over."""
    steps = []
    for call in calls:
        steps.append((call.at, 1))
        if call.finished_at is not None:
            steps.append((call.finished_at, -1))
    most = now = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most
