"""The overview on both databases: what has not ended, by type, and the last minutes; never all jobs."""

from datetime import timedelta

import pytest

from aijobs.core.lifecycle import Parked
from aijobs.core.model import ErrorClass
from aijobs.core.settings import Settings
from aijobs.core.switches import ALL, Switch, SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.services.pruner import Pruner
from aijobs.services.statistics import Statistics
from aijobs.store import backlog, minutes, schedules, switches, workers
from aijobs.store.tables import to_text
from tests.support.jobs import claim_one, claim_some, ended, fail, new_job, settings_of, succeed

SCHEDULE = {"cron": "* * * * *", "timezone": "UTC", "type": "t", "overlap": "allow"}


@pytest.fixture
def settings() -> Settings:
    types = {"t": {"provider": "p"}, "quiet": {"provider": "p"}}
    return settings_of(types=types, schedules={"minutely": SCHEDULE})


@pytest.fixture
def coordinator(store, settings, chance):
    return Coordinator(store, settings, chance=chance)


@pytest.fixture
def seen(store, settings):
    """Take the overview."""
    return Statistics(store, settings).overview


def enqueue(coordinator, *values, **changes):
    for value in values:
        coordinator.enqueue(new_job(value, **changes), actor="t")


def test_an_empty_store_has_noughts_for_every_configured_type(seen):
    overview = seen()

    assert {"t", "quiet"} <= set(overview.loads)
    assert overview.total.waiting == overview.total.running == overview.unmatched == 0
    assert overview.lately(timedelta(hours=1)).success_rate is None


def test_what_waits_is_told_apart_by_why_it_waits(seen, coordinator, clock):
    enqueue(coordinator, 1, 2)
    enqueue(coordinator, 3, run_at=clock.now() + timedelta(minutes=1))
    enqueue(coordinator, 4, run_at=clock.now() + timedelta(hours=1))
    fail(coordinator, claim_one(coordinator), ErrorClass.BAD_RESPONSE)
    clock.advance(minutes := timedelta(seconds=90))

    load = seen().loads["t"]

    assert (load.ready, load.delayed) == (3, 1)  # the retry has become due as well
    assert load.oldest_ready_at == clock.now() - minutes
    assert load.retrying == 0


def test_a_retry_that_is_not_due_counts_by_itself(seen, coordinator):
    enqueue(coordinator, 1)
    fail(coordinator, claim_one(coordinator), ErrorClass.BAD_RESPONSE)

    load = seen().loads["t"]

    assert (load.ready, load.delayed, load.retrying) == (0, 0, 1)


def test_parked_jobs_are_apart_from_running_ones_and_expired_leases_are_seen(seen, coordinator, clock):
    enqueue(coordinator, 1, 2)
    began = clock.now()
    first, _ = (claim.job for claim in claim_some(coordinator, 2))
    parked = Parked(provider_job_id="resp_1", poll_at=began + timedelta(hours=1))
    coordinator.finish([ended(first, parked)])
    clock.advance(timedelta(minutes=5))

    load = seen().loads["t"]

    assert (load.running, load.parked, load.expired) == (1, 1, 1)
    assert (load.oldest_running_at, load.oldest_parked_at) == (began, began)


def test_held_jobs_and_open_dead_letters_are_counted_by_class(seen, coordinator, clock):
    enqueue(coordinator, 1, 2)
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)
    died = clock.now()
    fail(coordinator, claim_one(coordinator), ErrorClass.AUTH)

    overview = seen()

    assert overview.dead_letters["t", "invalid_request"] == 1
    assert overview.oldest_dead_letter_at == died
    assert sum(overview.dead_letters.values()) + overview.total.held + overview.total.waiting == 2


def test_the_last_hour_forgets_what_is_older_and_pruning_drops_it(seen, store, settings, coordinator, clock):
    enqueue(coordinator, 1, 2, 3)
    succeed(coordinator, claim_one(coordinator))
    clock.advance(timedelta(minutes=59))
    succeed(coordinator, claim_one(coordinator))
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)

    hour = seen().lately(timedelta(hours=1))
    clock.advance(timedelta(minutes=2))
    later = seen().lately(timedelta(hours=1), type_name="t")
    clock.advance(timedelta(days=15))
    Pruner(store, settings).run()

    assert (hour.succeeded, hour.dead_letter, hour.attempts, hour.failed) == (2, 1, 3, 1)
    assert hour.success_rate == pytest.approx(2 / 3)
    assert (later.succeeded, later.dead_letter) == (1, 1)
    assert hour.mean_wait == pytest.approx(59 * 60 * 2 / 3)
    with store.read() as tx:
        assert minutes.since(tx, clock.now() - timedelta(days=400)) == []


def test_the_window_before_can_be_told_from_this_one(seen, coordinator, clock):
    enqueue(coordinator, 1, 2)
    succeed(coordinator, claim_one(coordinator))
    clock.advance(timedelta(minutes=10))
    fail(coordinator, claim_one(coordinator), ErrorClass.RATE_LIMITED)

    span = timedelta(minutes=10)
    now, before = seen().lately(span), seen().lately(span, before=span)

    assert (now.succeeded, now.rate_limited) == (0, 1)
    assert (before.succeeded, before.rate_limited) == (1, 0)


def test_the_most_retries_of_a_job_are_known(seen, coordinator, clock):
    enqueue(coordinator, 1, max_attempts=9)
    for _ in range(3):
        fail(coordinator, claim_one(coordinator), ErrorClass.NETWORK)
        clock.advance(timedelta(minutes=10))

    assert seen().lately(timedelta(hours=1)).most_retries == 3


def test_workers_are_alive_while_they_are_heard_of(seen, store, clock):
    about = {"host": "h", "pid": 1, "version": "1", "concurrency": 3, "now": clock.now()}
    with store.write() as tx:
        workers.register(tx, name="w", types=["quiet"], **about)

    (worker,) = seen().alive
    clock.advance(timedelta(minutes=5))

    assert (worker.serves("quiet"), worker.serves("t")) == (True, False)
    assert seen().alive == ()


def test_a_schedule_is_overdue_when_no_tick_comes(seen, store, settings, clock):
    from aijobs.core.ticking import State
    from aijobs.services.scheduler import rule_of

    fingerprint = rule_of("minutely", settings.schedule("minutely")).fingerprint
    with store.write() as tx:
        schedules.begin(tx, "minutely", State(fingerprint=fingerprint, seen_at=clock.now()), clock.now())

    (early,) = seen().schedules
    clock.advance(timedelta(minutes=20))
    (late,) = seen().schedules

    assert early.overdue_since is None
    assert late.overdue_since is not None


def test_a_switch_that_is_on_is_seen(seen, store, clock):
    pause = Switch(
        kind=SwitchKind.PAUSE, scope=ALL, value="on", actor="ana", reason="tests", set_at=clock.now()
    )
    with store.write() as tx:
        switches.throw(tx, pause)

    assert seen().switches == (pause,)


def test_no_statement_of_the_overview_reads_all_jobs(store, clock):
    queries = (backlog._READY, backlog._WAITING, backlog._HELD, backlog._RUNNING)

    plans = [plan_of(store, query, clock.now()) for query in queries]

    assert all("ix_jobs_" in plan for plan in plans), plans


def plan_of(store, query, now) -> str:
    """How the database would do it, if it has indexes to choose from."""
    compiled = query.compile(store.engine)
    value = to_text(now) if store.dialect == "sqlite" else now
    values = compiled.params | {"now": value}
    explain = "EXPLAIN QUERY PLAN" if store.dialect == "sqlite" else "EXPLAIN"
    given = tuple(values[name] for name in compiled.positiontup) if compiled.positional else values
    with store.read() as tx:
        if store.dialect == "postgresql":
            tx.exec_driver_sql("SET LOCAL enable_seqscan = off")
        return str(tx.exec_driver_sql(f"{explain} {compiled}", given).all())
