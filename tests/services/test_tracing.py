"""A job as spans: enqueue, wait, process, call; with the names of OpenTelemetry's conventions."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from aijobs import Jobs
from aijobs.core.clock import seeded_chance
from aijobs.core.errors import KeyConflict
from aijobs.core.model import CallFacts, Done, Pending, Phase, Reply, Status, Usage
from aijobs.core.settings import Settings
from aijobs.core.trace_context import parse
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Coordinator, Enqueued
from aijobs.services.otel import tracing_to
from aijobs.services.tracing import MANY, Tracing
from aijobs.services.tracing_setup import tracing_of, wish_for
from aijobs.services.worker.call_spans import about
from aijobs.store.engine import Store
from tests.services.test_fallback import settings as with_fallback
from tests.services.test_fallback import turn_on
from tests.support.clock import START, ManualClock
from tests.support.jobs import claim_one, failure, new_job, present, settings_of, succeed
from tests.support.spans import Spans, attributes, parent_id, span_id, trace_id
from tests.support.wait import eventually
from tests.support.workers import Heard, ScriptedProvider, drain, running

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{CALLER}-01"
AT_ONCE = {"network": {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}}
CHATTY = settings_of(
    providers={"p": {"kind": "openai-chat", "api_key": "k", "base_url": "https://llm.example:8443/v1"}},
    types={"t": {"provider": "p", "model": "small"}},
    retry=AT_ONCE,
)
USED = Usage(input_tokens=7, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, reasoning_tokens=1)
FACTS = CallFacts(
    provider="p", model="small-2026", http_status=200, provider_job_id="resp-1",
    provider_request_id="req-1", phase=Phase.BODY, usage=USED,
)  # fmt: skip
ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.fixture
def spans(clock: ManualClock) -> Spans:
    return Spans(clock)


def coordinator_of(store: Store, spans: Spans | None, settings: Settings | None = None) -> Coordinator:
    tracing = spans.tracing if spans else None
    return Coordinator(store, settings or CHATTY, chance=seeded_chance(5), tracing=tracing)


def enqueue(store: Store, spans: Spans | None, *, settings: Settings | None = None, **changes: Any) -> str:
    return coordinator_of(store, spans, settings).enqueue(new_job(**changes), actor="test").job.id


def instants(span: ReadableSpan) -> tuple[int, int]:
    """Begin and end, in milliseconds since the test's clock began."""
    begin = int(START.timestamp() * 1000)
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time // 10**6 - begin, span.end_time // 10**6 - begin


# --- The tree of one job ----------------------------------------------------------------------------


def test_a_job_is_one_tree_from_the_caller_to_the_call(store: Store, spans: Spans) -> None:
    enqueue(store, spans, traceparent=GIVEN)

    provider = ScriptedProvider(lambda _: Done(result="1", facts=FACTS))
    drain(store, provider, settings=CHATTY, tracing=spans.tracing)

    put_in, wait, process, call = (
        spans.one(name) for name in ("enqueue t", "wait t", "process t", "chat small")
    )
    assert len(spans.all) == 4
    assert {f"{trace_id(span):032x}" for span in spans.all} == {TRACE}
    assert f"{parent_id(put_in):016x}" == CALLER
    assert (parent_id(wait), parent_id(process)) == (span_id(put_in), span_id(put_in))
    assert parent_id(call) == span_id(process)
    assert [span.kind for span in (put_in, wait, process, call)] == [
        SpanKind.PRODUCER, SpanKind.INTERNAL, SpanKind.CONSUMER, SpanKind.CLIENT,
    ]  # fmt: skip
    assert [link.context.span_id for link in process.links] == [span_id(put_in)]
    assert {span.status.status_code for span in spans.all} == {StatusCode.UNSET}
    (sent,) = provider.calls
    assert sent.traceparent == f"00-{TRACE}-{span_id(call):016x}-01"


def test_the_attributes_have_the_names_of_the_conventions(store: Store, spans: Spans) -> None:
    job_id = enqueue(store, spans, request_id="r-9")

    provider = ScriptedProvider(lambda _: Done(result="1", facts=FACTS))
    drain(store, provider, settings=CHATTY, tracing=spans.tracing, name="w1")

    messaging = {"messaging.system": "aijobs", "messaging.destination.name": "t"}
    job = {"messaging.message.id": job_id, "aijobs.job.attempt": 1, "aijobs.job.round": 1}
    assert attributes(spans.one("enqueue t")) == messaging | {
        "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
        "messaging.message.id": job_id, "aijobs.request_id": "r-9", "aijobs.duplicate": False,
    }  # fmt: skip
    assert attributes(spans.one("wait t")) == messaging | job | {"messaging.operation.name": "wait"}
    assert attributes(spans.one("process t")) == messaging | job | {
        "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.client.id": "w1", "aijobs.provider": "p", "gen_ai.request.model": "small",
        "aijobs.outcome": "succeeded", "aijobs.status": "succeeded",
    }  # fmt: skip
    assert attributes(spans.one("chat small")) == {
        "aijobs.call": "submit", "aijobs.provider": "p", "server.address": "llm.example",
        "server.port": 8443, "gen_ai.operation.name": "chat", "gen_ai.provider.name": "p",
        "gen_ai.request.model": "small", "gen_ai.response.model": "small-2026",
        "gen_ai.response.id": "resp-1", "http.response.status_code": 200,
        "aijobs.client_request_id": f"aijobs-{job_id}-1", "aijobs.provider_request_id": "req-1",
        "aijobs.job.id": job_id, "aijobs.job.type": "t", "aijobs.job.attempt": 1,
        "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 3, "gen_ai.usage.cache_creation.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "url", "vendor"),
    [
        ("openai-chat", None, "openai"),
        ("anthropic", None, "anthropic"),
        ("openai-responses", "https://us.openai.azure.com/openai/v1", "azure.ai.openai"),
        ("openai-chat", "https://openrouter.ai/api/v1", "openrouter"),
        ("http", "https://own.example", None),
    ],
)
def test_who_is_asked_has_the_name_that_the_conventions_have_for_them(
    kind: str, url: str | None, vendor: str | None
) -> None:
    provider = {"kind": kind, "api_key": "k"} | ({"base_url": url} if url else {})
    settings = settings_of(providers={"p": provider}, types={"t": {"provider": "p", "model": "m"}})

    assert about("p", settings.provider("p")).get("gen_ai.provider.name") == vendor


def test_times_are_those_of_the_store_whoever_tells_them(
    store: Store, clock: ManualClock, spans: Spans
) -> None:
    enqueue(store, None)  # put in by a process that traces nothing
    clock.advance(seconds=40)

    coordinator = coordinator_of(store, spans)
    job = claim_one(coordinator)
    clock.advance(seconds=3)
    succeed(coordinator_of(store, spans), job)  # another process

    assert instants(spans.one("wait t")) == (0, 40_000)
    assert instants(spans.one("process t")) == (40_000, 43_000)


def test_a_delayed_job_waits_from_when_it_was_due(store: Store, clock: ManualClock, spans: Spans) -> None:
    coordinator = coordinator_of(store, spans)
    enqueue(store, spans, run_at=START + timedelta(seconds=60))
    clock.advance(seconds=61)

    claim_one(coordinator)

    assert instants(spans.one("wait t")) == (60_000, 61_000)


def test_a_job_without_a_trace_has_one_of_its_own(store: Store, spans: Spans) -> None:
    job_id = enqueue(store, None)

    drain(store, settings=CHATTY, tracing=spans.tracing)

    assert present(store, job_id).traceparent is None
    assert {f"{trace_id(span):032x}" for span in spans.all} == {job_id.replace("-", "")}
    assert parent_id(spans.one("process t")) is None
    assert parent_id(spans.one("chat small")) == span_id(spans.one("process t"))


def test_a_trace_that_is_not_recorded_leaves_no_spans_and_is_passed_on_as_such(
    store: Store, spans: Spans
) -> None:
    enqueue(store, spans, traceparent=f"00-{TRACE}-{CALLER}-00")
    provider = ScriptedProvider()

    drain(store, provider, settings=CHATTY, tracing=spans.tracing)

    assert spans.all == ()
    sent = parse(provider.calls[0].traceparent)
    assert sent is not None
    assert (sent.trace_id, sent.sampled) == (TRACE, False)


# --- Other ways ---------------------------------------------------------------------------------------


def test_every_attempt_has_a_span_of_its_own(store: Store, clock: ManualClock, spans: Spans) -> None:
    enqueue(store, spans, traceparent=GIVEN)
    answers = iter([failure(), Done(result="1")])

    def answer(_: Call) -> Reply:
        clock.advance(seconds=1)
        return next(answers)

    drain(store, ScriptedProvider(answer), settings=CHATTY, tracing=spans.tracing)

    first, second = spans.named("process t")
    assert span_id(first) != span_id(second)
    assert (instants(first), instants(second)) == ((0, 1000), (1000, 2000))
    assert [attributes(span)["aijobs.job.attempt"] for span in (first, second)] == [1, 2]
    assert [attributes(span)["aijobs.status"] for span in (first, second)] == ["failed", "succeeded"]
    assert attributes(first)["error.type"] == "network"
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, None)
    assert "error.type" not in attributes(second)
    assert [parent_id(call) for call in spans.named("chat small")] == [span_id(first), span_id(second)]
    assert attributes(spans.named("chat small")[0])["error.type"] == "network"
    assert len(spans.named("wait t")) == 2


def test_a_call_to_the_fallback_names_it(store: Store, spans: Spans) -> None:
    enqueue(store, spans, settings=with_fallback())
    turn_on(store)

    drain(store, settings=with_fallback(), tracing=spans.tracing)

    call = attributes(spans.one("submit spare"))
    assert (call["aijobs.provider"], call["gen_ai.request.model"]) == ("q", "spare")
    assert attributes(spans.one("process t"))["aijobs.provider"] == "q"


def test_work_that_goes_on_at_the_provider_is_one_attempt_over_all_its_workers(
    store: Store, clock: ManualClock, spans: Spans
) -> None:
    settings = settings_of(
        types={"t": {"provider": "p", "model": "m", "background": True}},
        providers={"p": {"kind": "simulator"}},
    )
    job_id = enqueue(store, spans, settings=settings)
    provider = ScriptedProvider(lambda _: Pending(provider_job_id="resp-1"), poll=lambda _: Done(result="1"))
    with running(store, provider, settings=settings, tracing=spans.tracing):
        eventually(lambda: present(store, job_id).parked_at is not None)
    assert spans.named("process t") == []
    clock.advance(seconds=600)

    with running(store, provider, settings=settings, tracing=spans.tracing):
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)

    process, submit, poll = spans.one("process t"), spans.one("chat m"), spans.one("poll m")
    assert parent_id(submit) == parent_id(poll) == span_id(process)
    assert instants(process) == (0, 600_000)
    assert (instants(submit), instants(poll)) == ((0, 0), (600_000, 600_000))
    assert attributes(submit)["aijobs.pending"] is True
    assert len(spans.named("wait t")) == 1


def test_an_attempt_nobody_saw_the_end_of_is_told_by_who_finds_it(
    store: Store, clock: ManualClock, spans: Spans
) -> None:
    types = {"t": {"provider": "p", "on_unknown_outcome": "hold"}}
    settings = settings_of(types=types)
    enqueue(store, spans, settings=settings)
    claim_one(coordinator_of(store, None, settings))
    clock.advance(seconds=90)

    coordinator_of(store, spans, settings).rescue(limit=10)

    process = spans.one("process t")
    assert instants(process) == (0, 90_000)
    said = attributes(process)
    assert (said["error.type"], said["aijobs.outcome"], said["aijobs.maybe_billed"]) == (
        "worker_lost", "lost", True,
    )  # fmt: skip
    assert said["aijobs.held"] is True


def test_an_end_that_was_not_written_is_not_told(store: Store, clock: ManualClock, spans: Spans) -> None:
    coordinator = coordinator_of(store, spans)
    enqueue(store, spans)
    job = claim_one(coordinator)
    clock.advance(seconds=90)
    coordinator_of(store, None).rescue(limit=10)

    assert not succeed(coordinator, job).applied

    assert spans.named("process t") == []


def test_a_call_that_is_cut_off_is_told_as_cancelled(store: Store, spans: Spans) -> None:
    job_id = enqueue(store, spans)
    provider = ScriptedProvider(lambda _: asyncio.sleep(60))
    with running(store, provider, settings=CHATTY, tracing=spans.tracing) as one:
        eventually(lambda: provider.count("submit") == 1)
        one.worker.stop_now()
        one.thread.join(10)

    assert attributes(spans.one("chat small"))["error.type"] == "cancelled"
    process = attributes(spans.one("process t"))
    assert (process["aijobs.outcome"], process["aijobs.status"]) == ("abandoned", "pending")
    assert "error.type" not in process
    assert present(store, job_id).status is Status.PENDING


# --- Enqueue ------------------------------------------------------------------------------------------


def test_asking_twice_by_one_key_links_to_the_first(store: Store, spans: Spans) -> None:
    first = enqueue(store, spans, key="k")
    second = enqueue(store, spans, key="k", traceparent=GIVEN)

    one, two = spans.named("enqueue t")
    assert first == second == attributes(two)["messaging.message.id"]
    assert attributes(two)["aijobs.duplicate"] is True
    assert [link.context.span_id for link in two.links] == [span_id(one)]
    assert trace_id(one) != trace_id(two)


def test_a_refusal_is_told_by_its_kind(store: Store, spans: Spans) -> None:
    enqueue(store, spans, key="k")

    with pytest.raises(KeyConflict):
        enqueue(store, spans, key="k", value={"other": 1})

    assert attributes(spans.named("enqueue t")[1])["error.type"] == "key_conflict"


def test_many_at_once_are_one_span_and_share_it(store: Store, spans: Spans) -> None:
    new = [new_job({"n": n}) for n in range(MANY)]

    answers = coordinator_of(store, spans).enqueue_many(new, actor="test")

    span = spans.one("enqueue t")
    assert attributes(span)["messaging.batch.message_count"] == MANY
    places = {parse(one.job.traceparent) for one in answers if isinstance(one, Enqueued)}
    assert [place.span_id for place in places if place] == [f"{span_id(span):016x}"]


def test_the_python_api_enqueues_below_the_callers_own_span(sqlite_url: str) -> None:
    kept = InMemorySpanExporter()
    processor = SimpleSpanProcessor(kept)
    own = TracerProvider(shutdown_on_exit=False)
    own.add_span_processor(processor)

    with (
        Jobs(sqlite_url, tracing=tracing_to(processor)) as jobs,
        own.get_tracer("shop").start_as_current_span("checkout"),
    ):
        job = jobs.enqueue("demo", {"text": "x"}).job

    put_in, checkout = kept.get_finished_spans()
    assert (put_in.name, parent_id(put_in)) == ("enqueue demo", span_id(checkout))
    assert job.traceparent == f"00-{trace_id(checkout):032x}-{span_id(put_in):016x}-01"
    assert not trace.get_current_span().get_span_context().is_valid


# --- On or off ----------------------------------------------------------------------------------------


def wanted(environ: dict[str, str], heard: Heard | None = None) -> Tracing | None:
    return tracing_of(environ, clock=ManualClock(), chance=seeded_chance(1), log=heard or Heard())


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        ON | {"OTEL_SDK_DISABLED": "true"},
        ON | {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nobody_asked_for_spans(environ: dict[str, str]) -> None:
    heard = Heard()

    assert wanted(environ, heard) is None
    assert heard.said == []


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        (ON | {"OTEL_TRACES_EXPORTER": "zipkin"}, "otlp"),
        (ON | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(environ: dict[str, str], why: str) -> None:
    heard = Heard()

    assert wanted(environ, heard) is None
    ((_, fields),) = heard.said
    assert fields["asked_by"] == "OTEL_EXPORTER_OTLP_ENDPOINT"
    assert why in str(fields["why"])


def test_the_protocol_of_a_signal_counts_before_that_of_all() -> None:
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}

    assert wish_for("TRACES", environ).lacks is None
    assert wish_for("METRICS", environ).lacks is not None


def test_a_key_in_the_wrong_variable_is_not_repeated() -> None:
    lack = wish_for("METRICS", {"OTEL_METRICS_EXPORTER": "sk-abcdefghij0123456789"}).lacks

    assert lack is not None
    assert "abcdefghij" not in lack.why
