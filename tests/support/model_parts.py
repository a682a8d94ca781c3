"""What the random lives are made of: settings, what the model knows of a job, and how attempts end."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aijobs.core.lifecycle import Abandoned, AttemptEnd, Cancelled, Failed, Parked, Succeeded
from aijobs.core.model import CallFacts, ErrorClass, Failure, Job, Status
from tests.support.clock import START
from tests.support.jobs import settings_of

_LIMITS = ({}, {"global": 2, "per_user": None}, {"global": None, "per_user": 1})
_TYPES = {
    "t": {"provider": "p", "notify": ["people"]},
    "held": {"provider": "p", "on_unknown_outcome": "hold"},
}
ENDS = ("done", "parked", "abandoned", "cancelled", "network", "bad_response", "invalid_request", "internal")


def _settings(limits: dict[str, Any]) -> Any:
    return settings_of(
        concurrency={"global": None, "per_user": None} | limits,
        types=_TYPES,
        retry={"worker_lost": {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}},
        notify={"people": {"kind": "log", "on": ["succeeded", "dead_letter", "cancelled"]}},
    )


SETTINGS = tuple(_settings(limits) for limits in _LIMITS)


@dataclass(slots=True)
class Known:
    """What the model knows of one job."""

    id: str
    status: Status
    fence: int = 0
    until: datetime = START  # of the lease, while a worker holds it
    round: int = 1
    work: str | None = None
    parked: bool = False
    closed: bool = False  # of a dead letter: nobody is to replay it


class After:
    """Stops a replay after so many looks, and waits for nothing."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        """Whether to stop now."""
        self.looks -= 1
        return self.looks < 0

    def wait(self, timeout: float | None = None) -> None:
        """What it waits for comes between two replays."""


def end_of(kind: str, job: Job, now: datetime) -> AttemptEnd:
    """How an attempt of *job* ends, one of ENDS; parked work is to be looked at in five seconds."""
    facts = CallFacts(provider="p", http_status=200)
    match kind:
        case "done":
            return Succeeded(result='"done"', facts=facts)
        case "parked":
            until = now + timedelta(seconds=5)
            return Parked(provider_job_id=f"work-{job.id}", poll_at=until, facts=facts)
        case "abandoned":
            return Abandoned(reason="the worker stopped", started=True)
        case "cancelled":
            return Cancelled()
        case _:
            return Failed(failure=Failure(error_class=ErrorClass(kind), message="as asked"))
