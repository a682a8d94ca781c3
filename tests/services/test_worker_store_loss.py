"""The store goes away and comes back: the worker goes on, nothing is lost, and nothing is called in vain."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreError, StoreLocked, StoreUnreachable
from aijobs.core.log_events import LogEvent
from aijobs.core.model import Done, Pending, Reply, Status
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Ended, Finished
from aijobs.services.worker.crew import LONGEST_LEAVE
from aijobs.services.worker.worker import LAST_WRITES_SECONDS
from aijobs.store import jobs
from aijobs.store.engine import Store, open_store
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_one, history, new_job, present, settings_of, succeed
from tests.support.postgres import restartable_server
from tests.support.wait import eventually
from tests.support.workers import Heard, Latch, ScriptedProvider, drain, make_worker, running

AWAY = [StoreUnreachable("the connection was lost"), StoreLocked("another process held the lock")]


def enqueue(store: Store, chance: Chance, count: int = 1, **changes: Any) -> list[str]:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    return [coordinator.enqueue(new_job({"n": n}, **changes), actor="test").job.id for n in range(count)]


class Outage:
    """A worker's own way to the store, which is closed while *away* is set; the test's way stays open."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = open_store(store.url, clock=clock)
        self.away = threading.Event()
        self.tries = 0
        self.fault = AWAY[0]
        for name in ("read", "write"):
            setattr(self.store, name, self._guarded(getattr(self.store, name)))

    def _guarded(self, begin: Callable[[], Any]) -> Callable[[], Any]:
        def guarded() -> Any:
            if self.away.is_set():
                self.tries += 1
                raise self.fault
            return begin()

        return guarded

    def coordinator(self, chance: Chance) -> Coordinator:
        return Coordinator(self.store, settings_of(), chance=chance)


@pytest.fixture
def outage(store: Store, clock: ManualClock) -> Iterator[Outage]:
    one = Outage(store, clock)
    yield one
    one.store.close()


class LosesTheStoreAfterItsClaim(Coordinator):
    """The store goes away right after a claim of *one*, and its lease keeper is the first to know."""

    one: Any

    def __init__(self, outage: Outage, chance: Chance) -> None:
        super().__init__(outage.store, settings_of(), chance=chance)
        self._outage = outage

    def claim(self, request: ClaimRequest) -> list[Claim]:
        found = super().claim(request)
        if found:
            self._outage.away.set()
            self.one.crew.keeper.renew_soon()
            eventually(lambda: self.one.crew.gate.away)
        return found


@pytest.mark.parametrize("fault", AWAY, ids=lambda fault: type(fault).__name__)
def test_results_are_held_and_written_when_the_store_is_back(
    store: Store, outage: Outage, chance: Chance, fault: StoreError
) -> None:
    ids, latch, log = enqueue(store, chance, 5), Latch(), Heard()
    outage.fault = fault

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result=f'"{call.job_id}"')

    with running(outage.store, ScriptedProvider(answer), log=log) as one:
        eventually(lambda: one.provider.count("submit") == 5)
        outage.away.set()
        latch.open.set()
        eventually(lambda: one.crew.shift.unsaved == 5)
        tries = outage.tries
        eventually(lambda: outage.tries >= tries + 3)  # it goes on trying
        assert {present(store, job_id).status for job_id in ids} == {Status.PROCESSING}
        outage.away.clear()
        eventually(lambda: {present(store, job_id).status for job_id in ids} == {Status.SUCCEEDED})
        eventually(lambda: one.so_far.succeeded == 5)

    assert one.provider.count("submit") == 5
    assert len(log.fields_of(LogEvent.STORE_LOST)) == len(log.fields_of(LogEvent.STORE_BACK)) == 1


def test_no_call_is_started_while_the_store_is_known_to_be_away(
    store: Store, outage: Outage, chance: Chance
) -> None:
    enqueue(store, chance, 2)

    coordinator = LosesTheStoreAfterItsClaim(outage, chance)
    one = coordinator.one = make_worker(outage.store, coordinator=coordinator)
    one.thread.start()
    eventually(lambda: outage.tries >= 5)
    called_while_away = list(one.provider.calls)
    outage.away.clear()
    eventually(lambda: one.provider.count("submit") == 2)
    one.worker.stop()

    assert one.ended().succeeded == 2
    assert called_while_away == []


def test_a_worker_that_stops_while_claims_wait_for_the_store_hands_them_back(
    store: Store, outage: Outage, chance: Chance
) -> None:
    ids = enqueue(store, chance, 2)

    coordinator = LosesTheStoreAfterItsClaim(outage, chance)
    one = coordinator.one = make_worker(outage.store, coordinator=coordinator, grace=timedelta(hours=1))
    one.thread.start()
    eventually(lambda: one.crew.shift.running == 2)
    one.worker.stop()
    eventually(lambda: one.crew.shift.unsaved == 2)
    outage.away.clear()

    assert one.ended().handed_back == 2
    assert one.provider.calls == []
    assert {present(store, job_id).attempts for job_id in ids} == {0}


def test_a_store_that_takes_renewals_but_no_results_counts_as_away(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)
    full = threading.Event()
    full.set()

    class Full(Coordinator):
        """A disk on which a few bytes still fit."""

        def finish(self, ends: Sequence[Ended]) -> list[Finished]:
            if full.is_set():
                raise StoreUnreachable("no space is left for the job store")
            return super().finish(ends)

    with running(store, coordinator=Full(store, settings_of(), chance=chance)) as one:
        eventually(lambda: one.crew.shift.unsaved == 1)
        answered: list[bool] = []
        told = one.crew.store_answered

        def note() -> None:
            told()
            answered.append(True)

        one.crew.store_answered = note  # type: ignore[method-assign]
        eventually(lambda: len(answered) >= 5)
        assert one.crew.gate.away
        full.clear()
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)


def test_a_result_that_comes_back_too_late_is_refused_by_the_fence(
    store: Store, outage: Outage, clock: ManualClock, chance: Chance
) -> None:
    (job_id,), latch = enqueue(store, chance), Latch()
    other = Coordinator(store, settings_of(), chance=chance)

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result='"late"')

    with running(outage.store, ScriptedProvider(answer), concurrency=1) as one:
        eventually(lambda: one.provider.calls)
        outage.away.set()
        latch.open.set()
        eventually(lambda: one.crew.shift.unsaved == 1)
        clock.advance(LEASE)  # away from us, not from the others
        other.rescue(limit=10)
        clock.advance(timedelta(hours=1))
        succeed(other, claim_one(other, worker="other"), '"theirs"')
        outage.away.clear()
        eventually(lambda: one.so_far.lost == 1)

    with store.read() as tx:
        assert jobs.result_of(tx, job_id) == '"theirs"'


def test_a_commit_whose_answer_was_lost_is_recognised(store: Store, chance: Chance) -> None:
    ids = enqueue(store, chance, 3)

    class AnswerLost(Coordinator):
        """The connection breaks after the commit, before we hear of it."""

        lost = False

        def finish(self, ends: Sequence[Ended]) -> list[Finished]:
            answers = super().finish(ends)
            if not self.lost:
                self.lost = True
                raise StoreUnreachable("the connection was lost")
            return answers

    report = drain(store, coordinator=AnswerLost(store, settings_of(), chance=chance))

    assert (report.succeeded, report.lost) == (3, 0)
    assert {len(history(store, job_id)) for job_id in ids} == {1}


def test_a_parked_job_whose_commit_was_lost_is_not_taken_for_an_orphan(store: Store, chance: Chance) -> None:
    (job_id,) = enqueue(store, chance)

    class AnswerLost(Coordinator):
        lost = False

        def finish(self, ends: Sequence[Ended]) -> list[Finished]:
            answers = super().finish(ends)
            if not self.lost:
                self.lost = True
                raise StoreUnreachable("the connection was lost")
            return answers

    one_provider = ScriptedProvider(lambda _: Pending(provider_job_id="resp_1"))
    with running(store, one_provider, coordinator=AnswerLost(store, settings_of(), chance=chance)) as one:
        eventually(lambda: one.crew.shift.running == one.crew.shift.unsaved == 0 and one.provider.calls)

    assert one.provider.count("cancel") == 0
    assert present(store, job_id).provider_job_id == "resp_1"


def test_one_end_that_the_store_refuses_does_not_keep_the_others_from_being_saved(
    store: Store, chance: Chance
) -> None:
    ids, log = enqueue(store, chance, 5, max_attempts=1), Heard()
    poison = ids[2]

    class Refusing(Coordinator):
        def finish(self, ends: Sequence[Ended]) -> list[Finished]:
            if any(
                ended.job.id == poison and ended.end.result for ended in ends if hasattr(ended.end, "result")
            ):
                raise StoreError("the job store refused a change that would contradict its rules")
            return super().finish(ends)

    report = drain(store, coordinator=Refusing(store, settings_of(), chance=chance), log=log)

    assert (report.succeeded, report.dead_letter) == (4, 1)
    assert present(store, poison).last_error_code == "end_refused"
    assert [said["job"] for said in log.fields_of(LogEvent.END_REFUSED)] == [poison]


def test_results_that_could_not_be_saved_before_the_end_are_an_error(
    store: Store, outage: Outage, chance: Chance
) -> None:
    (job_id,), latch, log = enqueue(store, chance), Latch(), Heard()

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result="1")

    one = make_worker(outage.store, ScriptedProvider(answer), log=log, grace=timedelta(0))
    one.thread.start()
    eventually(lambda: one.provider.calls)
    outage.away.set()
    latch.open.set()
    eventually(lambda: one.crew.shift.unsaved == 1)
    one.worker.stop()
    with pytest.raises(StoreUnreachable):
        one.ended()

    assert log.fields_of(LogEvent.RESULTS_NOT_SAVED) == [{"count": 1}]
    assert present(store, job_id).status is Status.PROCESSING


def test_a_result_that_is_being_written_at_the_end_is_not_saved_either(store: Store, chance: Chance) -> None:
    enqueue(store, chance)
    freed, log = threading.Event(), Heard()
    begun: list[object] = []
    done: list[object] = []

    class Hanging(Coordinator):
        def finish(self, ends: Sequence[Ended]) -> list[Finished]:
            begun.append(ends)
            freed.wait(20)
            try:
                return super().finish(ends)
            finally:
                done.append(ends)

    coordinator = Hanging(store, settings_of(), chance=chance)
    one = make_worker(store, coordinator=coordinator, log=log, grace=timedelta(0))
    one.thread.start()
    eventually(lambda: one.crew.shift.unsaved == 1)
    one.worker.stop()
    assert not one.worker.release()  # as when the event loop is blocked
    with pytest.raises(StoreUnreachable):
        one.ended()
    freed.set()

    assert log.fields_of(LogEvent.RESULTS_NOT_SAVED) == [{"count": 1}] * 2
    assert not one.worker.release()
    assert one.worker.leave_seconds > LAST_WRITES_SECONDS + LONGEST_LEAVE  # or it is cut short and exits 0
    eventually(lambda: len(done) == len(begun))  # or they write when the store has been closed


def test_a_worker_with_nothing_to_save_ends_well_though_its_look_for_work_hangs(
    store: Store, chance: Chance
) -> None:
    looks, freed, done, log = threading.Event(), threading.Event(), threading.Event(), Heard()

    class Hanging(Coordinator):
        def claim(self, request: ClaimRequest) -> list[Claim]:
            looks.set()
            freed.wait(20)
            try:
                return super().claim(request)
            finally:
                done.set()

    coordinator = Hanging(store, settings_of(), chance=chance)
    one = make_worker(store, coordinator=coordinator, log=log, grace=timedelta(0))
    one.thread.start()
    eventually(looks.is_set)
    one.worker.stop("SIGTERM")

    assert one.ended().stopped_by == "SIGTERM"
    assert log.fields_of(LogEvent.RESULTS_NOT_SAVED) == []
    freed.set()
    eventually(done.is_set)


def test_without_a_store_at_the_start_there_is_no_worker(outage: Outage) -> None:
    outage.away.set()
    one = make_worker(outage.store)
    one.thread.start()

    with pytest.raises(StoreUnreachable):
        one.ended()
    assert one.provider.closed


# --- Real faults ----------------------------------------------------------------------------------


def test_a_file_that_another_program_locks_is_waited_for(sqlite_url: str, chance: Chance) -> None:
    store = open_store(sqlite_url, create=True, lock_wait=0.05)
    (job_id,), latch, log = enqueue(store, chance), Latch(), Heard()

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result="1")

    assert store.path is not None
    other = sqlite3.connect(store.path, isolation_level=None)
    with running(store, ScriptedProvider(answer), log=log) as one:
        eventually(lambda: one.provider.calls)
        other.execute("BEGIN EXCLUSIVE")
        latch.open.set()
        eventually(lambda: log.fields_of(LogEvent.STORE_LOST))
        other.execute("ROLLBACK")
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)
    other.close()
    store.close()

    assert one.provider.count("submit") == 1


def test_a_full_disk_stops_the_calls_until_there_is_space_again(sqlite_url: str, chance: Chance) -> None:
    store = open_store(sqlite_url, create=True)
    connections: list[Any] = []
    most = [1 << 30]

    def opened(connection: Any, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count={most[0]}")  # the disk is full for those to come as well
        connections.append(connection)

    event.listen(store.engine, "connect", opened)
    store.close()  # whatever is open already was opened before we listened
    ids, log = enqueue(store, chance, 30), Heard()
    large = "x" * 400_000

    def limit(pages: int) -> None:
        most[0] = pages
        for connection in connections:
            connection.execute(f"PRAGMA max_page_count={pages}")

    def fill(call: Call) -> Reply:
        return Done(result=f'"{large}"')

    with running(
        store, ScriptedProvider(_paused(fill, at=3, then=lambda: limit(1))), log=log, concurrency=3
    ) as one:
        eventually(lambda: log.fields_of(LogEvent.STORE_LOST))
        called = len(one.provider.calls)
        eventually(lambda: one.crew.gate.fault and one.crew.shift.unsaved)
        limit(1 << 30)
        eventually(lambda: {present(store, job_id).status for job_id in ids} == {Status.SUCCEEDED})
    store.close()

    assert called <= 6
    assert one.provider.count("submit") == 30


def _paused(answer: Callable[[Call], Reply], *, at: int, then: Callable[[], None]) -> Callable[[Call], Reply]:
    """*answer*, and once *at* calls have been made, something happens."""
    calls = 0

    def script(call: Call) -> Reply:
        nonlocal calls
        calls += 1
        if calls == at:
            then()
        return answer(call)

    return script


@pytest.mark.postgres
def test_a_restart_of_the_server_loses_nothing(chance: Chance) -> None:
    with restartable_server() as server:
        store = open_store(server.server.url_of(), create=True)
        ids, latch, log = enqueue(store, chance, 20), Latch(), Heard()

        async def answer(call: Call) -> Reply:
            await latch.passed()
            return Done(result=f'"{call.job_id}"')

        with running(store, ScriptedProvider(answer), log=log, concurrency=10) as one:
            eventually(lambda: one.provider.count("submit") == 10)
            server.stop()
            latch.open.set()
            eventually(lambda: one.crew.shift.unsaved == 10)
            called_while_away = one.provider.count("submit")
            server.start()
            eventually(lambda: one.so_far.succeeded == 20, 30)
            later = enqueue(store, chance, 1)
            eventually(lambda: present(store, later[0]).status is Status.SUCCEEDED)
        store.close()

    assert called_while_away == 10
    assert one.provider.count("submit") == 21
    assert len(ids) == 20
    assert log.fields_of(LogEvent.STORE_BACK)
