"""A share of the jobs also goes to a candidate; nothing of the job may notice."""

from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.model import CallFacts, Done, ErrorClass, Failure, Outcome, Pending, Reply, Status, Usage
from aijobs.core.settings import Settings
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Coordinator
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.shadowing import Shadowing
from aijobs.store import jobs, usage_days
from aijobs.store.engine import Store
from tests.support.clock import START, ManualClock
from tests.support.command_line import CommandLine
from tests.support.jobs import history, new_job, present, settings_of
from tests.support.wait import eventually
from tests.support.workers import Latch, ScriptedProvider, drain, running

REAL, SHADOW = '{"label": "a", "score": 1}', '{"label": "a", "score": 2}'


def settings(share: float = 1.0, **changes: Any) -> Settings:
    provider = {"kind": "python", "callable": "builtins:str"}
    shadow = {"provider": "q", "model": "cand", "share": share, "request": {"r": 2}, **changes}
    kind = {"provider": "p", "model": "main", "request": {"r": 1}, "shadow": shadow, "notify": ["log"]}
    return settings_of(
        providers={"p": provider, "q": provider}, types={"t": kind},
        notify={"log": {"kind": "log", "on": ["succeeded", "dead_letter"]}},
    )  # fmt: skip


def answer(call: Call) -> Reply:
    facts = CallFacts(model=call.model, elapsed_seconds=2.0, usage=Usage(input_tokens=3, output_tokens=4))
    return Done(result=SHADOW if call.model == "cand" else REAL, facts=facts)


def broken(call: Call) -> Reply:
    if call.model == "cand":
        return Failure(error_class=ErrorClass.UNAVAILABLE, code="500", maybe_billed=True)
    return answer(call)


def enqueue(store: Store, chance: Chance, count: int = 1) -> list[str]:
    coordinator = Coordinator(store, settings(), chance=chance)
    batch = [new_job({"n": n}, user="ana") for n in range(count)]
    return [one.job.id for one in coordinator.enqueue_many(batch, actor="t")]  # type: ignore[union-attr]


def test_the_candidate_is_asked_the_same_after_the_real_result_is_saved(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    seen: list[Status] = []

    def look(call: Call) -> Reply:
        if call.model == "cand":
            seen.append(present(store, job_id).status)
        return answer(call)

    provider = ScriptedProvider(look)
    drain(store, provider, settings=settings())

    real, shadow = provider.calls
    assert seen == [Status.SUCCEEDED]
    assert (shadow.model, shadow.request, shadow.input) == ("cand", {"r": 2}, real.input)
    assert shadow.idempotency_key != real.idempotency_key
    assert shadow.client_request_id != real.client_request_id


@pytest.mark.parametrize("script", [answer, broken])
def test_it_is_an_execution_of_its_own_and_nothing_to_the_job(
    store: Store, chance: Chance, script: Any
) -> None:
    (job_id,) = enqueue(store, chance)

    report = drain(store, ScriptedProvider(script), settings=settings())

    job = present(store, job_id)
    real, shadow = history(store, job_id)
    assert (job.status, job.attempts, job.provider, job.model) == (Status.SUCCEEDED, 1, "p", "main")
    assert (report.claimed, report.succeeded, report.failed) == (1, 1, 0)
    assert (real["shadow"], shadow["shadow"], shadow["counted"]) == (False, True, False)
    assert (shadow["provider"], shadow["model"], shadow["fence"]) == ("q", "cand", real["fence"])
    good = script is answer
    assert shadow["outcome"] is (Outcome.SUCCEEDED if good else Outcome.FAILED)
    with store.read() as tx:
        assert jobs.result_of(tx, job_id) == REAL
        assert len(jobs.notifications_of(tx, job_id)) == 1
        assert jobs.dead_letters_of(tx, job_id) == []
    assert ProviderDesk(store, settings()).one("q").state.failures == 0


def test_its_tokens_are_counted_where_they_are_spent(store: Store, chance: Chance) -> None:
    enqueue(store, chance)

    drain(store, ScriptedProvider(answer), settings=settings())

    with store.read() as tx:
        rows = tx.execute(usage_days.usage_days.select()).mappings().all()
    assert {(row["provider"], row["model"]): row["input_tokens"] for row in rows} == {
        ("p", "main"): 3, ("q", "cand"): 3,
    }  # fmt: skip


def test_a_share_of_none_asks_nobody(store: Store, chance: Chance) -> None:
    enqueue(store, chance, 5)
    provider = ScriptedProvider(answer)

    drain(store, provider, settings=settings(share=0))

    assert {call.model for call in provider.calls} == {"main"}


def test_a_candidate_that_is_held_is_left_alone(store: Store, chance: Chance) -> None:
    enqueue(store, chance)
    ProviderDesk(store, settings()).hold("q", actor="eve", reason="maintenance", lasting=None)
    provider = ScriptedProvider(answer)

    drain(store, provider, settings=settings())

    assert [call.model for call in provider.calls] == ["main"]


def test_a_worker_that_is_told_to_stop_does_not_wait_for_a_candidate(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    latch = Latch()

    async def slow(call: Call) -> Reply:
        if call.model == "cand":
            await latch.passed()
        return answer(call)

    provider = ScriptedProvider(slow)
    with running(store, provider, settings=settings()) as one:
        eventually(lambda: len(provider.calls) == 2)
        one.worker.stop()
        report = one.ended(3)

    assert (report.succeeded, present(store, job_id).status) == (1, Status.SUCCEEDED)
    assert len(history(store, job_id)) == 1


def test_the_report_compares_both(store: Store, chance: Chance) -> None:
    enqueue(store, chance, 4)
    drain(store, ScriptedProvider(answer), settings=settings())

    (found,) = Shadowing(store, settings()).report("t", store.clock.now() - timedelta(days=1))

    assert (found.provider, found.model, found.jobs, found.succeeded) == ("q", "cand", 4, 4)
    assert (found.compared_fields, found.agreed_fields) == (8, 4)
    assert (found.comparable_jobs, found.agreeing_jobs) == (4, 0)
    assert (found.real.seconds_p50, found.shadow.output_tokens, found.shadow.length) == (2.0, 4.0, 26.0)


def test_of_work_in_the_background_the_report_has_all_of_its_time(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    enqueue(store, chance)

    def begun(call: Call) -> Reply:
        return answer(call) if call.model == "cand" else Pending(provider_job_id=f"r-{call.job_id}")

    def parked() -> bool:
        clock.advance(seconds=5)
        return one.provider.count("poll") > 0

    def polled(call: Call) -> Done:
        return Done(result=REAL, facts=CallFacts(elapsed_seconds=0.01))

    with running(store, ScriptedProvider(begun, poll=polled), settings=settings()) as one:
        eventually(parked, every=0.05)
        eventually(lambda: Shadowing(store, settings()).report("t", START))

    (found,) = Shadowing(store, settings()).report("t", START)
    assert found.shadow.seconds_p50 == 2.0
    assert found.real.seconds_p50 is not None
    assert found.real.seconds_p50 >= 5


def test_the_report_counts_what_the_candidate_failed(
    store: Store, chance: Chance, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(store, chance, 2)
    drain(store, ScriptedProvider(broken), settings=settings(fields=["label"]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "aijobs.yaml").write_text("types: {t: {provider: simulator}}")
    cli = CommandLine(database=store.url, clock=store.clock)

    (document,) = cli("shadow", "report", "t", "--json").json["candidates"]
    text = cli("shadow", "report", "t").out

    assert (document["success_rate"], document["errors"]) == (0.0, {"unavailable": 2})
    assert document["field_agreement"] is None
    assert "candidate" in text
    assert cli("shadow", "report", "nope").code == 3
