"""Tracing: what happens to jobs, told as spans. Loaded only where they are wished for (see `tracing_setup`).

Times are those the store has, so that a span is right whoever tells it, and each span is told once, complete,
when it has ended. A job's `traceparent` is the place of the span that put it in; if nothing traced then, it
is what the caller gave.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import AijobsError
from aijobs.core.model import NO_CALL, Failure, Job, NewJob, Pending, Reply
from aijobs.core.spans import Asked, Span, call_span, enqueue_span, process_span, wait_span
from aijobs.core.trace_context import TraceContext, attempt_span_id, below, new_trace_id, parse, trace_of
from aijobs.providers.contract import PollFailed
from aijobs.services.coordinator.values import Claim, Ended, Enqueued, Finished

A = TypeVar("A", bound=Enqueued | AijobsError)

MANY = 100
"""From so many jobs in one transaction on, one span stands for those of a type."""
FLUSH_SECONDS = 1.0
"""How long the end of a process waits for spans to be sent."""

_Asked = tuple[NewJob, TraceContext | None, Enqueued | AijobsError | None]


class Sink(Protocol):
    """Where spans go. No method raises, and only `close` waits for a network."""

    def current(self) -> TraceContext | None:
        """The span in which the caller's program is just now, if it is in one."""
        ...

    def samples(self, trace_id: str) -> bool:
        """Whether a trace that begins with us is to be recorded."""
        ...

    def take(self, span: Span) -> None:
        """Send *span* some time soon."""
        ...

    def close(self, seconds: float) -> None:
        """Send what there is, for so long at most."""
        ...


class Tracing:
    """Makes spans of what the coordinator and the worker do."""

    def __init__(self, sink: Sink, *, clock: Clock, chance: Chance) -> None:
        self.clock = clock
        self._sink = sink
        self._chance = chance

    def close(self) -> None:
        """Send what is left; at most for a moment."""
        self._sink.close(FLUSH_SECONDS)

    # --- Enqueue ---

    def enqueue(self, new: Sequence[NewJob], create: Callable[[Sequence[NewJob]], list[A]]) -> list[A]:
        """Have *create* make the jobs, each with the place of its span as its `traceparent`."""
        began = self.clock.now()
        parents = self._parents(new)
        places = [self._place_below(parent) for parent in parents]
        if len(new) >= MANY:
            places = _shared(new, places, parents)
        marked = [replace(one, traceparent=place.traceparent) for one, place in zip(new, places, strict=True)]
        answers: Sequence[Enqueued | AijobsError | None] = [None] * len(new)
        try:
            created = create(marked)
            answers = created
        except AijobsError as fault:
            answers = [fault] * len(new)
            raise
        finally:
            asked = zip(new, places, parents, answers, strict=True)
            self._tell_enqueued(asked, began, self.clock.now())
        return created

    def _parents(self, new: Sequence[NewJob]) -> list[TraceContext | None]:
        current = self._sink.current()
        return [parse(one.traceparent) or current for one in new]

    def _place_below(self, parent: TraceContext | None) -> TraceContext:
        if parent is not None:
            return below(parent, self._chance)
        trace_id = new_trace_id(self._chance)
        return below(TraceContext(trace_id, "", self._sink.samples(trace_id)), self._chance)

    def _tell_enqueued(
        self,
        asked: Iterable[tuple[NewJob, TraceContext, TraceContext | None, Enqueued | AijobsError | None]],
        began: datetime,
        ended: datetime,
    ) -> None:
        groups: dict[TraceContext, list[_Asked]] = {}
        for new, place, parent, answer in asked:
            groups.setdefault(place, []).append((new, parent, answer))
        for place, group in groups.items():
            new, parent, answer = group[0]
            known = answer if isinstance(answer, Enqueued) and len(group) == 1 else None
            self._sink.take(
                enqueue_span(
                    new.type, place=place, parent=parent, began=began, ended=ended, count=len(group),
                    job=known.job if known else None, duplicate=known is not None and known.duplicate,
                    link=parse(known.job.traceparent) if known and known.duplicate else None,
                    error=answer.kind if isinstance(answer, AijobsError) else None,
                )
            )  # fmt: skip

    # --- Wait and process ---

    def claimed(self, claims: Iterable[Claim]) -> None:
        """Jobs were leased: their waits are over."""
        for claim in claims:
            if claim.due_at is not None:
                parent, trace = self._origin(claim.job)
                self._sink.take(
                    wait_span(claim.job, due_at=claim.due_at, place=below(trace, self._chance), parent=parent)
                )

    def ended(self, ends: Sequence[Ended], answers: Sequence[Finished], now: datetime) -> None:
        """The ends of attempts were written at *now*. One that goes on at its provider has not ended."""
        for ended, answer in zip(ends, answers, strict=True):
            move = answer.move
            if move is not None and move.outcome is not None:
                parent, _ = self._origin(ended.job)
                self._sink.take(
                    process_span(
                        ended.job, move, place=self._attempt(ended.job), parent=parent,
                        began=ended.started_at, ended=now, worker=ended.worker,
                    )
                )  # fmt: skip

    # --- Calls ---

    def traceparent_of(self, job: Job) -> str:
        """What the calls of the running attempt of *job* are below."""
        return self._attempt(job).traceparent

    def place_of_call(self, traceparent: str | None) -> tuple[TraceContext, TraceContext] | None:
        """The parent of a call and a place for it; None when it belongs to no attempt."""
        parent = parse(traceparent)
        return None if parent is None else (parent, below(parent, self._chance))

    def called(
        self, asked: Asked, reply: Reply | PollFailed | None, *, place: TraceContext, parent: TraceContext
    ) -> None:
        """A provider was asked; *reply* is None when the caller could not wait for it."""
        answer = reply.failure if isinstance(reply, PollFailed) else reply
        error = "cancelled" if answer is None else None
        if isinstance(answer, Failure):
            error = answer.error_class.value
        facts = NO_CALL if answer is None else answer.facts
        pending = isinstance(answer, Pending)
        self._sink.take(call_span(asked, facts, place=place, parent=parent, error=error, pending=pending))

    # --- Places ---

    def _attempt(self, job: Job) -> TraceContext:
        _, trace = self._origin(job)
        return replace(trace, span_id=attempt_span_id(job))

    def _origin(self, job: Job) -> tuple[TraceContext | None, TraceContext]:
        """The span that put *job* in, if there is one, and its trace."""
        parent = parse(job.traceparent)
        if parent is not None:
            return parent, parent
        trace_id = trace_of(job)
        return None, TraceContext(trace_id, "", self._sink.samples(trace_id))


def _shared(
    new: Sequence[NewJob], places: Sequence[TraceContext], parents: Sequence[TraceContext | None]
) -> list[TraceContext]:
    """One place for all jobs of a type below the same parent."""
    first: dict[tuple[str, TraceContext | None], TraceContext] = {}
    return [
        first.setdefault((one.type, parent), place)
        for one, place, parent in zip(new, places, parents, strict=True)
    ]
