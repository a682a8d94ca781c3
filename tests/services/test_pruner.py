"""Retention on both databases: what goes, what must stay, and to the microsecond when."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from aijobs.core.model import ErrorClass, Event, Status
from aijobs.core.replaying import ReplayOptions
from aijobs.core.settings import RetentionSettings
from aijobs.services.coordinator import Coordinator
from aijobs.services.pruner import LONG, Pruner
from aijobs.services.replay import Planner
from aijobs.store import history, jobs, replays, retention, usage_days
from aijobs.store.dead_letters import DeadLetterFilter
from aijobs.store.tables import dead_letters, events, executions, job_inputs, job_results, notifications
from tests.support.clock import START
from tests.support.jobs import claim_one, fail, new_job, settings_of, succeed

DAYS_30 = timedelta(days=30)


@pytest.fixture
def coordinator(store, chance):
    return Coordinator(store, settings_of(), chance=chance)


@pytest.fixture
def pruner(store):
    return Pruner(store, settings_of(), batch=3)


def finished(coordinator, **changes):
    coordinator.enqueue(new_job(**changes), actor="t")
    job = claim_one(coordinator)
    succeed(coordinator, job)
    return job


def dead(coordinator, **changes):
    coordinator.enqueue(new_job(**changes), actor="t")
    job = claim_one(coordinator)
    fail(coordinator, job, ErrorClass.INVALID_REQUEST)
    return job


def left(store, table=jobs.jobs) -> int:
    with store.read() as tx:
        return tx.execute(select(func.count()).select_from(table)).scalar_one()


def removed(report) -> dict[str, int]:
    return {one.what: one.count for one in report if one.count}


def test_a_succeeded_job_goes_with_all_that_hangs_on_it_exactly_when_its_time_is_over(
    store, coordinator, pruner, clock
):
    finished(coordinator)

    clock.advance(DAYS_30 - timedelta(microseconds=1))
    early = removed(pruner.run())
    clock.advance(timedelta(microseconds=1))
    in_time = removed(pruner.run())

    assert early == {"inputs": 1}  # after a week
    assert in_time == {"succeeded jobs": 1}
    assert [left(store, table) for table in (jobs.jobs, job_inputs, job_results, executions)] == [0] * 4


def test_a_preview_counts_what_a_run_then_removes_and_changes_nothing(store, coordinator, pruner, clock):
    for number in range(7):
        finished(coordinator, payload=str(number))
    clock.advance(DAYS_30)

    preview = removed(pruner.preview())
    before = left(store)
    run = removed(pruner.run())

    assert before == 7
    assert preview["succeeded jobs"] == run["succeeded jobs"] == 7
    assert left(store) == 0


def test_batches_are_bounded(coordinator, pruner, clock):
    for number in range(7):
        finished(coordinator, payload=str(number))
    clock.advance(DAYS_30)
    seen: list[int] = []

    pruner.run(lambda what, count: seen.append(count) if what == "succeeded jobs" else None)

    assert seen == [3, 3, 1]


def test_on_sqlite_a_batch_is_only_as_large_as_is_quick(store, coordinator, clock, monkeypatch):
    for number in range(11):
        finished(coordinator, payload=str(number))
    clock.advance(DAYS_30)
    seconds = iter([LONG / 4, LONG * 1.1, LONG, LONG / 4, 0])
    remove = retention.remove_jobs

    def slow(tx, ids):
        clock.advance(seconds=next(seconds))
        return remove(tx, ids)

    monkeypatch.setattr(retention, "remove_jobs", slow)
    monkeypatch.setattr("aijobs.services.pruner.FIRST", 2)
    seen: list[int] = []

    Pruner(store, settings_of(), batch=4).run(
        lambda what, count: seen.append(count) if what == "succeeded jobs" else None
    )

    assert seen == ([2, 4, 2, 2, 1] if store.dialect == "sqlite" else [4, 4, 3])


def test_an_open_dead_letter_is_never_removed_however_old(store, coordinator, pruner, clock):
    dead(coordinator)
    clock.advance(timedelta(days=4000))

    assert removed(pruner.run()) == {}
    assert (left(store), left(store, job_inputs), left(store, dead_letters)) == (1, 1, 1)


def test_a_dead_letter_that_a_person_closed_goes_when_it_has_been_closed_for_long(
    store, coordinator, pruner, clock
):
    job = dead(coordinator)
    clock.advance(timedelta(days=200))
    with store.write() as tx:
        history.settle_dead_letter(
            tx, job.id, 1, state="closed", reason="bad input", actor="ana", now=clock.now()
        )

    early = removed(pruner.run())
    clock.advance(timedelta(days=90))

    assert early == {}
    assert removed(pruner.run()) == {"closed dead letters": 1}


def test_a_job_whose_key_still_lives_stays_so_that_a_repeat_finds_it(store, coordinator, pruner, clock):
    expires = clock.now() + timedelta(days=60)
    job = finished(coordinator, key="k", key_expires_at=expires)
    clock.advance(DAYS_30)

    kept = removed(pruner.run())
    again = coordinator.enqueue(new_job(key="k"), actor="t")
    clock.set(expires)

    assert kept == {"inputs": 1}
    assert (again.duplicate, again.job.id, again.result) == (True, job.id, '"done"')
    assert removed(pruner.run()) == {"succeeded jobs": 1}


def test_the_id_of_a_pruned_job_goes_to_no_other(store, coordinator, pruner, clock):
    gone = finished(coordinator)
    clock.advance(DAYS_30)
    pruner.run()

    made = coordinator.enqueue(new_job(), actor="t").job

    assert made.id != gone.id
    with store.read() as tx:
        assert jobs.get(tx, gone.id) is None


def test_a_job_somebody_has_yet_to_be_told_about_stays(store, chance, clock):
    settings = settings_of(types={"t": {"provider": "p", "notify": ["ops"]}}, notify={"ops": {"kind": "log"}})
    coordinator = Coordinator(store, settings, chance=chance)
    finished(coordinator)
    clock.advance(DAYS_30)

    assert removed(Pruner(store, settings).run()) == {"inputs": 1}
    assert left(store) == 1


def test_what_was_sent_is_forgotten_in_time_and_the_job_may_stay(store, chance, clock):
    settings = settings_of(
        types={"t": {"provider": "p", "notify": ["ops"]}},
        notify={"ops": {"kind": "log"}},
        retention={"deliveries": "10d"},
    )
    coordinator = Coordinator(store, settings, chance=chance)
    finished(coordinator)
    finished(coordinator)
    with store.write() as tx:
        first = tx.execute(select(notifications.c.id)).scalars().first()
        sent = {"state": "delivered", "next_run_at": None, "delivered_at": clock.now()}
        tx.execute(update(notifications).where(notifications.c.id == first).values(sent))
    clock.advance(timedelta(days=10))

    preview = removed(Pruner(store, settings).preview())
    done = removed(Pruner(store, settings).run())

    assert preview == done == {"inputs": 2, "sent notifications": 1}
    assert (left(store), left(store, notifications)) == (2, 1)


def test_a_job_that_has_not_ended_is_not_touched(store, coordinator, pruner, clock):
    coordinator.enqueue(new_job(), actor="t")
    clock.advance(timedelta(days=4000))

    assert removed(pruner.run()) == {}
    with store.read() as tx:
        assert jobs.counts(tx) == {("t", Status.PENDING): 1}


def test_what_is_kept_for_ever_is_kept(store, coordinator, clock):
    keep = dict.fromkeys(RetentionSettings.model_fields, "forever")
    finished(coordinator)
    record(store, clock.now())
    clock.advance(timedelta(days=4000))

    assert removed(Pruner(store, settings_of(retention=keep)).run()) == {}
    assert left(store) == 1


def test_results_may_go_before_their_jobs(store, coordinator, clock):
    finished(coordinator)
    clock.advance(timedelta(days=2))

    report = removed(Pruner(store, settings_of(retention={"results": "1d"})).run())

    assert report == {"results": 1}
    assert (left(store), left(store, job_results)) == (1, 0)


# --- Records of no job -----------------------------------------------------------------------------

TEN_DAYS = timedelta(days=10)
MOMENT = timedelta(microseconds=1)


def record(store, now, *, of_job=None):
    """Usage of four users on the day of *now*, four settings of a switch, and one event of a job."""
    sums = {"day": now.date().isoformat(), "type": "t", "provider": "p", "model": "m", "calls": 1}
    happened = [Event(kind="pause", actor="ana", at=now) for _ in range(4)]
    with store.write() as tx:
        usage_days.add(tx, [{**dict.fromkeys(usage_days._SUMMED), **sums, "user": f"u{n}"} for n in range(4)])
        history.add_events(tx, happened)
        if of_job is not None:
            history.add_events(tx, [Event(kind="released", actor="ana", at=now, job_id=of_job)])


def test_records_of_no_job_go_exactly_when_their_time_is_over(store, coordinator, clock):
    job = dead(coordinator)
    clock.set(START + timedelta(hours=9))
    record(store, clock.now(), of_job=job.id)
    record(store, clock.now() + timedelta(days=1))
    pruner = Pruner(store, settings_of(retention={"records": "10d"}), batch=3)

    clock.set(START + timedelta(hours=9) + TEN_DAYS - MOMENT)
    early = removed(pruner.run())
    clock.advance(MOMENT)
    events_go = removed(pruner.run())
    clock.set(START + timedelta(days=1) + TEN_DAYS - MOMENT)
    early_too = removed(pruner.run())
    clock.advance(MOMENT)
    preview = removed(pruner.preview())
    usage_goes = removed(pruner.run())

    assert early == early_too == {}
    assert events_go == {"events of no job": 4}
    assert preview == usage_goes == {"usage by day": 4}
    assert (left(store, events), left(store, usage_days.usage_days)) == (5, 4)


def test_a_replay_goes_when_it_ended_long_ago_and_one_that_may_be_resumed_stays(
    store, coordinator, chance, clock
):
    for number in range(4):
        dead(coordinator, payload=str(number))
    planner = Planner(store, settings_of(), chance=chance)
    ended, open_one, unused = (
        planner.plan(DeadLetterFilter(), ReplayOptions(), limit=10, actor="ana", reason="r").id
        for _ in range(3)
    )
    now = clock.now()
    with store.write() as tx:
        replays.abort(tx, ended, "enough", now)
        assert replays.take(tx, open_one, "me", now, now)
        assert replays.interrupt(tx, [open_one], now)
    pruner = Pruner(store, settings_of(retention={"records": "10d"}), batch=3)

    clock.advance(TEN_DAYS - MOMENT)
    early = removed(pruner.run())
    clock.advance(MOMENT)
    in_time = removed(pruner.run())
    clock.advance(timedelta(days=400))
    expired = removed(pruner.run())

    assert (early, in_time, expired) == ({}, {"ended replays": 1}, {"ended replays": 1})
    with store.read() as tx:
        assert [one.id for one in replays.newest(tx, 9)] == [open_one]
        assert len(replays.items(tx, open_one)) == 4
        assert replays.items(tx, ended) == replays.items(tx, unused) == []


# --- What must stay is not walked over by every batch ----------------------------------------------


def test_a_batch_of_inputs_begins_behind_the_one_before(store, coordinator, pruner, clock, monkeypatch):
    ids = [dead(coordinator).id for _ in range(4)]  # their inputs stay, whatever their age
    ids += [finished(coordinator, payload=str(number)).id for number in range(7)]
    clock.advance(timedelta(days=8))
    begun = spied(monkeypatch, "drop_inputs", lambda args, _: args[3])

    report = removed(pruner.run())

    ids.sort()
    assert report == {"inputs": 7}
    assert begun == ["", ids[2], ids[5], ids[8]]


def test_inputs_of_jobs_too_young_are_not_even_judged(store, coordinator, clock):
    clock.advance(timedelta(days=1))
    finished(coordinator)

    with store.write() as tx:
        dropped = retention.drop_inputs(tx, clock.now() - timedelta(days=1), 1, after="")

    assert dropped == retention.Dropped(count=0, last=None)


def test_a_batch_of_jobs_begins_where_the_one_before_ended(store, coordinator, pruner, clock, monkeypatch):
    keyed = {"key": "k", "key_expires_at": clock.now() + timedelta(days=90)}
    finished(coordinator, **keyed)  # stays, and ended before all the others
    ends = []
    for number in range(7):
        clock.advance(timedelta(seconds=1))
        ends.append(clock.now())
        finished(coordinator, payload=str(number))
    clock.advance(DAYS_30)
    begun = spied(monkeypatch, "ended_jobs", lambda args, named: args[1] == "succeeded" and named["since"])

    report = removed(pruner.run())

    assert report["succeeded jobs"] == 7
    assert [at for at in begun if at is not False] == [None, ends[2], ends[5]]
    assert left(store) == 1


def test_a_batch_leaves_what_the_one_before_has_judged(store, coordinator, clock):
    first, second = sorted(finished(coordinator, payload=str(number)).id for number in range(2))
    clock.advance(timedelta(days=8))

    with store.write() as tx:
        dropped = retention.drop_inputs(tx, clock.now(), 1, after=first)

    assert dropped == retention.Dropped(count=1, last=second)
    assert left(store, job_inputs) == 1


def spied(monkeypatch, name, pick):
    """What *pick* makes of the arguments of each call of a function of `retention`."""
    real, seen = getattr(retention, name), []

    def spy(*args, **named):
        seen.append(pick(args, named))
        return real(*args, **named)

    monkeypatch.setattr(retention, name, spy)
    return seen
