"""Leases: kept while the job runs, lost for good when somebody else has it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from aijobs.core.clock import Chance, seeded_chance
from aijobs.core.errors import SchemaMismatch, StoreError, StoreUnreachable
from aijobs.core.log_events import LogEvent
from aijobs.core.model import Done, Pending, Reply, Status
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Renewal
from aijobs.services.sweeper import Sweeper
from aijobs.services.worker.draining import Draining
from aijobs.services.worker.errands import Errand, Errands
from aijobs.services.worker.leases import Key, LeaseKeeper, key_of
from aijobs.store import jobs
from aijobs.store.engine import Store, open_store
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, claim_one, history, new_job, present, settings_of, succeed
from tests.support.wait import eventually
from tests.support.workers import Heard, Latch, ScriptedProvider, drain, running


def enqueue(store: Store, chance: Chance, **changes: Any) -> str:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    return coordinator.enqueue(new_job(**changes), actor="test").job.id


def held_by(latch: Latch, result: str = '"mine"') -> ScriptedProvider:
    """A provider that answers once the latch is open."""

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result=result)

    return ScriptedProvider(answer)


def asleep(*, concurrency: int = 1) -> dict[str, Any]:
    """Options of a worker that renews nothing, repairs nothing, and has no slot for another job."""
    return {"renew_every": timedelta(hours=1), "repair_every": timedelta(hours=1), "concurrency": concurrency}


def leased_until(store: Store, job_id: str, until: datetime) -> bool:
    return present(store, job_id).locked_until == until


class Listener:
    """Notes what the keeper says."""

    def __init__(self) -> None:
        self.lost: list[Key] = []
        self.cancels: list[Key] = []
        self.faults: list[StoreError] = []
        self.answers = 0
        self.deaths: list[BaseException] = []

    def lease_lost(self, key: Key, why: str) -> None:
        self.lost.append(key)

    def cancel_asked(self, key: Key) -> None:
        self.cancels.append(key)

    def store_failed(self, fault: StoreError) -> None:
        self.faults.append(fault)

    def store_answered(self) -> None:
        self.answers += 1

    def keeper_died(self, fault: BaseException) -> None:
        self.deaths.append(fault)


class Keeping:
    """A keeper over a store that says what a test wants it to."""

    def __init__(self, *, every: timedelta = timedelta(hours=1)) -> None:
        self.clock = ManualClock()
        self.listener = Listener()
        self.asked: list[dict[str, int]] = []
        self.untils: list[datetime] = []
        self.answer: Renewal | Exception = Renewal()
        self.keeper = LeaseKeeper(
            lease=LEASE, every=every, clock=self.clock, chance=seeded_chance(1), listener=self.listener,
            renew=self._renew, beat=lambda now: None,
        )  # fmt: skip

    def hold(self, *keys: Key) -> None:
        self.keeper.hold(keys, self.keeper.until())

    def _renew(self, leases: Mapping[str, int], until: datetime) -> Renewal:
        self.asked.append(dict(leases))
        self.untils.append(until)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# --- The keeper by itself -------------------------------------------------------------------------


def cut_short(cancelled: list[str]) -> Callable[[Call], Awaitable[Reply]]:
    """A provider that never answers, and notes in *cancelled* whose call was given up."""

    async def answer(call: Call) -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(call.job_id)
        raise AssertionError

    return answer


def test_all_leases_are_renewed_in_one_go_for_a_whole_lease() -> None:
    one = Keeping()
    one.hold(("a", 1), ("b", 7))

    one.keeper.renew_now()

    assert one.asked == [{"a": 1, "b": 7}]
    assert one.untils == [one.clock.now() + LEASE]


def test_a_dropped_lease_is_not_renewed() -> None:
    one = Keeping()
    one.hold(("a", 1), ("b", 7))
    one.keeper.drop([("a", 1)])

    one.keeper.renew_now()

    assert one.asked == [{"b": 7}]


def test_a_lease_that_is_lost_is_told_and_renewed_no_more() -> None:
    one = Keeping()
    one.hold(("a", 1), ("b", 7))
    one.answer = Renewal(lost=frozenset({"a"}))

    one.keeper.renew_now()
    one.keeper.renew_now()

    assert one.listener.lost == [("a", 1)]
    assert one.asked[1] == {"b": 7}


def test_a_cancel_is_told_and_the_lease_is_kept() -> None:
    one = Keeping()
    one.hold(("a", 1))
    one.answer = Renewal(cancel=frozenset({"a"}))

    one.keeper.renew_now()
    one.keeper.renew_now()

    assert one.listener.cancels[0] == ("a", 1)
    assert one.asked == [{"a": 1}, {"a": 1}]


def test_a_job_claimed_again_is_another_lease_and_the_old_one_is_lost() -> None:
    one = Keeping()
    one.hold(("a", 1))

    one.hold(("a", 3))
    one.keeper.renew_now()

    assert one.listener.lost == [("a", 1)]
    assert one.asked == [{"a": 3}]
    assert one.keeper.stands(("a", 3))
    assert not one.keeper.stands(("a", 1))


def test_a_late_answer_about_an_old_lease_does_not_touch_the_new_one() -> None:
    one = Keeping()
    one.hold(("a", 1))

    def lost_then_claimed_again(leases: Mapping[str, int], until: datetime) -> Renewal:
        one.keeper.drop([("a", 1)])
        one.hold(("a", 2))
        return Renewal(lost=frozenset({"a"}))

    one.keeper._renew = lost_then_claimed_again
    one.keeper.renew_now()

    assert one.keeper.stands(("a", 2))


def test_a_lease_whose_time_has_passed_does_not_stand() -> None:
    one = Keeping()
    one.hold(("a", 1))

    one.clock.advance(LEASE)

    assert not one.keeper.stands(("a", 1))
    assert one.keeper.expired() == {("a", 1)}


@pytest.mark.parametrize("field", ["store", "monotonic", "host"])
def test_each_clock_alone_is_enough_to_doubt_a_lease(field: str) -> None:
    one = Keeping()
    until = one.keeper.until()
    long_ago: dict[str, Any] = {
        "store": one.clock.now(), "monotonic": 0.0, "host": datetime(2020, 1, 1, tzinfo=UTC)
    }  # fmt: skip

    one.keeper.hold([("a", 1)], replace(until, **{field: long_ago[field]}))

    assert not one.keeper.stands(("a", 1))


def test_a_renewal_lets_an_expired_lease_stand_again_when_nobody_took_it() -> None:
    one = Keeping()
    one.hold(("a", 1))
    one.clock.advance(LEASE)

    one.keeper.renew_now()

    assert one.keeper.stands(("a", 1))


def test_while_the_store_is_away_a_lease_is_kept_until_its_time_has_passed() -> None:
    one = Keeping()
    one.hold(("a", 1))
    one.answer = StoreUnreachable("away")

    one.clock.advance(LEASE - timedelta(seconds=1))
    one.keeper.renew_now()
    kept = list(one.listener.lost)
    one.clock.advance(seconds=1)
    one.keeper.renew_now()

    assert kept == []
    assert one.listener.lost == [("a", 1)]
    assert len(one.listener.faults) == 2


def test_a_failed_renewal_is_tried_again_long_before_the_next_round() -> None:
    one = Keeping(every=timedelta(hours=1))
    one.hold(("a", 1))
    one.answer = StoreUnreachable("away")
    one.keeper.start()

    one.keeper.renew_soon()
    eventually(lambda: len(one.asked) >= 3)
    one.answer = Renewal()
    eventually(lambda: one.listener.answers == 1)
    one.keeper.stop(timeout=5)


def test_the_death_of_the_keeper_is_told() -> None:
    one = Keeping(every=timedelta(milliseconds=1))
    one.hold(("a", 1))
    one.answer = SchemaMismatch("another version")

    one.keeper.start()

    eventually(lambda: one.listener.deaths == [one.answer])
    one.keeper.stop(timeout=5)


# --- A worker's leases ----------------------------------------------------------------------------


def test_a_job_longer_than_its_lease_is_run_once(store: Store, clock: ManualClock, chance: Chance) -> None:
    job_id, latch = enqueue(store, chance), Latch()
    sweeper = Sweeper(Coordinator(store, settings_of(), chance=chance))

    with running(store, held_by(latch)) as one, running(store, one.provider):
        eventually(lambda: one.provider.calls)
        for _ in range(6):  # 60 s at a time would be over the lease at once: it is renewed in between
            until = clock.advance(LEASE / 2) + LEASE
            eventually(partial(leased_until, store, job_id, until))
            assert sweeper.sweep()["expired_leases"].found == 0
        latch.open.set()
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)

    assert one.provider.count("submit") == 1
    assert [one["outcome"] for one in history(store, job_id)] == ["succeeded"]
    assert present(store, job_id).attempts == 1


def test_a_job_that_blocks_the_event_loop_keeps_its_lease(database_url: str, chance: Chance) -> None:
    store = open_store(database_url, create=True)
    job_id = enqueue(store, chance)

    def end_of_lease() -> datetime:
        until = present(store, job_id).locked_until
        assert until is not None
        return until

    def block(call: Call) -> Reply:  # the event loop does nothing else meanwhile
        for _ in range(3):
            before = end_of_lease()
            eventually(lambda: end_of_lease() > before)  # noqa: B023  # it is asked at once
        return Done(result="1")

    with running(store, ScriptedProvider(block), renew_every=timedelta(seconds=0.05)):
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED, 40)

    assert [one["outcome"] for one in history(store, job_id)] == ["succeeded"]
    store.close()


def test_what_is_claimed_is_kept_before_the_event_loop_hears_of_it(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    enqueue(store, chance)
    one, settings = Keeping(), settings_of()
    errands = Errands(
        Coordinator(store, settings, chance=chance), one.keeper, Draining(store, settings, ("t",)),
        worker="w1", log=Heard(),
    )  # fmt: skip

    answer = errands.run(Errand(claim=ClaimRequest(worker="w1", slots=1, lease=LEASE)))

    (claim,) = answer.claims
    assert one.keeper.stands(key_of(claim.job))


def test_a_lease_lost_before_the_event_loop_hears_of_the_claim_leads_to_no_call(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id = enqueue(store, chance)
    other = Coordinator(store, settings_of(), chance=chance)

    class Unlucky(Coordinator):
        def claim(self, request: ClaimRequest) -> list[Claim]:
            found = super().claim(request)
            if found:
                clock.advance(LEASE)
                other.rescue(limit=10)
            return found

    coordinator = Unlucky(store, settings_of(), chance=chance)
    with running(store, coordinator=coordinator, **asleep()) as one:
        eventually(lambda: one.so_far.lost == 1)
        eventually(lambda: not one.crew.keeper._held)

    assert one.provider.calls == []
    assert present(store, job_id).status is Status.FAILED


def test_a_stale_worker_that_finishes_late_changes_nothing(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id, latch, log = enqueue(store, chance), Latch(), Heard()
    other = Coordinator(store, settings_of(), chance=chance)

    # Nothing is renewed and nothing checked: this worker was asleep.
    with running(store, held_by(latch, '"late"'), log=log, **asleep()) as one:
        eventually(lambda: one.provider.calls)
        one.crew.shift._check_leases = lambda now: None  # type: ignore[method-assign]
        clock.advance(LEASE)
        other.rescue(limit=10)
        clock.advance(timedelta(hours=1))
        succeed(other, claim_one(other, worker="other"), '"theirs"')
        latch.open.set()
        eventually(lambda: one.so_far.lost == 1)
        report = one.so_far

    with store.read() as tx:
        assert jobs.result_of(tx, job_id) == '"theirs"'
    assert (report.lost, report.succeeded) == (1, 0)
    assert [one["outcome"] for one in history(store, job_id)] == ["lost", "succeeded"]
    assert [said["job"] for said in log.fields_of(LogEvent.LEASE_LOST)] == [job_id]


def test_a_lost_lease_cancels_the_attempt_that_ran_under_it(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id, cancelled = enqueue(store, chance), []
    other = Coordinator(store, settings_of(), chance=chance)

    with running(store, ScriptedProvider(cut_short(cancelled)), **asleep()) as one:
        eventually(lambda: one.provider.calls)
        clock.advance(LEASE)
        other.rescue(limit=10)
        clock.advance(timedelta(hours=1))
        claim_one(other, worker="other")
        one.crew.keeper.renew_soon()
        eventually(lambda: cancelled == [job_id])
        eventually(lambda: one.so_far.lost == 1)

    assert present(store, job_id).locked_by == "other"


def test_a_job_lost_and_claimed_again_by_the_same_worker_keeps_its_new_lease(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id, first, second = enqueue(store, chance), Latch(), Latch()
    settings = settings_of(
        retry={"worker_lost": {"retries": 3, "first": "immediate", "backoff": "fixed", "delay": "0s"}}
    )
    other = Coordinator(store, settings, chance=chance)

    async def answer(call: Call) -> Reply:
        await (first if call.attempt == 1 else second).passed()
        return Done(result=f"{call.attempt}")

    with running(store, ScriptedProvider(answer), settings=settings, **asleep(concurrency=2)) as one:
        eventually(lambda: one.provider.count("submit") == 1)
        clock.advance(LEASE)
        other.rescue(limit=10)
        eventually(lambda: one.provider.count("submit") == 2)  # the same worker claims it again
        first.open.set()
        until = clock.advance(LEASE / 2) + LEASE
        one.crew.keeper.renew_soon()
        eventually(lambda: present(store, job_id).locked_until == until)
        second.open.set()
        eventually(lambda: present(store, job_id).status is Status.SUCCEEDED)

    with store.read() as tx:
        assert jobs.result_of(tx, job_id) == "2"
    assert [one["outcome"] for one in history(store, job_id)] == ["lost", "succeeded"]


def test_after_a_sleep_the_claim_is_checked_before_the_next_call(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id = enqueue(store, chance)
    other = Coordinator(store, settings_of(), chance=chance)

    class Asleep(Coordinator):
        """The worker's process is stopped right after its claim, for longer than the lease."""

        def claim(self, request: Any) -> Any:
            found = super().claim(request)
            if found and not slept:
                slept.append(True)
                clock.advance(LEASE * 3)
                other.rescue(limit=10)
                clock.advance(timedelta(hours=1))
                claim_one(other, worker="other")
            return found

    slept: list[bool] = []
    coordinator = Asleep(store, settings_of(), chance=chance)
    with running(store, coordinator=coordinator, **asleep()) as one:
        eventually(lambda: one.so_far.lost == 1)

    assert one.provider.calls == []
    assert present(store, job_id).locked_by == "other"


def test_after_a_sleep_that_nobody_used_the_job_goes_on(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id = enqueue(store, chance)

    class Asleep(Coordinator):
        def claim(self, request: Any) -> Any:
            found = super().claim(request)
            if found:
                clock.advance(LEASE * 3)
            return found

    drain(store, coordinator=Asleep(store, settings_of(), chance=chance), **asleep())

    assert [one["outcome"] for one in history(store, job_id)] == ["succeeded"]


def test_a_lease_that_cannot_be_renewed_in_time_is_given_up(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id, cancelled = enqueue(store, chance), []

    class Away(Coordinator):
        def renew(self, leases: Any, until: Any) -> Any:
            raise StoreUnreachable("away")

    coordinator = Away(store, settings_of(), chance=chance)
    with running(store, ScriptedProvider(cut_short(cancelled)), coordinator=coordinator) as one:
        eventually(lambda: one.provider.calls)
        assert cancelled == []
        clock.advance(LEASE)
        eventually(lambda: cancelled == [job_id])


def test_a_lease_is_given_up_in_time_although_its_renewal_hangs(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    job_id, cancelled, hang = enqueue(store, chance), [], threading.Event()

    class Hanging(Coordinator):
        def renew(self, leases: Any, until: Any) -> Any:
            hang.wait(20)
            return super().renew(leases, until)

    coordinator = Hanging(store, settings_of(), chance=chance)
    with running(store, ScriptedProvider(cut_short(cancelled)), coordinator=coordinator) as one:
        eventually(lambda: one.provider.calls)
        clock.advance(LEASE)
        eventually(lambda: cancelled == [job_id])
        hang.set()


def test_leases_of_jobs_that_have_ended_are_let_go(store: Store, chance: Chance) -> None:
    job_ids = [enqueue(store, chance) for _ in range(3)]

    with running(store) as one:
        eventually(lambda: one.so_far.succeeded == len(job_ids))
        eventually(lambda: not one.crew.keeper._held)


def test_what_was_begun_under_a_lost_lease_is_cancelled_at_the_provider(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    enqueue(store, chance)
    latch = Latch()
    other = Coordinator(store, settings_of(), chance=chance)

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Pending(provider_job_id="resp_1")

    with running(store, ScriptedProvider(answer), **asleep()) as one:
        eventually(lambda: one.provider.calls)
        one.crew.shift._check_leases = lambda now: None  # type: ignore[method-assign]
        clock.advance(LEASE)
        other.rescue(limit=10)
        clock.advance(timedelta(hours=1))
        claim_one(other, worker="other")
        latch.open.set()
        eventually(lambda: one.provider.count("cancel") == 1)
