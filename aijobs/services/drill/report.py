"""What a drill comes to: for each promise what was expected, what was seen, and whether they agree."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise, put to the test."""

    expected: str
    saw: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A drill's own account of itself."""

    did: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """One drill and its verdict."""

    name: str
    did: str
    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return all(check.ok for check in self.checks)
