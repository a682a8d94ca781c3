"""What one tick did, or in a preview would do."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aijobs.core.ticking import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One window and its job; None in a preview, where there is none yet."""

    schedule: str
    window: datetime
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Windows that get no job: *count* of them, of which *window* is the newest (0: it only waits)."""

    schedule: str
    window: datetime
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the operator must know about one schedule."""

    schedule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReport:
    """The windows that got a job, and those that did not.

    *existing* are windows whose job was there already; *failed* are schedules that could not fire, and that
    the next tick tries again.
    """

    at: datetime
    created: list[Fired] = field(default_factory=list)
    existing: list[Fired] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    failed: list[Said] = field(default_factory=list)
    notes: list[Said] = field(default_factory=list)

    def add_fired(self, name: str, window: datetime, job_id: str | None, *, existing: bool) -> None:
        """One window that has, or in a preview would get, a job."""
        into = self.existing if existing else self.created
        into.append(Fired(schedule=name, window=window, job_id=job_id))

    def add_rest(self, name: str, decision: Decision) -> None:
        """What *decision* leaves out, and what it says."""
        for skip in decision.skipped:
            self.skipped.append(
                Skipped(schedule=name, window=skip.window, reason=skip.reason, count=skip.count)
            )
        if decision.note:
            self.add_note(name, decision.note)

    def add_note(self, name: str, reason: str) -> None:
        """What the operator must know of a schedule."""
        self.notes.append(Said(schedule=name, reason=reason))

    def add_failed(self, name: str, reason: str) -> None:
        """A schedule that could not fire."""
        self.failed.append(Said(schedule=name, reason=reason))

    def absorb(self, part: "TickReport") -> None:
        """Take over what became of one schedule, once it is committed."""
        self.created.extend(part.created)
        self.existing.extend(part.existing)
        self.skipped.extend(part.skipped)
        self.notes.extend(part.notes)

    def document(self) -> dict[str, Any]:
        """The report as the JSON it is known by."""
        return {
            "at": self.at,
            "created": [_fired(one) for one in self.created],
            "existing": [_fired(one) for one in self.existing],
            "skipped": [
                {"schedule": one.schedule, "window": one.window, "reason": one.reason, "count": one.count}
                for one in self.skipped
            ],
            "failed": [{"schedule": one.schedule, "reason": one.reason} for one in self.failed],
            "warnings": [{"schedule": one.schedule, "reason": one.reason} for one in self.notes],
        }


def _fired(one: Fired) -> dict[str, Any]:
    return {"schedule": one.schedule, "window": one.window, "job_id": one.job_id}
