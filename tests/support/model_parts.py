"""What the random lives are made of: settings, what the model knows of a job, and how attempts end."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aijobs.core.lifecycle import Abandoned, AttemptEnd, Cancelled, Failed, Parked, Succeeded
from aijobs.core.model import CallFacts, ErrorClass, Failure, Job, Status
from aijobs.core.settings import Settings
from tests.support.clock import START
from tests.support.jobs import settings_of

_TYPES = {
    "t": {"provider": "p", "notify": ["people"]},
    "held": {"provider": "p", "on_unknown_outcome": "hold"},
}
ENDS = ("done", "parked", "abandoned", "cancelled", "network", "bad_response", "invalid_request", "internal")


def _settings(of_all: dict[str, Any], of_t: dict[str, Any], of_p: dict[str, Any]) -> Settings:
    """With limits over everything, of the type `t`, and of the provider `p`."""
    return settings_of(
        concurrency={"global": None, "per_user": None} | of_all,
        providers={"p": {"kind": "python", "callable": "builtins:str"} | of_p},
        types=_TYPES | {"t": _TYPES["t"] | of_t},
        retry={"worker_lost": {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}},
        notify={"people": {"kind": "log", "on": ["succeeded", "dead_letter", "cancelled"]}},
    )


SETTINGS = (
    _settings({}, {}, {}),
    _settings({"global": 2}, {}, {}),
    _settings({"per_user": 1}, {}, {}),
    _settings({}, {"per_user": 1}, {}),
    _settings({}, {"concurrency": 2}, {}),
    _settings({}, {}, {"concurrency": 3}),
)


@dataclass(slots=True)
class Known:
    """What the model knows of one job."""

    id: str
    type: str
    user: str
    status: Status
    fence: int = 0
    until: datetime = START  # of the lease, while a worker holds it
    round: int = 1
    work: str | None = None
    parked: bool = False
    closed: bool = False  # of a dead letter: nobody is to replay it


def past_limits(settings: Settings, running: Collection[Known], started: Collection[Known]) -> list[str]:
    """The limits that jobs just *started* go past, with what was *running* before.

    What ran before may be past them by itself: limits are changed, and nothing is stopped for it.
    """
    counts = Counter(place for one in (*running, *started) for place in _bounds(settings, one))
    bounds = {place: most for one in started for place, most in _bounds(settings, one).items()}
    return [
        f"{place}: {counts[place]} run, {most} may"
        for place, most in bounds.items()
        if most is not None and counts[place] > most
    ]


def _bounds(settings: Settings, one: Known) -> dict[str, int | None]:
    """Every limit a job counts in, with its bound."""
    kind = settings.types[one.type]
    return {
        "all": settings.concurrency.global_,
        f"user {one.user}": settings.concurrency.per_user,
        f"type {one.type}": kind.concurrency,
        f"type {one.type}, user {one.user}": kind.per_user,
        f"provider {kind.provider}": settings.providers[kind.provider].concurrency,
    }


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
