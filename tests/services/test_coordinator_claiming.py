"""Leases: one worker a job, the fence, fair turns, and limits that hold across processes."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.lifecycle import Parked
from aijobs.core.model import NO_CALL, Status
from aijobs.core.switches import ALL, BELOW_PRIORITY, Switch, SwitchKind
from aijobs.services.coordinator import Coordinator, claiming
from aijobs.store import switches
from aijobs.store.engine import open_store
from tests.support.jobs import (
    LEASE,
    claim_one,
    claim_some,
    ended,
    fail,
    new_job,
    present,
    settings_of,
    succeed,
)


@pytest.fixture
def coordinator(store, chance):
    return Coordinator(store, settings_of(), chance=chance)


def limited(store, seed: int = 1, **type_limits: object) -> Coordinator:
    concurrency = type_limits.pop("concurrency_section", {"global": None, "per_user": None})
    types = {"t": {"provider": "p"} | type_limits}
    settings = settings_of(types=types, concurrency=concurrency)
    return Coordinator(store, settings, chance=seeded_chance(seed))


def enqueue(coordinator: Coordinator, *users: str, **changes: object) -> list[str]:
    jobs = [new_job({"n": index}, user=user, **changes) for index, user in enumerate(users)]
    return [answer.job.id for answer in coordinator.enqueue_many(jobs, actor="t")]


def test_a_claim_leases_the_job_counts_the_attempt_and_raises_the_fence(store, coordinator, clock):
    coordinator.enqueue(new_job(), actor="t")

    (claim,) = claim_some(coordinator, worker="w1")

    assert claim.job == present(store, claim.job.id)
    assert claim.payload == '{"n":1}'
    assert (claim.job.status, claim.job.locked_by) == (Status.PROCESSING, "w1")
    assert (claim.job.attempts, claim.job.lock_token) == (1, 1)
    assert claim.job.locked_until == clock.now() + LEASE
    assert (claim.job.provider, claim.resume) == ("p", False)


def test_a_claimed_job_is_not_claimed_again(coordinator):
    coordinator.enqueue(new_job(), actor="t")
    claim_one(coordinator)

    assert claim_some(coordinator, worker="w2") == []


def test_a_delayed_job_is_claimed_exactly_when_it_is_due(coordinator, clock):
    due = clock.now() + timedelta(minutes=5)
    coordinator.enqueue(new_job(run_at=due), actor="t")

    clock.advance(timedelta(minutes=5) - timedelta(microseconds=1))
    early = claim_some(coordinator)
    clock.advance(timedelta(microseconds=1))
    at_time = claim_some(coordinator)

    assert (len(early), len(at_time)) == (0, 1)


def test_jobs_of_one_user_go_first_in_first_out(coordinator):
    made = enqueue(coordinator, *[""] * 5)

    assert [claim.job.id for claim in claim_some(coordinator, 5)] == made


def test_the_higher_priority_is_claimed_first(coordinator):
    enqueue(coordinator, "a", "a")
    (urgent,) = enqueue(coordinator, "a", priority=7)

    assert claim_one(coordinator).id == urgent


def test_a_user_with_one_job_does_not_wait_behind_a_flood(coordinator):
    enqueue(coordinator, *["ana"] * 500)
    (lone,) = enqueue(coordinator, "bo")

    assert lone in [claim.job.id for claim in claim_some(coordinator, 3)]


def test_a_user_who_arrives_while_a_flood_is_served_still_gets_the_next_turn(coordinator):
    enqueue(coordinator, *["ana"] * 100)
    for claim in claim_some(coordinator, 60):
        succeed(coordinator, claim.job)
    (lone,) = enqueue(coordinator, "bo")

    assert lone in [claim.job.id for claim in claim_some(coordinator, 2)]


def test_jobs_of_a_user_at_the_cap_do_not_keep_workers_idle(store):
    coordinator = limited(store, per_user=1)
    enqueue(coordinator, *["ana"] * 500, "bo")

    first = claim_some(coordinator, 10)
    (late,) = enqueue(coordinator, "cy")
    second = claim_some(coordinator, 10)

    assert sorted(claim.job.user for claim in first) == ["ana", "bo"]
    assert [claim.job.id for claim in second] == [late]


@pytest.mark.parametrize("user", ["zoe", ""])
def test_the_walk_past_a_crowd_of_capped_users_finds_the_one_behind_it(store, clock, user):
    coordinator = limited(store, per_user=1)
    crowd = [f"user-{number:03}" for number in range(80)]
    enqueue(coordinator, *crowd)
    assert len(claim_some(coordinator, 80)) == 80
    enqueue(coordinator, *(crowd * 3))
    clock.advance(seconds=1)  # ids of one millisecond are in no order: this one is to stand last
    enqueue(coordinator, user, user)

    behind = claim_some(coordinator, 1)

    assert [one.job.user for one in behind] == [user]
    assert claim_some(coordinator, 10) == []


def test_behind_a_crowd_a_user_gets_as_many_as_the_cap_allows_in_one_claim(store, clock):
    coordinator = limited(store, per_user=2)
    crowd = [f"user-{number:03}" for number in range(40)]
    enqueue(coordinator, *crowd, *crowd)
    assert len(claim_some(coordinator, 80)) == 80
    enqueue(coordinator, *(crowd * 4))
    clock.advance(seconds=1)
    enqueue(coordinator, *["zoe"] * 3, "zac")

    behind = claim_some(coordinator, 10)

    assert sorted(one.job.user for one in behind) == ["zac", "zoe", "zoe"]


def test_one_claim_walks_past_a_crowd_in_steps_and_around_the_end(store, clock, monkeypatch):
    monkeypatch.setattr(claiming, "_WALK_AT_ONCE", 10)
    coordinator = limited(store, per_user=1)
    crowd = [f"user-{number:03}" for number in range(80)]
    enqueue(coordinator, *crowd)
    assert len(claim_some(coordinator, 80)) == 80
    enqueue(coordinator, *(crowd * 3))
    clock.advance(seconds=1)
    enqueue(coordinator, "user-0405", "zoe", "zoe", "anna")

    claimed = [[one.job.user for one in claim_some(coordinator, slots)] for slots in (1, 2, 9)]

    assert claimed == [["anna"], ["user-0405", "zoe"], []]
    enqueue(coordinator, "bea")
    assert [one.job.user for one in claim_some(coordinator, 9)] == ["bea"]


def test_a_step_that_finds_more_than_there_is_room_for_goes_on_with_the_rest(store, clock):
    coordinator = limited(store, per_user=1)
    crowd = [f"user-{number:03}" for number in range(80)]
    enqueue(coordinator, *crowd)
    assert len(claim_some(coordinator, 80)) == 80
    enqueue(coordinator, *(crowd * 3))
    clock.advance(seconds=1)
    enqueue(coordinator, *["zoe", "zeno", "zelda", "zora"])

    claimed = [[one.job.user for one in claim_some(coordinator, 1)] for _ in range(4)]

    assert claimed == [["zelda"], ["zeno"], ["zoe"], ["zora"]]


@pytest.mark.parametrize(
    ("limits", "users"),
    [
        ({"concurrency": 1}, ["a", "b"]),
        ({"per_user": 1}, ["a", "a"]),
        ({"per_user": 1}, ["", ""]),
        ({"concurrency_section": {"global": 1, "per_user": None}}, ["a", "b"]),
        ({"concurrency_section": {"global": None, "per_user": 1}}, ["a", "a"]),
    ],
)
def test_the_claim_counts_what_a_provider_does_in_the_background(store, clock, limits, users):
    coordinator = limited(store, **limits)
    enqueue(coordinator, *users)
    job = claim_one(coordinator)
    parked = Parked(provider_job_id="r1", poll_at=clock.now() + timedelta(seconds=30))
    coordinator.finish([ended(job, parked)])

    assert claim_some(coordinator, 5) == []


def test_where_parked_jobs_are_free_they_leave_their_place_to_others(store, clock):
    section = {"global": 1, "per_user": None, "parked": "free"}
    coordinator = limited(store, concurrency_section=section)
    enqueue(coordinator, "a", "b")
    job = claim_one(coordinator)
    running = claim_some(coordinator, 5)
    parked = Parked(provider_job_id="r1", poll_at=clock.now() + timedelta(seconds=30))
    coordinator.finish([ended(job, parked)])

    assert running == []
    assert len(claim_some(coordinator, 5)) == 1


def test_those_without_a_user_share_one_limit_and_names_differ_by_case(store):
    coordinator = limited(store, per_user=2)
    enqueue(coordinator, *["", "Ana", "ana"] * 3)

    claimed = claim_some(coordinator, 20)

    assert Counter(one.job.user for one in claimed) == {"": 2, "Ana": 2, "ana": 2}


def test_under_a_lowered_limit_nothing_starts_until_enough_has_ended(store):
    enqueue(limited(store), *["ana"] * 7)
    at_work = claim_some(limited(store, per_user=5), 20)
    lowered = limited(store, per_user=2)

    started = []
    for one in at_work:
        started.append(len(claim_some(lowered, 20)))
        assert succeed(lowered, one.job).applied

    assert len(at_work) == 5
    assert started == [0, 0, 0, 0, 1]
    assert len(claim_some(lowered, 20)) == 1


def test_a_limit_of_nothing_starts_nothing_and_lets_what_runs_end(store):
    enqueue(limited(store), "ana", "ana")
    at_work = claim_one(limited(store))
    paused = limited(store, per_user=0)

    assert claim_some(paused, 5) == []
    assert succeed(paused, at_work).applied
    assert claim_some(paused, 5) == []


def test_the_slot_of_a_dead_worker_is_free_when_its_lease_is_found_lost_and_not_before(store, clock):
    coordinator = limited(store, per_user=1)
    enqueue(coordinator, "ana", "ana")
    (lost,) = claim_some(coordinator, 5)

    clock.advance(LEASE - timedelta(microseconds=1))
    assert coordinator.rescue(limit=10).found == 0
    assert claim_some(coordinator, 5) == []
    clock.advance(timedelta(microseconds=1))
    assert claim_some(coordinator, 5) == []
    assert coordinator.rescue(limit=10).repaired == 1

    (after,) = claim_some(coordinator, 5)
    assert after.job.id != lost.job.id


def test_a_limit_holds_when_two_workers_claim_at_the_same_instant(store):
    enqueue(limited(store), *[f"u{n % 5}" for n in range(60)])
    start = Barrier(4)

    def grab(number: int) -> list[str]:
        own = open_store(store.url, clock=store.clock)
        try:
            coordinator = limited(own, number, per_user=2, concurrency=7)
            start.wait()
            return [c.job.user for _ in range(5) for c in claim_some(coordinator, 10, worker=f"w{number}")]
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        users = [user for found in pool.map(grab, range(4)) for user in found]

    assert len(users) == 7
    assert max(Counter(users).values()) <= 2


def test_two_workers_never_get_the_same_job(store):
    enqueue(limited(store), *[""] * 120)
    start = Barrier(4)

    def grab(number: int) -> list[str]:
        own = open_store(store.url, clock=store.clock)
        try:
            coordinator = limited(own, number)
            start.wait()
            return [c.job.id for _ in range(10) for c in claim_some(coordinator, 5, worker=f"w{number}")]
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        found = [job_id for ids in pool.map(grab, range(4)) for job_id in ids]

    assert len(found) == len(set(found))
    assert len(found) == 120 or len(claim_some(limited(store), 200)) == 120 - len(found)


def test_a_renewal_extends_the_lease_and_tells_who_is_asked_to_stop(store, coordinator, clock):
    enqueue(coordinator, "a", "b")
    first, second = (claim.job for claim in claim_some(coordinator, 2))
    coordinator.cancel(second.id, actor="t", reason="enough")
    until = clock.now() + timedelta(hours=1)

    renewal = coordinator.renew({first.id: first.lock_token, second.id: second.lock_token}, until)

    assert (renewal.lost, renewal.cancel) == (frozenset(), frozenset({second.id}))
    assert present(store, first.id).locked_until == until


def test_a_renewal_with_an_old_fence_extends_nothing(store, coordinator, clock):
    coordinator.enqueue(new_job(), actor="t")
    stale = claim_one(coordinator, worker="w1")
    clock.advance(LEASE)
    coordinator.rescue(limit=10)
    clock.advance(timedelta(minutes=2))
    fresh = claim_one(coordinator, worker="w2")

    renewal = coordinator.renew({stale.id: stale.lock_token}, clock.now() + timedelta(hours=1))

    assert renewal.lost == frozenset({stale.id})
    assert present(store, fresh.id).locked_until == fresh.locked_until


def test_a_stale_worker_that_finishes_late_changes_nothing(store, coordinator, clock):
    coordinator.enqueue(new_job(), actor="t")
    stale = claim_one(coordinator, worker="w1")
    clock.advance(LEASE)
    coordinator.rescue(limit=10)
    clock.advance(timedelta(minutes=2))
    fresh = claim_one(coordinator, worker="w2")
    before = present(store, fresh.id)

    late_success = succeed(coordinator, stale, '"stale"')
    late_failure = fail(coordinator, stale)
    late_id = coordinator.save_provider_job_id(stale, "r-stale", NO_CALL)

    assert (late_success.applied, late_failure.applied, late_id) == (False, False, False)
    assert present(store, fresh.id) == before
    assert succeed(coordinator, fresh, '"fresh"').applied


def test_a_parked_job_is_resumed_by_whoever_comes_when_its_poll_is_due(store, coordinator, clock):
    coordinator.enqueue(new_job(), actor="t")
    job = claim_one(coordinator, worker="w1")
    assert coordinator.save_provider_job_id(job, "r1", NO_CALL)
    poll_at = clock.now() + timedelta(seconds=30)
    coordinator.finish([ended(job, Parked(provider_job_id="r1", poll_at=poll_at))])

    clock.advance(timedelta(seconds=29))
    early = claim_some(coordinator, worker="w2")
    clock.advance(timedelta(seconds=1))
    (due,) = claim_some(coordinator, worker="w2")

    assert early == []
    assert due.resume
    assert (due.job.provider_job_id, due.job.attempts, due.job.lock_token) == ("r1", 1, 2)
    assert (due.job.locked_by, due.job.parked_at) == ("w2", None)
    assert succeed(coordinator, due.job).applied


def test_a_worker_that_crashed_after_saving_the_provider_id_is_followed_by_a_poll_not_a_second_call(
    store, coordinator, clock
):
    coordinator.enqueue(new_job(), actor="t")
    job = claim_one(coordinator, worker="w1")
    coordinator.save_provider_job_id(job, "r1", NO_CALL)

    clock.advance(LEASE)
    rescued = coordinator.rescue(limit=10)
    (claim,) = claim_some(coordinator, worker="w2")

    assert rescued.found == 0
    assert (claim.resume, claim.job.attempts) == (True, 1)


def test_a_worker_that_serves_some_types_leaves_the_others(store, chance):
    types = {name: {"provider": "p"} for name in ("t", "u")}
    coordinator = Coordinator(store, settings_of(types=types), chance=chance)
    coordinator.enqueue(new_job(type="u"), actor="t")

    assert claim_some(coordinator, 5, types=("t",)) == []
    assert len(claim_some(coordinator, 5, types=("u",))) == 1


def pause(store, clock, scope: str, value: str = "on", minutes: int | None = None) -> None:
    expires_at = clock.now() + timedelta(minutes=minutes) if minutes else None
    switch = Switch(
        kind=SwitchKind.PAUSE, scope=scope, value=value, actor="ana", reason="incident", set_at=clock.now(),
        expires_at=expires_at,
    )  # fmt: skip
    with store.write() as tx:
        switches.throw(tx, switch)


@pytest.mark.parametrize("scope", [ALL, "t"])
def test_nothing_of_what_is_paused_starts_until_it_is_resumed(store, coordinator, clock, scope):
    coordinator.enqueue(new_job(), actor="t")
    pause(store, clock, scope)

    paused = claim_some(coordinator)
    with store.write() as tx:
        was_on = switches.clear(tx, SwitchKind.PAUSE, scope)

    assert (paused, was_on) == ([], True)
    assert len(claim_some(coordinator)) == 1


def test_a_pause_ends_by_itself_exactly_when_it_expires(store, coordinator, clock):
    coordinator.enqueue(new_job(), actor="t")
    pause(store, clock, "t", minutes=10)

    clock.advance(timedelta(minutes=10) - timedelta(microseconds=1))
    before = claim_some(coordinator)
    clock.advance(timedelta(microseconds=1))

    assert (before, len(claim_some(coordinator))) == ([], 1)


def test_a_pause_below_a_priority_lets_the_others_through(store, coordinator, clock):
    enqueue(coordinator, *["bulk"] * 70)
    (urgent,) = enqueue(coordinator, "ana", priority=5)
    pause(store, clock, BELOW_PRIORITY, "5")

    assert [claim.job.id for claim in claim_some(coordinator, 10)] == [urgent]


def test_a_pause_of_another_type_stops_nothing(store, coordinator, clock):
    coordinator.enqueue(new_job(), actor="t")
    pause(store, clock, "u")

    assert len(claim_some(coordinator)) == 1


def test_a_pause_does_not_keep_a_provider_from_being_asked_for_what_is_paid(store, coordinator, clock):
    coordinator.enqueue(new_job(), actor="t")
    parked = Parked(provider_job_id="r1", poll_at=clock.now())
    coordinator.finish([ended(claim_one(coordinator), parked)])
    pause(store, clock, ALL)

    assert [claim.resume for claim in claim_some(coordinator)] == [True]


def test_an_urgent_job_finds_its_kept_place_while_long_ones_hold_the_others(store):
    section = {"global": 3, "per_user": None, "reserved": {"slots": 1, "priority": 5}}
    coordinator = limited(store, concurrency_section=section)
    enqueue(coordinator, *["bulk"] * 70)
    long_ones = claim_some(coordinator, 10)

    (urgent,) = enqueue(coordinator, "ana", priority=5)

    assert len(long_ones) == 2
    assert [claim.job.id for claim in claim_some(coordinator, 10)] == [urgent]
    assert claim_some(coordinator, 10) == []
