"""Switches an operator throws: pauses, stale results, fallback. Values only; each expires by itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class SwitchKind(StrEnum):
    """What a switch does."""

    PAUSE = "pause"
    STALE_RESULTS = "stale-results"
    FALLBACK = "fallback"


ALL = "*"
BELOW_PRIORITY = "<"
"""Scopes of a pause that can be no type's name."""


def scope_name(scope: str) -> str:
    """A scope as people write it on the command line."""
    return {ALL: "all", BELOW_PRIORITY: "below-priority"}.get(scope, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch. *scope* is a job type; of a pause also ALL, or BELOW_PRIORITY with a number as *value*."""

    kind: SwitchKind
    scope: str
    value: str
    actor: str
    reason: str
    set_at: datetime
    expires_at: datetime | None = None

    def in_force(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or now < self.expires_at


def types_of(switches: Iterable[Switch], kind: SwitchKind, now: datetime) -> frozenset[str]:
    """The job types for which a switch of *kind* is in force."""
    return frozenset(s.scope for s in switches if s.kind is kind and s.in_force(now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The pauses in force, as a claim needs them."""

    everything: Switch | None = None
    below: int | None = None
    below_switch: Switch | None = None
    types: frozenset[str] = frozenset()

    @classmethod
    def of(cls, switches: Iterable[Switch], now: datetime) -> "Pauses":
        """The pauses among *switches* that are in force."""
        pauses = [s for s in switches if s.kind is SwitchKind.PAUSE and s.in_force(now)]
        below = next((s for s in pauses if s.scope == BELOW_PRIORITY), None)
        return cls(
            everything=next((s for s in pauses if s.scope == ALL), None),
            below=int(below.value) if below else None,
            below_switch=below,
            types=frozenset(s.scope for s in pauses if s.scope not in (ALL, BELOW_PRIORITY)),
        )

    def why(self, type_name: str, priority: int) -> str | None:
        """Why a job of that type and priority may not start, in words, or None."""
        if self.everything:
            return f"everything is paused: {self.everything.reason}"
        if type_name in self.types:
            return f"type {type_name} is paused"
        if self.below is not None and priority < self.below:
            return f"jobs below priority {self.below} are paused"
        return None
