"""What is told of a job to a tracing system: four kinds of spans, each complete when it is told. Pure.

Names and attributes follow OpenTelemetry's conventions for messaging and for generative AI, both still in
development. They hold ids, names, counts and classes; never an input, a prompt, a result, an error's text or
a secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from aijobs.core.lifecycle import Move
from aijobs.core.model import CallFacts, Job, Outcome
from aijobs.core.trace_context import TraceContext

Attributes = Mapping[str, str | int | bool | float]

SYSTEM = "aijobs"
_TOKENS = MappingProxyType(
    {
        "gen_ai.usage.input_tokens": "input_tokens",
        "gen_ai.usage.output_tokens": "output_tokens",
        "gen_ai.usage.cache_read.input_tokens": "cache_read_tokens",
        "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens",
        "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
    }
)


class SpanKind(StrEnum):
    """Who a span is about."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    CLIENT = "client"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span, ended. *error*: the class of what went wrong; None: nothing did."""

    name: str
    kind: SpanKind
    place: TraceContext
    parent: TraceContext | None
    began: datetime
    ended: datetime
    attributes: Attributes = field(default_factory=dict)
    links: tuple[TraceContext, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request to a provider: what for, whom, when."""

    verb: str  # submit, poll, cancel
    operation: str | None  # what the conventions call it: chat; None where they have no word
    model: str | None
    about: Attributes  # what is the same in every call to this provider
    client_request_id: str
    job_id: str
    type: str
    attempt: int
    began: datetime
    ended: datetime


def enqueue_span(
    type_name: str, *, place: TraceContext, parent: TraceContext | None, began: datetime, ended: datetime,
    job: Job | None = None, duplicate: bool = False, count: int = 1, error: str | None = None,
    link: TraceContext | None = None,
) -> Span:  # fmt: skip
    """Jobs of one type were asked for. *job*: which it became, or already was; *count*: how many at once."""
    about: dict[str, str | int | bool | float] = {**_messaging(type_name, "enqueue", "send")}
    if job is not None:
        about |= _known({"messaging.message.id": job.id, "aijobs.request_id": job.request_id})
        about["aijobs.duplicate"] = duplicate
    if count > 1:
        about["messaging.batch.message_count"] = count
    return Span(
        name=f"enqueue {type_name}", kind=SpanKind.PRODUCER, place=place, parent=parent,
        began=began, ended=max(began, ended), attributes=about, links=(link,) if link else (), error=error,
    )  # fmt: skip


def wait_span(job: Job, *, due_at: datetime, place: TraceContext, parent: TraceContext | None) -> Span:
    """*job* was claimed after it had been due since *due_at*."""
    claimed_at = job.claimed_at or due_at
    about = {**_messaging(job.type, "wait", None), **_of_job(job)}
    return Span(
        name=f"wait {job.type}", kind=SpanKind.INTERNAL, place=place, parent=parent,
        began=min(due_at, claimed_at), ended=claimed_at, attributes=about,
    )  # fmt: skip


def process_span(
    job: Job, move: Move, *, place: TraceContext, parent: TraceContext | None, began: datetime,
    ended: datetime, worker: str,
) -> Span:  # fmt: skip
    """One attempt of *job* ended with *move*, which carries an outcome."""
    failure, outcome = move.failure, move.outcome
    bad = failure is not None and outcome in (Outcome.FAILED, Outcome.LOST)
    about = {
        **_messaging(job.type, "process", "process"),
        **_of_job(job),
        **_known(
            {
                "messaging.client.id": worker,
                "aijobs.provider": job.provider,
                "gen_ai.request.model": job.model,
                "aijobs.outcome": outcome.value if outcome else None,
                "aijobs.status": move.target.value,
            }
        ),
    }
    if move.hold:
        about["aijobs.held"] = True
    if failure is not None and bad and failure.maybe_billed:
        about["aijobs.maybe_billed"] = True
    return Span(
        name=f"process {job.type}", kind=SpanKind.CONSUMER, place=place, parent=parent, began=began,
        ended=max(began, ended), attributes=about, links=(parent,) if parent else (),
        error=failure.error_class.value if failure is not None and bad else None,
    )  # fmt: skip


def call_span(
    asked: Asked, facts: CallFacts, *, place: TraceContext, parent: TraceContext, error: str | None,
    pending: bool = False,
) -> Span:  # fmt: skip
    """A provider was asked and answered, or did not."""
    about = {
        **asked.about,
        **_known(
            {
                "gen_ai.operation.name": asked.operation,
                "gen_ai.request.model": asked.model,
                "gen_ai.response.model": facts.model if facts.http_status is not None else None,
                "gen_ai.response.id": facts.provider_job_id,
                "http.response.status_code": facts.http_status,
                "aijobs.call": asked.verb,
                "aijobs.client_request_id": asked.client_request_id,
                "aijobs.provider_request_id": facts.provider_request_id,
                "aijobs.job.id": asked.job_id,
                "aijobs.job.type": asked.type,
                "aijobs.job.attempt": asked.attempt,
            }
        ),
        **_known({name: getattr(facts.usage, field) for name, field in _TOKENS.items()}),
    }
    if pending:
        about["aijobs.pending"] = True
    words = (asked.operation if asked.verb == "submit" else None) or asked.verb, asked.model
    return Span(
        name=" ".join(word for word in words if word), kind=SpanKind.CLIENT, place=place, parent=parent,
        began=asked.began, ended=max(asked.began, asked.ended), attributes=about, error=error,
    )  # fmt: skip


def _messaging(type_name: str, operation: str, kind: str | None) -> dict[str, str | int | bool | float]:
    return _known(
        {
            "messaging.system": SYSTEM,
            "messaging.destination.name": type_name,
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
        }
    )


def _of_job(job: Job) -> dict[str, str | int | bool | float]:
    return {
        "messaging.message.id": job.id,
        "aijobs.job.attempt": job.attempts,
        "aijobs.job.round": job.round,
    }


def _known(values: Mapping[str, str | int | None]) -> dict[str, str | int | bool | float]:
    return {name: value for name, value in values.items() if value is not None}
