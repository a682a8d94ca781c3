"""Where a piece of work stands in a trace: W3C trace context, and the places that follow from a job itself.

A job outlives the processes that work on it. So the place of an attempt is not made up when it begins and
passed on, but computed from what is stored: whoever ends it, and whoever calls a provider for it before that,
name the same span. Pure.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from aijobs.core.clock import Chance
from aijobs.core.model import Job

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """One span's place: trace and span as hexadecimal text, and whether the trace is recorded at all."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """As it is sent and stored."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def is_traceparent(text: str) -> bool:
    """Whether *text* is a W3C traceparent of four parts, as all versions so far have them."""
    return _FORM.fullmatch(text) is not None


def parse(text: str | None) -> TraceContext | None:
    """The place that a traceparent names; None when it is none."""
    found = _FORM.fullmatch(text) if text else None
    if found is None:
        return None
    return TraceContext(found[1], found[2], bool(int(found[3], 16) & 1))


def below(parent: TraceContext, chance: Chance) -> TraceContext:
    """A new place in the trace of *parent*."""
    return TraceContext(parent.trace_id, f"{chance.getrandbits(64) or 1:016x}", parent.sampled)


def new_trace_id(chance: Chance) -> str:
    """The id of a trace that begins here."""
    return f"{chance.getrandbits(128) or 1:032x}"


def trace_of(job: Job) -> str:
    """The trace of a job that came without one: its id is one, being a UUID."""
    return UUID(job.id).hex


def attempt_span_id(job: Job) -> str:
    """The span of the running attempt of *job*: the same in every process, and no other attempt's."""
    began = (job.claimed_at or job.created_at) - _EPOCH
    told = f"{job.id} {began // timedelta(microseconds=1)}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]
