"""A worker at its ordinary work: claiming, calling, saving, and when it ends."""

import asyncio
import threading
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import NotFound, SchemaMismatch
from aijobs.core.model import Done, ErrorClass, Reply, Status
from aijobs.core.switches import ALL, BELOW_PRIORITY, Switch, SwitchKind
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Enqueued, Finished
from aijobs.services.worker import WorkerOptions, crew
from aijobs.services.worker.shift import GATHER_ENDS, GATHER_SECONDS, Shift
from aijobs.store import jobs, switches, workers
from aijobs.store.engine import Store, open_store
from aijobs.store.workers import WorkerState
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_one, failure, history, new_job, present, settings_of
from tests.support.wait import eventually
from tests.support.workers import Latch, Running, ScriptedProvider, drain, make_worker, running

AT_ONCE = {"retry": {"network": {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}}}
TWO_TYPES = {"types": {"t": {"provider": "p"}, "other": {"provider": "p"}}}


def enqueue(store: Store, chance: Chance, count: int = 1, **changes: Any) -> list[str]:
    """The ids of *count* new jobs."""
    coordinator = Coordinator(store, settings_of(), chance=chance)
    new = [new_job({"n": n}, **changes) for n in range(count)]
    answers = coordinator.enqueue_many(new, actor="test")
    return [answer.job.id for answer in answers if isinstance(answer, Enqueued)]


def statuses(store: Store, ids: list[str]) -> set[Status]:
    return {present(store, job_id).status for job_id in ids}


class Watched(Coordinator):
    """A coordinator that notes how it was used."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.claims: list[tuple[ClaimRequest, int]] = []
        self.batches: list[int] = []

    def claim(self, request: ClaimRequest) -> list[Claim]:
        found = super().claim(request)
        self.claims.append((request, len(found)))
        return found

    def finish(self, ends: Any) -> list[Finished]:
        self.batches.append(len(ends))
        return super().finish(ends)


# --- What becomes of jobs -------------------------------------------------------------------------


def test_every_job_is_run_and_its_result_saved(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 25)

    report = drain(store, ScriptedProvider(lambda call: Done(result=f'"{call.job_id}"')))

    assert report.claimed == report.succeeded == 25
    with store.read() as tx:
        assert [jobs.result_of(tx, job_id) for job_id in ids] == [f'"{job_id}"' for job_id in ids]
    assert {len(history(store, job_id)) for job_id in ids} == {1}


def test_the_call_carries_the_ids_the_input_and_the_rendered_prompt(store: Store, chance: Chance) -> None:
    kind = {"provider": "p", "model": "m", "prompt": "n is {{ n }}", "request": {"x": 1}, "timeout": "7s"}
    (job_id,) = enqueue(store, chance, traceparent="00-aa-bb-01")
    provider = ScriptedProvider()

    drain(store, provider, settings=settings_of(types={"t": kind}))

    (call,) = provider.calls
    assert (call.job_id, call.type, call.attempt, call.model) == (job_id, "t", 1, "m")
    assert (call.prompt, call.input, call.request) == ("n is 0", {"n": 0}, {"x": 1})
    assert (call.timeout, call.traceparent) == (timedelta(seconds=7), "00-aa-bb-01")
    assert call.client_request_id == f"aijobs-{job_id}-1"
    assert history(store, job_id)[0]["client_request_id"] == f"aijobs-{job_id}-1"


def test_the_limits_on_prompts_and_results_are_those_of_the_configuration(
    store: Store, chance: Chance
) -> None:
    kind = {"provider": "p", "prompt": "n is {{ n }}"}
    ids = enqueue(store, chance, count=11)  # the prompt of the last one has one digit more
    provider = ScriptedProvider()

    drain(
        store, provider,
        settings=settings_of(types={"t": kind}, limits={"prompt_bytes": 6, "result_bytes": 2000}),
    )  # fmt: skip

    assert [call.prompt for call in provider.calls] == [f"n is {n}" for n in range(10)]
    assert {call.result_bytes for call in provider.calls} == {2000}
    with store.read() as tx:
        last = jobs.get(tx, ids[-1])
    assert last is not None
    assert (last.status, last.last_error_class) == (Status.DEAD_LETTER, "invalid_request")


def test_the_idempotency_key_stays_the_same_over_the_attempts(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    answers = iter([failure(), failure(), Done(result="1")])
    provider = ScriptedProvider(lambda _: next(answers))

    drain(store, provider, settings=settings_of(**AT_ONCE))

    assert {call.idempotency_key for call in provider.calls} == {f"aijobs-{job_id}"}
    assert [call.client_request_id for call in provider.calls] == [f"aijobs-{job_id}-{n}" for n in (1, 2, 3)]


def test_a_call_never_reaches_beyond_the_deadline(store: Store, clock: ManualClock, chance: Chance) -> None:
    enqueue(store, chance, deadline=clock.now() + timedelta(seconds=4))
    provider = ScriptedProvider()

    drain(store, provider)

    assert provider.calls[0].timeout == timedelta(seconds=4)


def test_a_failure_is_retried_and_then_becomes_a_dead_letter(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance, max_attempts=3)
    provider = ScriptedProvider(lambda _: failure())

    report = drain(store, provider, settings=settings_of(**AT_ONCE))

    assert (report.claimed, report.failed, report.dead_letter) == (3, 2, 1)
    assert present(store, job_id).status is Status.DEAD_LETTER
    assert [one["outcome"] for one in history(store, job_id)] == ["failed"] * 3


def test_a_failure_that_no_retry_would_mend_is_a_dead_letter_at_once(store: Store, chance: Chance) -> None:
    enqueue(store, chance)

    report = drain(store, ScriptedProvider(lambda _: failure(ErrorClass.INVALID_REQUEST)))

    assert (report.claimed, report.dead_letter) == (1, 1)


def test_an_input_that_does_not_fit_the_prompt_calls_nobody(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    provider = ScriptedProvider()
    settings = settings_of(types={"t": {"provider": "p", "prompt": "{{ missing }}"}})

    report = drain(store, provider, settings=settings)

    assert (report.dead_letter, provider.calls) == (1, [])
    assert present(store, job_id).last_error_class == "invalid_request"


def test_a_fault_of_our_own_fails_the_attempt_and_its_text_is_redacted(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance, max_attempts=1)

    def broken(call: Call) -> Reply:
        raise ValueError("sk-abcdefghijklmnopqrstuvwxyz123456 is not what we want")

    report = drain(store, ScriptedProvider(broken))

    job = present(store, job_id)
    assert report.dead_letter == 1
    assert (job.last_error_class, job.last_error_code) == ("internal", "ValueError")
    assert job.last_error_message is not None
    assert "is not what we want" in job.last_error_message
    assert "sk-abc" not in job.last_error_message


def test_a_provider_that_the_configuration_has_lost_fails_the_attempt(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance, max_attempts=1)
    one = make_worker(store, drain=True)

    def lost(name: str) -> Any:
        raise NotFound(f"no provider {name}")

    one.worker._providers.get = lost  # type: ignore[method-assign]
    one.thread.start()

    assert one.ended().dead_letter == 1
    assert present(store, job_id).last_error_code == "NotFound"


# --- Slots and batches ----------------------------------------------------------------------------


def test_a_slow_sibling_does_not_hold_the_batch(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 50)
    slow, latch = ids[0], Latch()

    async def answer(call: Call) -> Reply:
        if call.job_id == slow:
            await latch.passed()
        return Done(result="1")

    with running(store, ScriptedProvider(answer), concurrency=10) as one:
        eventually(lambda: statuses(store, ids[1:]) == {Status.SUCCEEDED})
        assert present(store, slow).status is Status.PROCESSING
        latch.open.set()
        eventually(lambda: present(store, slow).status is Status.SUCCEEDED)
        assert one.provider.count("submit") == 50


def test_never_more_calls_at_once_than_there_are_slots(store: Store, chance: Chance) -> None:
    enqueue(store, chance, 40)
    at_work, most = 0, 0

    async def answer(call: Call) -> Reply:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await latch.passed()
        at_work -= 1
        return Done(result="1")

    latch = Latch()
    with running(store, ScriptedProvider(answer), concurrency=4) as one:
        eventually(lambda: at_work == 4)
        latch.open.set()
        eventually(lambda: one.provider.count("submit") == 40)

    assert most == 4


def test_claims_ask_for_the_free_slots_in_one_batch(store: Store, chance: Chance) -> None:
    enqueue(store, chance, 40)
    coordinator = Watched(store, settings_of(), chance=chance)

    drain(store, coordinator=coordinator, concurrency=20)

    taken = [found for _, found in coordinator.claims if found]
    assert taken[0] == 20
    assert max(request.slots for request, _ in coordinator.claims) == 20
    assert len(taken) <= 6


def test_attempts_that_end_together_are_written_together(store: Store, chance: Chance) -> None:
    enqueue(store, chance, 40)
    coordinator = Watched(store, settings_of(), chance=chance)

    drain(store, coordinator=coordinator, concurrency=40)

    assert sum(coordinator.batches) == 40
    assert len(coordinator.batches) <= 3


def test_an_attempt_that_ends_alone_is_written_while_others_go_on(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 2)
    latch = Latch()

    async def answer(call: Call) -> Reply:
        if call.job_id == ids[0]:
            await latch.passed()
        return Done(result="1")

    with running(store, ScriptedProvider(answer)):
        eventually(lambda: present(store, ids[1]).status is Status.SUCCEEDED)
        assert present(store, ids[0]).status is Status.PROCESSING
        latch.open.set()


@pytest.mark.parametrize(
    ("state", "ripe_at"),
    [
        ({}, 10 + GATHER_SECONDS),
        ({"_running": {}}, 0),  # nobody else will end soon
        ({"_ended": [None] * GATHER_ENDS}, 0),
        ({"_urgent": True}, 0),  # a provider's id must be saved before anything else
        ({"_closing": True}, 0),
    ],
)
def test_ends_wait_a_moment_for_others_unless_there_is_a_reason_not_to(
    state: dict[str, Any], ripe_at: float
) -> None:
    plain = {"_urgent": False, "_closing": False, "_running": {1: 1}, "_ended": [None], "_ended_since": 10.0}

    assert Shift._ripe_at(cast("Shift", SimpleNamespace(**(plain | state)))) == ripe_at


# --- Waking ---------------------------------------------------------------------------------------


def idle(one: Running) -> bool:
    """Whether the worker has looked, found nothing, and waits."""
    return len(one.coordinator.claims) >= 1  # type: ignore[attr-defined]


def test_an_idle_worker_wakes_for_a_new_job_long_before_its_next_look(store: Store, chance: Chance) -> None:
    coordinator = Watched(store, settings_of(), chance=chance)

    with running(store, coordinator=coordinator, poll=timedelta(hours=1)) as one:
        eventually(lambda: idle(one))
        ids = enqueue(store, chance)
        eventually(lambda: statuses(store, ids) == {Status.SUCCEEDED})


def test_a_wake_up_that_comes_during_an_empty_claim_is_not_lost(store: Store, chance: Chance) -> None:
    ids: list[str] = []
    heard = threading.Event()

    class Late(Coordinator):
        """A job is committed, and announced, right after the claim has looked and before it comes back."""

        def claim(self, request: ClaimRequest) -> list[Claim]:
            found = super().claim(request)
            if not ids:
                look = one.crew.shift.look

                def note() -> None:
                    look()
                    heard.set()

                one.crew.shift.look = note  # type: ignore[method-assign]
                ids.extend(enqueue(store, chance))
                eventually(heard.is_set)
            return found

    hour = timedelta(hours=1)
    coordinator = Late(store, settings_of(), chance=chance)
    one = make_worker(store, coordinator=coordinator, poll=hour, repair_every=hour)
    one.thread.start()
    eventually(lambda: ids and statuses(store, ids) == {Status.SUCCEEDED})
    one.worker.stop()
    one.ended()


def test_a_job_that_becomes_due_just_after_a_claim_has_looked_is_not_left_to_the_poll(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    class Slow(Watched):
        """Time passes between the claim and the look ahead."""

        def next_start(self, since: datetime) -> datetime | None:
            due = super().next_start(since)
            if due is not None:
                clock.advance(timedelta(seconds=10))
            return due

    hour = timedelta(hours=1)
    coordinator = Slow(store, settings_of(), chance=chance)
    with running(store, coordinator=coordinator, poll=hour, repair_every=hour) as one:
        eventually(lambda: idle(one))
        ids = enqueue(store, chance, run_at=clock.now() + timedelta(seconds=5))
        eventually(lambda: statuses(store, ids) == {Status.SUCCEEDED})


def test_an_idle_worker_is_there_when_a_delayed_job_becomes_due(database_url: str, chance: Chance) -> None:
    store = open_store(database_url, create=True)
    ids = enqueue(store, chance, run_at=store.clock.now() + timedelta(milliseconds=400))

    with running(store, poll=timedelta(hours=1)):
        eventually(lambda: statuses(store, ids) == {Status.SUCCEEDED})
    store.close()


def test_a_busy_worker_is_there_when_a_delayed_job_becomes_due(database_url: str, chance: Chance) -> None:
    store, latch = open_store(database_url, create=True), Latch()
    (running_one,) = enqueue(store, chance)
    ids = enqueue(store, chance, run_at=store.clock.now() + timedelta(milliseconds=400))

    async def answer(call: Call) -> Reply:
        if call.job_id == running_one:
            await latch.passed()
        return Done(result="1")

    with running(store, ScriptedProvider(answer), poll=timedelta(hours=1)):
        eventually(lambda: statuses(store, ids) == {Status.SUCCEEDED})
        latch.open.set()
    store.close()


def test_a_job_that_is_due_but_paused_does_not_make_the_worker_spin(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    enqueue(store, chance, run_at=clock.now() + timedelta(seconds=5))
    pause_all(store, clock)
    clock.advance(seconds=10)
    coordinator = Watched(store, settings_of(), chance=chance)
    beats: list[object] = []

    with running(store, coordinator=coordinator, poll=timedelta(hours=1)) as one:
        eventually(lambda: idle(one))
        before = len(coordinator.claims)
        one.crew.keeper._beat = beats.append
        eventually(lambda: len(beats) >= 5)
        looked = len(coordinator.claims) - before

    assert looked <= 3


def pause_all(store: Store, clock: ManualClock, scope: str = ALL, value: str = "") -> None:
    pause = Switch(
        kind=SwitchKind.PAUSE, scope=scope, value=value, actor="test", reason="test", set_at=clock.now()
    )  # fmt: skip
    with store.write() as tx:
        switches.throw(tx, pause)


def test_without_a_wake_up_the_next_look_finds_the_job(
    store: Store, chance: Chance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew.Crew, "watch", lambda self: asyncio.Event().wait())

    with running(store):
        ids = enqueue(store, chance)
        eventually(lambda: statuses(store, ids) == {Status.SUCCEEDED})


# --- What it takes, and when it ends --------------------------------------------------------------


def test_only_the_types_asked_for_are_taken(store: Store, chance: Chance) -> None:
    settings = settings_of(**TWO_TYPES)
    wanted, other = enqueue(store, chance), enqueue(store, chance, type="other")

    drain(store, settings=settings, types=("t",))

    assert statuses(store, wanted) == {Status.SUCCEEDED}
    assert statuses(store, other) == {Status.PENDING}


def test_lost_attempts_and_passed_deadlines_of_other_types_are_left_to_their_workers(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    soon = clock.now() + timedelta(minutes=1)
    lost, late = {}, {}
    at_once = {"worker_lost": {"retries": 1, "first": "immediate"}}
    settings = settings_of(**TWO_TYPES, retry=at_once)
    coordinator = Coordinator(store, settings, chance=chance)
    for name in ("t", "other"):
        (lost[name],) = enqueue(store, chance, type=name)
        claim_one(coordinator)
        (late[name],) = enqueue(store, chance, type=name, deadline=soon, run_at=soon)
    clock.advance(LEASE)

    drain(store, settings=settings, types=("t",))

    assert [one["outcome"] for one in history(store, lost["t"])] == ["lost", "succeeded"]
    assert statuses(store, [late["t"]]) == {Status.DEAD_LETTER}
    assert statuses(store, [lost["other"]]) == {Status.PROCESSING}
    assert statuses(store, [late["other"]]) == {Status.PENDING}


def test_a_type_that_is_not_configured_here_is_left_to_others(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, type="unheard-of")

    report = drain(store)

    assert report.claimed == 0
    assert statuses(store, ids) == {Status.PENDING}


def test_options_refuse_a_type_that_is_not_configured() -> None:
    with pytest.raises(NotFound):
        WorkerOptions.from_settings(settings_of(), types=("unheard-of",))


def test_options_come_from_the_settings_and_what_is_given_goes_before_them() -> None:
    settings = settings_of(worker={"concurrency": 7, "lease": "30s", "grace": "3s", "poll": "2s"})

    plain = WorkerOptions.from_settings(settings)
    given = WorkerOptions.from_settings(
        settings, concurrency=2, lease=timedelta(seconds=9), grace=timedelta(0)
    )

    assert (plain.concurrency, plain.lease, plain.grace) == (7, timedelta(seconds=30), timedelta(seconds=3))
    assert (plain.renew_every, plain.poll) == (timedelta(seconds=10), timedelta(seconds=2))
    assert (given.concurrency, given.renew_every, given.grace) == (2, timedelta(seconds=3), timedelta(0))


def test_it_ends_after_the_number_of_jobs_asked_for(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 5)

    with running(store, max_jobs=3) as one:
        report = one.ended()

    assert report.claimed == report.succeeded == 3
    assert sum(present(store, job_id).status is Status.PENDING for job_id in ids) == 2


def test_drain_ends_at_once_when_there_is_nothing(store: Store) -> None:
    assert drain(store).claimed == 0


def test_drain_does_not_wait_for_jobs_that_their_user_delayed(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    ids = enqueue(store, chance, run_at=clock.now() + timedelta(hours=1))

    drain(store)

    assert statuses(store, ids) == {Status.PENDING}


def test_drain_waits_for_its_own_retries(store: Store, clock: ManualClock, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    answers = iter([failure(hint=timedelta(minutes=30)), Done(result="1")])

    with running(store, ScriptedProvider(lambda _: next(answers)), drain=True) as one:
        eventually(lambda: present(store, job_id).status is Status.FAILED)
        assert one.thread.is_alive()
        clock.advance(timedelta(hours=1))
        report = one.ended()

    assert report.succeeded == 1


def test_drain_does_not_wait_for_what_a_person_must_decide(store: Store, chance: Chance) -> None:
    settings = settings_of(types={"t": {"provider": "p", "on_unknown_outcome": "hold"}})
    (job_id,) = enqueue(store, chance)
    provider = ScriptedProvider(lambda _: failure(ErrorClass.NETWORK_TIMEOUT, maybe_billed=True))

    report = drain(store, provider, settings=settings)

    assert report.failed == 1
    assert present(store, job_id).hold_reason


@pytest.mark.parametrize(
    "pause",
    [
        {"types": {"t": {"provider": "p", "concurrency": 0}}},
        {"types": {"t": {"provider": "p", "per_user": 0}}},
        {"concurrency": {"global": 0}},
        {"concurrency": {"per_user": 0}},
        {"providers": {"p": {"kind": "python", "callable": "builtins:str", "concurrency": 0}}},
    ],
)
def test_drain_does_not_wait_for_what_is_paused_by_a_limit_of_nothing(
    store: Store, chance: Chance, pause: dict[str, Any]
) -> None:
    ids = enqueue(store, chance)

    report = drain(store, settings=settings_of(**pause))

    assert report.claimed == 0
    assert statuses(store, ids) == {Status.PENDING}


@pytest.mark.parametrize(("scope", "value"), [("t", ""), (ALL, ""), (BELOW_PRIORITY, "5")])
def test_drain_does_not_wait_for_what_a_person_has_paused(
    store: Store, clock: ManualClock, chance: Chance, scope: str, value: str
) -> None:
    ids = enqueue(store, chance)
    pause_all(store, clock, scope, value)

    report = drain(store)

    assert report.claimed == 0
    assert statuses(store, ids) == {Status.PENDING}


def test_drain_does_not_wait_for_a_provider_that_is_held(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 2)

    report = drain(store, ScriptedProvider(lambda _: failure(ErrorClass.AUTH)), concurrency=1)

    assert report.claimed == 1
    assert present(store, ids[1]).status is Status.PENDING


def test_drain_waits_for_what_another_worker_holds(store: Store, clock: ManualClock, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    claim_one(Coordinator(store, settings_of(), chance=chance), worker="dead")

    with running(store, drain=True) as one:
        eventually(lambda: one.worker._crew is not None)
        assert present(store, job_id).locked_by == "dead"
        clock.advance(LEASE)
        eventually(lambda: present(store, job_id).status is Status.FAILED)
        clock.advance(timedelta(hours=1))
        report = one.ended()

    assert report.succeeded == 1
    assert [one["outcome"] for one in history(store, job_id)] == ["lost", "succeeded"]


# --- Who it is ------------------------------------------------------------------------------------


def test_it_is_in_the_register_from_start_to_end(store: Store) -> None:
    with running(store, name="w-test", concurrency=3) as one:
        (record,) = eventually(lambda: registered(store))
        one.worker.stop()
        one.ended()

    assert (record.name, record.concurrency, record.state.value) == ("w-test", 3, "running")
    assert [after.state.value for after in registered(store)] == ["stopped"]


def registered(store: Store) -> list[workers.WorkerRecord]:
    with store.read() as tx:
        return workers.listed(tx)


def test_its_heart_beats(store: Store, clock: ManualClock) -> None:
    with running(store):
        eventually(lambda: registered(store))
        later = clock.advance(seconds=30)
        eventually(lambda: registered(store)[0].heartbeat_at == later)


def test_two_workers_have_two_names(store: Store, chance: Chance) -> None:
    names = {make_worker(store, chance=chance).worker.name for _ in range(3)}

    assert len(names) == 3


def test_the_providers_are_closed_at_the_end(store: Store) -> None:
    provider = ScriptedProvider()

    drain(store, provider)

    assert provider.closed


def test_a_store_of_another_schema_version_ends_it(store: Store, chance: Chance) -> None:
    class Moved(Coordinator):
        def claim(self, request: ClaimRequest) -> list[Claim]:
            raise SchemaMismatch("the store was upgraded")

    with pytest.raises(SchemaMismatch):
        drain(store, coordinator=Moved(store, settings_of(), chance=chance))


def in_the_register(store: Store) -> list[tuple[str, WorkerState]]:
    with store.read() as tx:
        return [(one.name, one.state) for one in workers.listed(tx)]


def forget_everybody(store: Store, clock: ManualClock) -> None:
    with store.write() as tx:
        workers.forget(tx, before=clock.now() + timedelta(days=2))


def test_a_worker_that_a_sweep_forgot_while_its_machine_slept_is_registered_again(
    store: Store, clock: ManualClock
) -> None:
    with running(store) as one:
        eventually(lambda: in_the_register(store))
        forget_everybody(store, clock)
        eventually(lambda: in_the_register(store) == [(one.worker.name, WorkerState.RUNNING)])


def test_a_worker_that_has_left_is_not_registered_again_by_a_late_heartbeat(
    store: Store, clock: ManualClock
) -> None:
    with running(store) as one:
        left = one.crew
        one.worker.stop()
        one.ended()
        left._beat(clock.now())
        stopped = in_the_register(store)
        forget_everybody(store, clock)
        left._beat(clock.now())

    assert stopped == [(one.worker.name, WorkerState.STOPPED)]
    assert in_the_register(store) == []
