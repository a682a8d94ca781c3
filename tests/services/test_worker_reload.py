"""A configuration that changes under a running worker."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import ConfigError, ConfigFault
from aijobs.core.lifecycle import Parked
from aijobs.core.log_events import LogEvent
from aijobs.core.model import Done, Pending, Reply, Status
from aijobs.core.settings import Settings
from aijobs.core.settings.changes import changed
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Claim, Coordinator
from aijobs.services.diagnosis import Diagnosing
from aijobs.services.worker import WorkerOptions, reloading
from aijobs.store import workers
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_one, ended, new_job, present, settings_of
from tests.support.kept import last_events
from tests.support.wait import eventually
from tests.support.workers import Heard, Latch, Running, ScriptedProvider, make_worker, running


@pytest.fixture(autouse=True)
def believed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change has to stay for a moment; `test_reloading.py` looks at that."""
    monkeypatch.setattr(reloading, "SETTLE_SECONDS", 0.001)


class File:
    """What the configuration file says now."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.fault: ConfigError | None = None

    def read(self) -> Settings:
        if self.fault is not None:
            raise self.fault
        return self.settings


def of_type(**values: Any) -> Settings:
    return settings_of(types={"t": {"provider": "p", **values}})


def held(latch: Latch) -> Callable[[Call], Any]:
    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result='"done"')

    return answer


def enqueue(store: Store, chance: Chance, count: int) -> None:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    coordinator.enqueue_many([new_job({"n": n}) for n in range(count)], actor="test")


def reloads(store: Store) -> list[dict[str, object]]:
    with store.read() as tx:
        return [event for event in last_events(tx, 50) if event["kind"] == "config_reload"]


def test_a_limit_that_is_raised_lets_more_jobs_run_without_a_restart(store: Store, chance: Chance) -> None:
    file, latch, log = File(of_type(concurrency=1)), Latch(), Heard()
    enqueue(store, chance, 5)
    provider = ScriptedProvider(held(latch))

    with running(store, provider, settings=file.settings, log=log, source=file.read) as one:
        eventually(lambda: provider.count("submit") == 1)
        file.settings = of_type(concurrency=4)
        one.worker.reload("SIGHUP")
        eventually(lambda: provider.count("submit") == 4)
        latch.open.set()

    (said,) = log.fields_of(LogEvent.CONFIG_RELOADED)
    assert said == {"why": "SIGHUP", "changed": "types.t.concurrency", "note": ""}
    (event,) = reloads(store)
    assert (event["actor"], event["reason"]) == (one.worker.name, "SIGHUP")
    assert event["detail"] == '{"changed": ["types.t.concurrency"]}'


def test_a_limit_that_is_lowered_kills_nothing_and_starts_nothing_above_it(
    store: Store, chance: Chance
) -> None:
    file, latch, log = File(of_type(concurrency=3)), Latch(), Heard()
    enqueue(store, chance, 6)
    peaks: list[int] = []
    provider = ScriptedProvider(held(latch))

    with running(store, provider, settings=file.settings, log=log, source=file.read) as one:
        eventually(lambda: provider.count("submit") == 3)
        file.settings = of_type(concurrency=1)
        one.worker.reload()
        eventually(lambda: log.fields_of(LogEvent.CONFIG_RELOADED))
        provider._scripts["submit"] = lambda call: peaks.append(one.crew.shift.running) or Done(result="1")
        latch.open.set()
        eventually(lambda: provider.count("submit") == 6)

    assert peaks == [1, 1, 1]


def test_a_faulty_configuration_is_refused_with_one_line_and_the_old_one_stays(
    store: Store, chance: Chance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "LOOK_SECONDS", 0.01)
    file, log = File(of_type(max_attempts=1)), Heard()
    looks: list[int] = []

    def source() -> Settings:
        looks.append(1)
        return file.read()

    with running(store, settings=file.settings, log=log, source=source) as one:
        fault = ConfigFault(file="f.yaml", line=3, column=1, path="types.t.timeout", message="is no duration")
        file.fault = ConfigError([fault])
        eventually(lambda: log.fields_of(LogEvent.CONFIG_REFUSED))
        seen = len(looks)
        eventually(lambda: len(looks) > seen + 3)
        enqueue(store, chance, 1)
        eventually(lambda: one.so_far.succeeded == 1)
        file.fault = None
        file.settings = of_type(max_attempts=2)
        eventually(lambda: log.fields_of(LogEvent.CONFIG_RELOADED))

    (said,) = log.fields_of(LogEvent.CONFIG_REFUSED)
    assert "types.t.timeout" in str(said["error"])
    assert said["why"] == "the file changed"
    assert len(reloads(store)) == 1


def test_calls_to_come_go_by_the_new_model_and_request(store: Store, chance: Chance) -> None:
    file, log = File(of_type(model="old", request={"a": 1})), Heard()
    provider = ScriptedProvider()

    with running(store, provider, settings=file.settings, log=log, source=file.read) as one:
        enqueue(store, chance, 1)
        eventually(lambda: one.so_far.succeeded == 1)
        file.settings = of_type(model="new", request={"a": 2}, timeout="7s")
        one.worker.reload()
        eventually(lambda: log.fields_of(LogEvent.CONFIG_RELOADED))
        enqueue(store, chance, 1)
        eventually(lambda: one.so_far.succeeded == 2)

    seen = [(call.model, call.request, call.timeout.total_seconds()) for call in provider.calls]
    assert seen == [("old", {"a": 1}, 60), ("new", {"a": 2}, 7)]


def test_the_number_of_calls_at_once_follows_the_configuration_and_the_lease_stays(
    store: Store, chance: Chance
) -> None:
    file, latch, log = File(settings_of(worker={"concurrency": 1})), Latch(), Heard()
    enqueue(store, chance, 4)
    provider = ScriptedProvider(held(latch))
    one = make_worker(
        store, provider, settings=file.settings, log=log, concurrency=1, source=file.read,
        options_of=lambda new: replace(WorkerOptions.from_settings(new), lease=new.worker.lease),
    )  # fmt: skip
    lease = one.worker._options.lease
    one.thread.start()

    eventually(lambda: provider.count("submit") == 1)
    file.settings = settings_of(worker={"concurrency": 3, "lease": "90s"})
    one.worker.reload("SIGHUP")
    eventually(lambda: provider.count("submit") == 3)
    kept = one.worker._options.lease
    latch.open.set()
    one.worker.stop()
    one.ended()

    assert kept == lease
    (said,) = log.fields_of(LogEvent.CONFIG_RELOADED)
    assert said["note"] == "; at the next start: worker.lease"


def test_a_type_that_was_taken_away_is_served_by_nobody_whoever_still_has_it(
    store: Store, chance: Chance
) -> None:
    both = {"t": {"provider": "p"}, "u": {"provider": "p"}}
    before = settings_of(types=both, worker={"concurrency": 2})
    file, log = File(before), Heard()

    def registered() -> tuple[tuple[str, ...] | None, int]:
        with store.read() as tx:
            (record,) = workers.listed(tx)
        return record.types, record.concurrency

    def in_the_register_again() -> tuple[tuple[str, ...] | None, int] | None:
        with store.read() as tx:
            return registered() if workers.listed(tx) else None

    one = make_worker(
        store,
        settings=before,
        log=log,
        concurrency=2,
        source=file.read,
        options_of=WorkerOptions.from_settings,
    )
    one.thread.start()
    eventually(lambda: log.fields_of(LogEvent.WORKER_STARTED))
    at_first = registered()
    file.settings = settings_of(worker={"concurrency": 7})
    one.worker.reload()
    eventually(lambda: log.fields_of(LogEvent.CONFIG_RELOADED))
    job = Coordinator(store, before, chance=chance).enqueue(new_job(type="u"), actor="test").job
    found = Diagnosing(store, before).job(job.id)
    afterwards = registered()
    with store.write() as tx:
        workers.forget(
            tx, before=one.crew._clock.now() + timedelta(days=2)
        )  # a sweep, while its machine slept
    again = eventually(in_the_register_again)
    one.worker.stop()
    one.ended()

    assert (at_first, afterwards) == ((("demo", "t", "u"), 2), (("demo", "t"), 7))
    assert again == afterwards
    assert "no live worker serves type u" in found.summary


BOTH = settings_of(types={"t": {"provider": "p"}, "u": {"provider": "p"}})
WITHOUT_T = settings_of(types={"u": {"provider": "p"}})


def drop_its_type(one: Running, file: File) -> None:
    file.settings = WITHOUT_T
    one.worker.reload()
    eventually(lambda: one.worker.settings is WITHOUT_T)


def held_pending(latch: Latch) -> Callable[[Call], Any]:
    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Pending(provider_job_id="resp_1")

    return answer


def test_work_that_a_provider_took_on_is_kept_though_its_type_was_dropped_meanwhile(
    store: Store, chance: Chance
) -> None:
    file, latch = File(BOTH), Latch()
    job = Coordinator(store, BOTH, chance=chance).enqueue(new_job(), actor="test").job
    provider = ScriptedProvider(held_pending(latch))

    with running(store, provider, settings=BOTH, source=file.read) as one:
        eventually(lambda: provider.count("submit") == 1)
        drop_its_type(one, file)
        latch.open.set()
        eventually(lambda: present(store, job.id).parked_at)

    assert present(store, job.id).provider_job_id == "resp_1"


def test_a_job_that_was_claimed_just_before_its_type_was_dropped_is_called(
    store: Store, chance: Chance
) -> None:
    provider = ScriptedProvider()

    with running(store, provider, settings=BOTH) as one:
        shift, calls = one.crew.shift, one.crew._calls
        begin = shift._begin

        def begin_and_reload(claims: list[Claim]) -> None:
            begin(claims)
            if claims:
                calls.configure(WITHOUT_T)

        shift._begin = begin_and_reload  # type: ignore[assignment, method-assign]
        enqueue(store, chance, 1)
        eventually(lambda: one.so_far.succeeded == 1)

    assert provider.count("submit") == 1


def test_work_that_is_asked_after_is_cancelled_though_its_type_was_dropped_meanwhile(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    file, latch = File(BOTH), Latch()
    coordinator = Coordinator(store, BOTH, chance=chance)
    job = coordinator.enqueue(new_job(), actor="test").job
    end = Parked(provider_job_id="resp_1", poll_at=clock.now())
    coordinator.finish([ended(claim_one(coordinator), end)])
    provider = ScriptedProvider(poll=held_pending(latch))

    with running(store, provider, settings=BOTH, source=file.read) as one:
        eventually(lambda: provider.count("poll") == 1)
        drop_its_type(one, file)
        coordinator.cancel(job.id, actor="ana", reason="not needed")
        eventually(lambda: present(store, job.id).status is Status.CANCELLED)

    assert provider.count("cancel") == 1


def test_work_begun_under_a_lost_lease_is_cancelled_though_its_type_was_dropped_meanwhile(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    file, latch, hour = File(BOTH), Latch(), timedelta(hours=1)
    other = Coordinator(store, BOTH, chance=chance)
    other.enqueue(new_job(), actor="test")
    provider = ScriptedProvider(held_pending(latch))

    with running(
        store, provider, settings=BOTH, source=file.read, renew_every=hour, repair_every=hour
    ) as one:
        eventually(lambda: provider.count("submit") == 1)
        one.crew.shift._check_leases = lambda now: None  # type: ignore[method-assign]
        drop_its_type(one, file)
        clock.advance(LEASE)
        other.rescue(limit=10)
        latch.open.set()
        eventually(lambda: provider.count("cancel") == 1)


def test_who_asks_is_answered_even_when_nothing_has_changed(store: Store) -> None:
    file, log = File(of_type()), Heard()

    with running(store, settings=file.settings, log=log, source=file.read) as one:
        eventually(lambda: one.worker._reloading)
        one.worker.reload("SIGHUP")
        eventually(lambda: log.fields_of(LogEvent.CONFIG_UNCHANGED))

    assert reloads(store) == []


def test_what_changed_is_named_by_its_path_and_never_by_its_value() -> None:
    provider = {"kind": "openai-chat", "base_url": "http://127.0.0.1:1", "api_key": "old-secret"}
    before = settings_of(providers={"p": provider})
    after = settings_of(
        providers={"p": provider | {"api_key": "new-secret"}}, types={"t": {"provider": "p", "priority": 3},
                                                                     "u": {"provider": "p"}},
    )  # fmt: skip

    assert changed(before, before) == ()
    assert changed(before, after) == ("providers.p.api_key", "types.t.priority", "types.u")
