"""Replay on both databases: what was planned happens, nothing twice, nothing forgotten; it stops in time."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.durations import Rate
from aijobs.core.errors import Conflict, NotFound
from aijobs.core.model import ErrorClass, Status
from aijobs.core.replaying import LOWEST_PRIORITY, ReplayOptions
from aijobs.services.coordinator import Coordinator
from aijobs.services.replay import Planner, Runner
from aijobs.store import dead_letters, provider_states, replays
from aijobs.store.dead_letters import DeadLetterFilter
from tests.support.jobs import claim_some, fail, history, new_job, present, settings_of, succeed

FAST = Rate(1000, timedelta(seconds=1))
EVERYTHING = DeadLetterFilter()


class Desk:
    """A store with a worker on call: `work` runs whatever is claimable, well or badly as `verdict` says."""

    def __init__(self, store, clock, **sections) -> None:
        self.store, self.clock = store, clock
        self.settings = settings_of(**sections)
        self.coordinator = Coordinator(store, self.settings, chance=seeded_chance(1))
        self.planner = Planner(store, self.settings, chance=seeded_chance((sections and 3) or 2))
        self.calls: list[str] = []
        self.broken = lambda job_id: False

    def die(self, count: int = 1, error_class=ErrorClass.BAD_RESPONSE, **changes) -> list[str]:
        made = [
            self.coordinator.enqueue(new_job({"n": n}, max_attempts=1, **changes), actor="t").job.id
            for n in range(count)
        ]
        for claim in claim_some(self.coordinator, count):
            fail(self.coordinator, claim.job, error_class)
        return made

    def work(self, slots: int = 100) -> int:
        claims = claim_some(self.coordinator, slots)
        for claim in claims:
            self.calls.append(claim.job.id)
            if self.broken(claim.job.id):
                fail(self.coordinator, claim.job, ErrorClass.INVALID_REQUEST)
            else:
                succeed(self.coordinator, claim.job)
        return len(claims)

    def plan(self, wanted=EVERYTHING, *, limit=10_000, **options):
        given = ReplayOptions(**({"rate": FAST} | options))
        return self.planner.plan(wanted, given, limit=limit, actor="ana", reason="repaired")

    def runner(self, owner: str = "host-1") -> Runner:
        return Runner(self.store, self.coordinator, owner=owner, actor="ana")

    def run(self, plan_id: str, owner: str = "host-1", stop=None, hear=lambda outcome: None):
        return self.runner(owner).run(plan_id, hear=hear, stop=stop or Working(self))


class Working(threading.Event):
    """Instead of waiting, let the worker work and the clock move on; `set` after a number of waits."""

    def __init__(self, desk: Desk, waits: int | None = None) -> None:
        super().__init__()
        self.desk, self.waits = desk, waits

    def wait(self, timeout=None):
        self.desk.work()
        self.desk.clock.advance(seconds=timeout or 0.5)
        if self.waits is not None:
            self.waits -= 1
            if self.waits <= 0:
                self.set()
        return self.is_set()


@pytest.fixture
def desk(store, clock):
    return Desk(store, clock)


def states(desk, plan) -> dict[str, int]:
    with desk.store.read() as tx:
        found = replays.items(tx, plan.id)
    counted: dict[str, int] = {}
    for item in found:
        counted[item.state] = counted.get(item.state, 0) + 1
    return counted


def test_a_preview_changes_nothing_and_says_what_would_be(desk):
    dead = desk.die(25)

    plan = desk.plan()

    assert (plan.replayable, plan.skipped, plan.blocked) == (25, (), False)
    assert plan.batches == (1, 10, 10, 4)
    assert [present(desk.store, job_id).status for job_id in dead] == [Status.DEAD_LETTER] * 25
    (group,) = plan.groups
    assert (group.type, group.error_class, group.count, group.verdict) == ("t", "bad_response", 25, "replay")
    assert all(check.ok for check in group.checks)


def test_a_replay_runs_the_plan_and_keeps_every_history(desk):
    dead = desk.die(25)
    plan = desk.plan()

    report = desk.run(plan.id)

    assert (report.state, report.progress.succeeded, report.progress.failed) == ("done", 25, 0)
    assert sorted(desk.calls) == sorted(dead)
    for job_id in dead:
        assert [(one["round"], one["outcome"]) for one in history(desk.store, job_id)] == [
            (1, "failed"), (2, "succeeded"),
        ]  # fmt: skip


def test_the_canary_goes_alone_and_a_batch_waits_for_the_one_before(desk):
    desk.die(25)
    plan = desk.plan()
    sizes: list[int] = []
    stop = Working(desk)
    worked = desk.work
    desk.work = lambda slots=100: sizes.append(worked(slots)) or 0

    desk.run(plan.id, stop=stop)

    assert [size for size in sizes if size] == [1, 10, 10, 4]


def test_with_a_ramp_batches_double(desk):
    desk.die(20)

    assert desk.plan(ramp=True).batches == (1, 2, 4, 8, 5)


def test_a_failed_canary_stops_it_at_once(desk):
    desk.die(25)
    desk.broken = lambda job_id: True

    report = desk.run(desk.plan().id)

    assert report.state == "stopped"
    assert "canary" in report.stopped_because
    assert len(desk.calls) == 1


def test_failures_above_the_ratio_stop_it_within_one_batch(desk):
    desk.die(100)
    plan = desk.plan()
    desk.broken = lambda job_id: len(desk.calls) > 31

    report = desk.run(plan.id)

    assert report.state == "stopped"
    assert "failed again" in report.stopped_because
    assert len(desk.calls) <= 31 + 20
    assert states(desk, plan)["planned"] == 100 - len(desk.calls)


def test_after_the_repair_it_goes_on_and_accounts_for_every_job(desk):
    dead = desk.die(60)
    plan = desk.plan()
    desk.broken = lambda job_id: len(desk.calls) > 15
    stopped = desk.run(plan.id)
    desk.broken = lambda job_id: False

    resumed = desk.run(plan.id)

    assert (stopped.state, resumed.state) == ("stopped", "done")
    assert sorted(desk.calls) == sorted(dead)  # each once
    counted = states(desk, plan)
    assert counted["succeeded"] + counted["failed"] == 60
    assert resumed.progress.failed == stopped.progress.failed


def test_an_interrupted_replay_goes_on_without_doing_anything_twice(desk):
    dead = desk.die(40)
    plan = desk.plan()

    first = desk.run(plan.id, stop=Working(desk, waits=2))
    second = desk.run(plan.id)

    assert (first.state, second.state) == ("interrupted", "done")
    assert sorted(desk.calls) == sorted(dead)


def test_the_rate_holds_over_interruptions(desk):
    desk.die(20)
    plan = desk.plan(rate=Rate(1, timedelta(seconds=1)), batch_size=5)
    began = desk.clock.now()

    while desk.run(plan.id, stop=Working(desk, waits=1)).state == "interrupted":
        pass

    assert desk.clock.now() - began >= timedelta(seconds=15)


def test_a_runner_that_died_is_followed_by_another_only_after_its_lease(desk):
    desk.die(10)
    plan = desk.plan()
    now = desk.clock.now()
    with desk.store.write() as tx:
        assert replays.take(tx, plan.id, "dead-host", now, now + timedelta(minutes=1))

    with pytest.raises(Conflict, match="dead-host"):
        desk.run(plan.id)
    desk.clock.advance(timedelta(minutes=1))

    assert desk.run(plan.id).state == "done"


def test_two_operators_on_the_same_jobs_never_replay_one_twice(desk):
    dead = desk.die(30)
    mine, yours = desk.plan(), desk.plan()

    first = desk.run(mine.id, stop=Working(desk, waits=2))
    second = desk.run(yours.id, owner="host-2")
    rest = desk.run(mine.id)

    assert (first.state, second.state, rest.state) == ("interrupted", "done", "done")
    assert sorted(desk.calls) == sorted(dead)
    assert states(desk, yours)["skipped"] + states(desk, mine)["skipped"] == 30


def test_jobs_that_died_after_the_preview_are_not_replayed(desk):
    desk.die(5)
    plan = desk.plan()
    late = desk.die(3, user="late")

    report = desk.run(plan.id)

    assert report.progress.succeeded == 5
    assert {present(desk.store, job_id).status for job_id in late} == {Status.DEAD_LETTER}


def test_a_job_a_colleague_replayed_meanwhile_is_skipped_and_said(desk):
    first, *others = desk.die(5)
    plan = desk.plan()
    desk.coordinator.reopen(first, actor="bo", reason="by hand")
    heard = []

    desk.run(plan.id, hear=heard.append)

    assert ("skipped", first) in [(outcome.state, outcome.job_id) for outcome in heard]
    assert desk.calls.count(first) == 1
    assert set(desk.calls) == {first, *others}


def test_replays_yield_to_live_jobs(desk):
    desk.die(20)
    plan = desk.plan(canary=0, batch_size=20)
    stop = threading.Event()
    stop.set()
    desk.runner().run(
        plan.id, hear=lambda outcome: stop.set(), stop=Working(desk, waits=0) if False else _Once()
    )
    live = desk.coordinator.enqueue(new_job({"n": "live"}), actor="t").job

    (claim,) = claim_some(desk.coordinator, 1)

    assert claim.job.id == live.id
    assert present(desk.store, replay_job(desk, plan)).priority == LOWEST_PRIORITY


class _Once(threading.Event):
    """Lets one batch begin, then asks to stop."""

    def wait(self, timeout=None):
        self.set()
        return True


def replay_job(desk, plan) -> str:
    with desk.store.read() as tx:
        return next(item.job_id for item in replays.items(tx, plan.id) if item.state == "replayed")


def test_an_aborted_replay_ends_for_good_and_its_runner_stops(desk):
    desk.die(30)
    plan = desk.plan()

    class Abort(Working):
        def wait(self, timeout=None):
            desk.runner("host-2").abort(plan.id, reason="wrong set")
            return super().wait(timeout)

    report = desk.run(plan.id, stop=Abort(desk))

    assert report.state == "aborted"
    with pytest.raises(Conflict):
        desk.run(plan.id)
    with pytest.raises(Conflict):
        desk.runner().abort(plan.id, reason="again")
    with pytest.raises(NotFound):
        desk.runner().abort("nobody", reason="x")


@pytest.mark.parametrize("how", ["aborted", "taken over"])
def test_no_batch_follows_an_abort_that_was_answered_or_the_loss_of_the_plan(desk, monkeypatch, how):
    desk.die(5)
    plan, runner, heard = desk.plan(), desk.runner(), []
    look = runner._next

    def lost_after_the_look(*given):
        act = look(*given)
        if how == "aborted":
            desk.runner("host-2").abort(plan.id, reason="wrong set")
        else:
            desk.clock.advance(timedelta(minutes=1))
            desk.runner("host-2")._take(plan.id, {}, None)
        return act

    monkeypatch.setattr(runner, "_next", lost_after_the_look)
    report = runner.run(plan.id, hear=heard.append, stop=threading.Event())

    assert (states(desk, plan), heard) == ({"planned": 5}, [])
    assert report.state == ("aborted" if how == "aborted" else "interrupted")
    assert ("wrong set" if how == "aborted" else "taken over by host-2") in report.stopped_because


def test_a_runner_that_wakes_when_another_has_carried_its_plan_to_the_end_says_so(desk):
    desk.die(2)
    plan, sleeper = desk.plan(), desk.runner()
    replay = sleeper._take(plan.id, {}, None)
    desk.clock.advance(timedelta(minutes=1))
    desk.run(plan.id, owner="host-2")

    report = sleeper._end(replay, "done", None)

    assert (report.state, report.stopped_because) == ("interrupted", "taken over by somebody else")
    assert report.progress.succeeded == 2


def trouble(desk, **changes) -> None:
    with desk.store.write() as tx:
        (state,) = provider_states.locked(tx, ["p"], desk.clock.now()).values()
        assert provider_states.save(tx, replace(state, **changes), desk.clock.now())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"breaker": "open"}, "breaker"),
        ({"held_at": "now", "hold_reason": "no quota"}, "no quota"),
    ],
)
def test_while_the_provider_is_unwell_nothing_is_replayed(desk, changes, says):
    desk.die(5)
    fresh = desk.plan()
    if "held_at" in changes:
        changes = changes | {"held_at": desk.clock.now()}
    trouble(desk, **changes)

    plan = desk.plan()

    assert (plan.replayable, plan.blocked) == (0, True)
    assert says in plan.skipped[0].reason
    with pytest.raises(Conflict, match="no longer hold"):
        desk.runner().check_fresh(fresh.id)
    assert desk.run(fresh.id).state == "stopped"
    assert desk.calls == []


def test_four_kinds_of_dead_letters_get_four_verdicts(store, clock):
    desk = Desk(store, clock, providers={"p": {"kind": "openai-responses", "api_key": "k"},
                                         "q": {"kind": "anthropic"}},
                types={"t": {"provider": "p"}, "u": {"provider": "q"}})  # fmt: skip
    outage = desk.die(3)
    bad = desk.die(2, ErrorClass.INVALID_REQUEST, user="bad")
    ends = clock.now() + timedelta(hours=1)
    taken = desk.die(1, key="k", user="keyed", key_expires_at=ends)
    clock.set(ends)
    newer = desk.coordinator.enqueue(new_job({"n": 0}, key="k", user="keyed"), actor="t").job
    desk.coordinator.enqueue(new_job({"n": 1}, type="u", max_attempts=1), actor="t")
    for claim in claim_some(desk.coordinator, 5):
        if claim.job.type == "u":
            fail(desk.coordinator, claim.job, ErrorClass.PERMISSION)
        else:
            succeed(desk.coordinator, claim.job)

    plan = desk.plan()

    reasons = {one.job_id: one.reason for one in plan.skipped}
    assert plan.replayable == len(outage)
    assert all("same answer" in reasons[job_id] for job_id in bad)
    assert newer.id in reasons[taken[0]]
    assert any("credentials" in reason for reason in reasons.values())
    assert len(reasons) == len(bad) + len(taken) + 1


def test_what_dies_again_keeps_the_time_and_reason_of_its_first_death(desk):
    (job_id,) = desk.die(1)
    died = desk.clock.now()
    desk.clock.advance(timedelta(hours=1))
    desk.broken = lambda job_id: True
    desk.run(desk.plan().id)

    with desk.store.read() as tx:
        deaths = dead_letters.find(tx, DeadLetterFilter(job_ids=(job_id,), state=None), 10)
        (group,) = dead_letters.groups(tx, EVERYTHING)

    assert [(one.round, one.state, one.error_class) for one in deaths] == [
        (2, "open", "invalid_request"), (1, "replayed", "bad_response"),
    ]  # fmt: skip
    assert deaths[1].at == died
    assert (group.error_class, group.count) == ("invalid_request", 1)


def test_what_only_a_change_can_mend_is_replayed_once_the_settings_have_changed(store, clock):
    before = Desk(store, clock)
    before.die(2, ErrorClass.INVALID_REQUEST)
    after = Desk(store, clock, types={"t": {"provider": "p", "request": {"temperature": 0}}})

    assert (before.plan().replayable, after.plan().replayable) == (0, 2)


def test_a_person_s_word_that_something_has_changed_elsewhere_lets_them_through(desk):
    missing = desk.die(3, ErrorClass.NOT_FOUND)
    seen, forced = desk.plan(), desk.plan(force=True)

    report = desk.run(forced.id)

    assert (seen.replayable, [group.unchanged for group in seen.groups]) == (0, [3])
    assert (forced.replayable, [group.unchanged for group in forced.groups]) == (3, [0])
    assert (report.state, report.progress.succeeded) == ("done", 3)
    assert sorted(desk.calls) == sorted(missing)


def test_a_person_s_word_does_not_raise_how_often_a_type_lets_a_job_be_replayed(store, clock):
    desk = Desk(store, clock, types={"t": {"provider": "p", "max_replays": 1}})
    desk.die(1, ErrorClass.NOT_FOUND)
    desk.broken = lambda job_id: True
    desk.run(desk.plan(force=True).id)

    again = desk.plan(force=True)

    assert again.replayable == 0
    assert "as often as its type allows" in again.skipped[0].reason


def test_a_plan_is_not_begun_twice_nor_when_it_is_old(desk):
    desk.die(3)
    old, plan = desk.plan(), desk.plan()
    desk.run(plan.id)

    with pytest.raises(Conflict, match="done already"):
        desk.runner().check_fresh(plan.id)
    desk.clock.advance(timedelta(hours=24))
    with pytest.raises(Conflict, match="too old"):
        desk.runner().check_fresh(old.id)
    with pytest.raises(NotFound):
        desk.runner().check_fresh("nobody")


def test_a_limit_takes_those_that_died_first(desk):
    first = desk.die(2, user="a")
    desk.clock.advance(timedelta(minutes=1))
    desk.die(3, user="b")
    plan = desk.plan(limit=2)

    desk.run(plan.id)

    assert sorted(desk.calls) != []
    assert set(desk.calls) == set(first)


def test_a_provider_that_becomes_unwell_ends_it_and_what_is_under_way_is_not_waited_for(desk):
    dead = desk.die(20)
    plan = desk.plan(canary=0, batch_size=5)

    class Outage(Working):
        def wait(self, timeout=None):
            trouble(desk, breaker="open")
            return False

    report = desk.run(plan.id, stop=Outage(desk))

    assert (report.state, report.progress.replayed, report.progress.planned) == ("stopped", 5, 15)
    assert "breaker" in report.stopped_because
    trouble(desk, breaker="closed")
    assert desk.run(plan.id).state == "done"
    assert sorted(desk.calls) == sorted(dead)


def test_a_passing_pause_is_waited_for_and_a_long_one_ends_it(desk):
    desk.die(20)
    plan = desk.plan(batch_size=5)
    now = desk.clock.now()
    trouble(desk, paused_until=now + timedelta(seconds=5), pause_reason="429")

    passing = desk.run(plan.id)

    assert (passing.state, passing.progress.succeeded) == ("done", 20)
    desk.die(3, user="other")
    later = desk.plan()
    trouble(desk, paused_until=desk.clock.now() + timedelta(minutes=10), pause_reason="429")
    long = desk.run(later.id)
    assert (long.state, "paused until" in long.stopped_because) == ("stopped", True)


def test_two_operators_at_the_same_instant_never_replay_a_job_twice(desk):
    dead = desk.die(40)
    plans = [desk.plan(batch_size=3), desk.plan(batch_size=4)]
    together = threading.Barrier(2)
    reports: list[object] = []

    def operate(number: int) -> None:
        runner = Runner(desk.store, desk.coordinator, owner=f"host-{number}", actor=f"op-{number}")
        together.wait(10)
        reports.append(runner.run(plans[number].id, hear=lambda outcome: None, stop=_Ticking(desk)))

    threads = [threading.Thread(target=operate, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [report.state for report in reports] == ["done", "done"]
    assert sorted(desk.calls) == sorted(dead)
    assert {len(history(desk.store, job_id)) for job_id in dead} == {2}
    done = [states(desk, plan) for plan in plans]
    assert sum(one.get("succeeded", 0) for one in done) == 40
    assert all(one.get("succeeded", 0) + one.get("skipped", 0) == 40 for one in done)
    assert {present(desk.store, job_id).round for job_id in dead} == {2}


class _Ticking(threading.Event):
    """Instead of waiting, one of two lets the worker work, and time goes on."""

    guard = threading.Lock()

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk

    def wait(self, timeout=None):
        with self.guard:
            self._desk.work()
            self._desk.clock.advance(seconds=timeout or 0.5)
        return False
