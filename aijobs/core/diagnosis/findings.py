"""What checks find, and what follows from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from aijobs.core.durations import format_duration
from aijobs.core.model import ErrorClass


class Layer(StrEnum):
    """Where a job can be kept, in the order in which it passes."""

    CLIENT = "client"  # what was asked for, and when
    QUEUE = "queue"  # pauses, limits, the line
    WORKER = "worker"
    PROVIDER = "provider"
    WEBHOOK = "webhook"
    RESULT = "result"
    NOTIFICATION = "notification"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: whether all is well, what was seen, since when; if not well, whose it is and what to do."""

    check: str
    ok: bool
    evidence: str
    since: datetime | None = None
    layer: Layer | None = None
    next_steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All findings, and what they come to. *layer* None: nothing is wrong."""

    findings: tuple[Finding, ...]
    layer: Layer | None
    summary: str
    next_steps: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.layer is None


def conclude(findings: Iterable[Finding], *, well: str) -> Diagnosis:
    """The layer of the first finding that is not well, and the steps of all of them; *well* if all are."""
    found = tuple(findings)
    wrong = [finding for finding in found if not finding.ok]
    if not wrong:
        return Diagnosis(findings=found, layer=None, summary=well, next_steps=())
    return Diagnosis(
        findings=found,
        layer=wrong[0].layer,
        summary=wrong[0].evidence,
        next_steps=tuple(dict.fromkeys(step for finding in wrong for step in finding.next_steps)),
    )


_E = ErrorClass
_LAYERS = MappingProxyType(
    {
        _E.INVALID_REQUEST: Layer.CLIENT,
        _E.CONTEXT_LENGTH: Layer.CLIENT,
        _E.CONTENT_POLICY: Layer.CLIENT,
        _E.CANCELLED: Layer.CLIENT,
        _E.DEADLINE_EXCEEDED: Layer.QUEUE,
        _E.WORKER_LOST: Layer.WORKER,
        _E.INTERNAL: Layer.WORKER,
    }
)
_KNOWN = frozenset(one.value for one in _E)
_NOT_SAVED = "end_refused"


def layer_of(error_class: str | None, code: str | None) -> Layer:
    """Who is behind an error; what is not our own doing, or the request's, is the provider's."""
    if code == _NOT_SAVED:
        return Layer.RESULT
    if error_class is None or error_class not in _KNOWN:
        return Layer.WORKER
    return _LAYERS.get(_E(error_class), Layer.PROVIDER)


def many(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def ago(span: timedelta) -> str:
    """A span in words, to the second."""
    return format_duration(timedelta(seconds=max(0, round(span.total_seconds()))))
