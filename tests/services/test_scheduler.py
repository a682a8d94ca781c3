"""Ticks on a real store: one job a window, whoever ticks, however often, whatever happened before."""

import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from aijobs.core.clock import Chance, seeded_chance
from aijobs.core.errors import ConfigError
from aijobs.core.model import ErrorClass, Job
from aijobs.services.coordinator import Coordinator
from aijobs.services.scheduler import Scheduler, key_of
from aijobs.services.tick_report import TickReport
from aijobs.store import jobs, schedules
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.forked import fork_context
from tests.support.jobs import claim_one, fail, settings_of, succeed
from tests.support.ticker import tick_when_told

Tick = Callable[..., TickReport]
MINUTELY = {"cron": "* * * * *", "type": "t"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}Z")


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, settings_of(), chance=chance)


@pytest.fixture
def tick(store: Store, clock: ManualClock, coordinator: Coordinator) -> Tick:
    """Tick at a time of 2026, with the schedules given by name."""

    def run(
        now: str,
        *,
        preview: bool = False,
        file: bool = True,
        types: dict[str, Any] | None = None,
        **given: Any,
    ) -> TickReport:
        clock.set(at(now))
        settings = settings_of(schedules=given, **({"types": types} if types else {}))
        settings.read_from(Path("aijobs.yaml") if file else None)
        return Scheduler(store, settings, coordinator=lambda: coordinator).tick(preview=preview)

    return run


def windows(report: TickReport) -> list[str]:
    return [f"{one.window:%m-%dT%H:%M}" for one in report.created]


def all_jobs(store: Store) -> list[Job]:
    with store.read() as tx:
        return list(reversed(jobs.page(tx, jobs.Filter(), 1000, None)))


# --- One window, one job -----------------------------------------------------------------------------


def test_a_due_window_becomes_a_job_of_the_schedule(store: Store, tick: Tick) -> None:
    nightly = {
        "cron": "30 2 * * *",
        "timezone": "Asia/Shanghai",
        "type": "t",
        "input": {"n": 7},
        "user": "reports",
        "priority": 5,
    }

    before = tick("05-05T18:29:59", nightly=nightly)
    report = tick("05-05T18:30:02", nightly=nightly)

    assert before.created == before.existing == before.skipped == []
    (job,) = all_jobs(store)
    assert [(one.schedule, one.window, one.job_id) for one in report.created] == [
        ("nightly", at("05-05T18:30"), job.id)
    ]
    assert (job.type, job.user, job.priority, job.schedule) == ("t", "reports", 5, "nightly")
    assert job.key == key_of("nightly", at("05-05T18:30")) == "schedule:nightly:2026-05-05T18:30:00Z"


def test_a_second_tick_finds_the_job_that_exists(store: Store, tick: Tick) -> None:
    first = tick("05-05T18:30:02", minutely=MINUTELY)

    second = tick("05-05T18:30:40", minutely=MINUTELY)

    assert second.created == second.skipped == []
    assert [(one.window, one.job_id) for one in second.existing] == [
        (at("05-05T18:30"), first.created[0].job_id)
    ]
    assert len(all_jobs(store)) == 1


def test_a_job_in_the_gap_of_spring_comes_once(store: Store, tick: Tick) -> None:
    digest = {"cron": "30 2 * * *", "timezone": "America/New_York", "type": "t", "overlap": "allow"}

    made = [
        len(tick(now, digest=digest).created)
        for now in ("03-08T06:59", "03-08T07:00", "03-08T07:00", "03-08T07:30", "03-09T06:30")
    ]

    assert made == [0, 1, 0, 0, 1]


def test_a_job_in_the_repeated_hour_of_autumn_comes_once(store: Store, tick: Tick) -> None:
    digest = {"cron": "30 1 * * *", "timezone": "America/New_York", "type": "t", "overlap": "allow"}

    made = [len(tick(now, digest=digest).created) for now in ("11-01T05:30", "11-01T06:30", "11-02T06:30")]

    assert made == [1, 0, 1]


def test_an_hourly_job_runs_in_both_repeated_hours(store: Store, tick: Tick) -> None:
    hourly = {"cron": "0 * * * *", "timezone": "America/New_York", "type": "t", "overlap": "allow"}

    for now in ("11-01T04:00", "11-01T05:00", "11-01T06:00", "11-01T07:00"):
        tick(now, hourly=hourly)

    assert len(all_jobs(store)) == 4


def test_each_schedule_is_its_own(store: Store, tick: Tick) -> None:
    report = tick(
        "05-05T02:00", one=MINUTELY, two=MINUTELY, three={"every": timedelta(minutes=5), "type": "t"}
    )

    assert sorted(one.schedule for one in report.created) == ["one", "three", "two"]


# --- Downtime ----------------------------------------------------------------------------------------


def test_a_long_downtime_makes_one_job_a_schedule_and_says_what_was_left_out(
    store: Store, tick: Tick
) -> None:
    both = {"minutely": MINUTELY, "weekly": {"cron": "0 3 * * 0", "type": "t"}}
    tick("05-02T02:00", **both)
    end_all(store, tick)

    report = tick("05-05T02:00", **both)
    again = tick("05-05T02:00:30", **both)

    assert sorted((one.schedule, f"{one.window:%m-%dT%H:%M}") for one in report.created) == [
        ("minutely", "05-05T02:00"),
        ("weekly", "05-03T03:00"),
    ]
    assert [(one.schedule, one.count) for one in report.skipped] == [("minutely", 4319)]
    assert again.created == again.skipped == []
    with store.read() as tx:
        assert schedules.records(tx)["minutely"].skipped == 4319


def test_all_missed_windows_come_up_to_the_limit(store: Store, tick: Tick) -> None:
    eager = MINUTELY | {"catch_up": "all", "catch_up_limit": 3, "overlap": "allow"}
    tick("05-02T02:00", minutely=eager)

    report = tick("05-05T02:00", minutely=eager)

    assert windows(report) == ["05-05T01:58", "05-05T01:59", "05-05T02:00"]
    assert [one.count for one in report.skipped] == [4317]


# --- Overlap -----------------------------------------------------------------------------------------


def test_while_a_job_runs_its_schedule_skips(store: Store, tick: Tick, coordinator: Coordinator) -> None:
    tick("05-05T02:00", minutely=MINUTELY)
    job = claim_one(coordinator)

    reports = [tick(f"05-05T02:{minute:02}", minutely=MINUTELY) for minute in range(1, 11)]
    succeed(coordinator, job)
    after = tick("05-05T02:11", minutely=MINUTELY)

    assert [len(report.created) for report in reports] == [0] * 10
    assert sum(skip.count for report in reports for skip in report.skipped) == 10
    assert "overlap" in reports[0].skipped[0].reason
    assert windows(after) == ["05-05T02:11"]


def test_a_job_that_waits_to_be_tried_again_counts_as_running(
    store: Store, tick: Tick, coordinator: Coordinator
) -> None:
    tick("05-05T02:00", minutely=MINUTELY)
    fail(coordinator, claim_one(coordinator))

    report = tick("05-05T02:01", minutely=MINUTELY)

    assert report.created == []
    assert len(report.skipped) == 1


def test_a_dead_letter_does_not_stop_its_schedule(store: Store, tick: Tick, coordinator: Coordinator) -> None:
    tick("05-05T02:00", minutely=MINUTELY)
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)

    report = tick("05-05T02:01", minutely=MINUTELY)

    assert windows(report) == ["05-05T02:01"]


def test_where_overlap_is_allowed_every_window_gets_its_job(store: Store, tick: Tick) -> None:
    for minute in range(5):
        tick(f"05-05T02:0{minute}", minutely=MINUTELY | {"overlap": "allow"})

    assert len(all_jobs(store)) == 5


def test_all_missed_windows_come_one_by_one_where_jobs_may_not_overlap(
    store: Store, tick: Tick, coordinator: Coordinator
) -> None:
    eager = MINUTELY | {"catch_up": "all", "catch_up_limit": 3}
    tick("05-02T02:00", minutely=eager)
    end_all(store, tick)

    fired = []
    for _ in range(3):
        fired += windows(tick("05-05T02:00", minutely=eager))
        assert tick("05-05T02:00", minutely=eager).created == []
        succeed(coordinator, claim_one(coordinator))

    assert fired == ["05-05T01:58", "05-05T01:59", "05-05T02:00"]


# --- Edits, pauses, and what is gone -----------------------------------------------------------------


def test_an_edited_schedule_does_not_fire_its_past(store: Store, tick: Tick) -> None:
    tick("05-05T02:00", report={"cron": "0 9 * * *", "type": "t"})

    edited = tick("05-05T12:00", report={"cron": "0 10 * * *", "type": "t"})
    next_day = tick("05-06T10:00", report={"cron": "0 10 * * *", "type": "t"})

    assert edited.created == edited.skipped == []
    assert windows(next_day) == ["05-06T10:00"]


def test_another_spelling_is_no_edit(store: Store, tick: Tick) -> None:
    tick("05-05T02:00", report={"cron": "0 9 * * *", "type": "t"})

    respelled = tick("05-05T12:00", report={"cron": "00  9 * * *\n", "type": "t"})

    assert windows(respelled) == ["05-05T09:00"]  # missed, and caught up


def test_a_schedule_that_was_out_of_the_file_does_not_fire_its_past(store: Store, tick: Tick) -> None:
    both = {"minutely": MINUTELY, "report": {"cron": "0 9 * * *", "type": "t"}}
    tick("05-05T02:00", **both)
    tick("05-05T02:01", minutely=MINUTELY)

    back = tick("05-07T12:00", **both)

    assert back.created == back.existing == []
    assert {one.schedule for one in back.skipped} == {"minutely"}


def test_a_schedule_that_was_out_of_the_file_for_a_moment_loses_no_window(store: Store, tick: Tick) -> None:
    report = {"cron": "0 3 * * *", "type": "t"}
    tick("05-05T02:00", minutely=MINUTELY, report=report)

    preview = tick("05-05T03:00:01", preview=True, minutely=MINUTELY)
    gone = tick("05-05T03:00:01", minutely=MINUTELY)  # the file was being written
    still = tick("05-05T03:00:02", minutely=MINUTELY)
    back = tick("05-05T03:01:01", minutely=MINUTELY, report=report)
    after = tick("05-05T03:01:02", minutely=MINUTELY, report=report)

    assert [one.window for one in back.created if one.schedule == "report"] == [at("05-05T03:00")]
    assert [said.schedule for said in gone.notes + back.notes] == ["report", "report"]
    assert preview.notes == gone.notes
    assert "no longer in the file" in gone.notes[0].reason
    assert "it goes on where it stood" in back.notes[0].reason
    assert still.notes == after.notes == []


def test_a_tick_over_an_empty_file_is_refused(store: Store, coordinator: Coordinator) -> None:
    settings = settings_of().read_from(Path("aijobs.yaml"), blank=True)

    with pytest.raises(ConfigError, match=r"aijobs.yaml.*the file is empty") as refused:
        Scheduler(store, settings, coordinator=lambda: coordinator).tick()
    assert refused.value.hint == "write it again, or take it away if the defaults are meant"


def test_a_tick_without_a_file_forgets_no_schedule(store: Store, tick: Tick) -> None:
    report = {"cron": "0 9 * * *", "type": "t"}
    tick("05-05T02:00", report=report)
    tick("05-05T02:01", file=False)

    assert windows(tick("05-05T12:00", report=report)) == ["05-05T09:00"]


def test_a_paused_schedule_fires_nothing_and_not_its_past_afterwards(store: Store, tick: Tick) -> None:
    free = MINUTELY | {"overlap": "allow"}
    tick("05-05T02:00", minutely=free)
    with store.write() as tx:
        assert schedules.pause(tx, "minutely", at("05-05T02:10:30"), at("05-05T02:00"))

    paused = tick("05-05T02:05", minutely=free)
    after = tick("05-05T02:12", minutely=MINUTELY | {"overlap": "allow", "catch_up": "all"})

    assert paused.created == []
    assert "paused until 2026-05-05T02:10:30Z" in paused.skipped[0].reason
    assert windows(after) == ["05-05T02:11", "05-05T02:12"]


# --- Clocks that go wrong ----------------------------------------------------------------------------


def test_a_clock_that_steps_back_fires_nothing_twice(store: Store, tick: Tick) -> None:
    free = MINUTELY | {"overlap": "allow"}
    tick("05-05T09:59", minutely=free)
    tick("05-05T10:00", minutely=free)

    again = [tick(f"05-05T09:{minute}", minutely=free) for minute in range(51, 60)]
    on_time = [tick(f"05-05T10:0{minute}", minutely=free) for minute in range(2)]

    assert [report.created for report in again] == [[]] * 9
    assert [windows(report) for report in on_time] == [[], ["05-05T10:01"]]


def test_a_clock_that_steps_back_for_hours_finds_the_jobs_that_exist(store: Store, tick: Tick) -> None:
    hourly = {"cron": "0 * * * *", "type": "t", "overlap": "allow"}
    for hour in range(6, 10):
        tick(f"05-05T{hour:02}:00", hourly=hourly)

    again = [tick(f"05-05T{hour:02}:00", hourly=hourly) for hour in range(6, 10)]

    assert [len(report.existing) for report in again] == [1] * 4
    assert len(all_jobs(store)) == 4


def test_after_a_tick_far_in_the_future_the_schedule_recovers_with_a_warning(
    store: Store, tick: Tick
) -> None:
    free = MINUTELY | {"overlap": "allow"}
    tick("06-05T10:00", minutely=free)
    tick("12-31T00:00", minutely=free)

    back = tick("06-05T10:01", minutely=free)
    further = tick("06-05T10:02", minutely=free)

    assert windows(back) == ["06-05T10:01"]
    assert "208 days ahead" in back.notes[0].reason
    assert windows(further) == ["06-05T10:02"]
    assert further.notes == []


# --- Preview -----------------------------------------------------------------------------------------


def test_the_job_of_a_window_is_found_again_however_its_user_is_written(tick: Tick) -> None:
    schedule = {"nightly": MINUTELY | {"user": unicodedata.normalize("NFD", "zo\u00eb")}}
    made = tick("05-05T18:30:02", **schedule)

    preview = tick("05-05T18:30:40", preview=True, **schedule)

    assert [one.job_id for one in preview.existing] == [made.created[0].job_id]


def test_a_preview_says_what_the_tick_then_does_and_changes_nothing(store: Store, tick: Tick) -> None:
    several = {
        "minutely": MINUTELY,
        "weekly": {"cron": "0 3 * * 0", "type": "t"},
        "eager": MINUTELY | {"catch_up": "all", "overlap": "allow", "catch_up_limit": 2},
        "new": {"cron": "0 2 * * *", "type": "t"},
    }
    tick("05-02T02:00", **{name: one for name, one in several.items() if name != "new"})
    before = contents(store)

    preview = tick("05-05T02:00", preview=True, **several)
    unchanged = contents(store)
    real = tick("05-05T02:00", **several)

    assert unchanged == before
    assert [(one.schedule, one.window) for one in preview.created] == [
        (one.schedule, one.window) for one in real.created
    ]
    assert {one.job_id for one in preview.created} == {None}
    assert preview.skipped == real.skipped
    assert len(real.created) == 4  # weekly, eager twice, new; minutely has a live job


def contents(store: Store) -> object:
    with store.read() as tx:
        return schedules.states(tx), [job.id for job in jobs.page(tx, jobs.Filter(), 1000, None)]


# --- What cannot fire --------------------------------------------------------------------------------


def test_a_schedule_that_cannot_fire_keeps_no_other_and_is_tried_again(store: Store, tick: Tick) -> None:
    strict = {"t": {"provider": "p"}, "strict": {"provider": "p", "input_schema": {"required": ["text"]}}}
    broken = {"cron": "* * * * *", "type": "strict", "input": {}}
    mended = broken | {"input": {"text": "hello"}}

    preview = tick("05-05T02:00", preview=True, types=strict, broken=broken, minutely=MINUTELY)
    failed = tick("05-05T02:00", types=strict, broken=broken, minutely=MINUTELY)
    after = tick("05-05T02:00:40", types=strict, broken=mended)

    assert [one.schedule for one in failed.created] == ["minutely"]
    assert [one.schedule for one in failed.failed] == [one.schedule for one in preview.failed] == ["broken"]
    assert "schema" in failed.failed[0].reason
    assert windows(after) == ["05-05T02:00"]


# --- Many at once ------------------------------------------------------------------------------------


def test_threads_that_see_a_schedule_for_the_first_time_make_one_job(store: Store, chance: Chance) -> None:
    settings = settings_of(schedules={"minutely": MINUTELY})
    coordinator = Coordinator(store, settings, chance=chance)
    start = threading.Barrier(6)
    reports: list[TickReport] = []

    def run() -> None:
        scheduler = Scheduler(store, settings, coordinator=lambda: coordinator)
        start.wait()
        reports.append(scheduler.tick(at("05-05T02:00")))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted((len(report.created), len(report.existing)) for report in reports) == [(0, 1)] * 5 + [
        (1, 0)
    ]
    assert [report.failed for report in reports] == [[]] * 6


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_eight_processes_that_tick_every_minute_make_one_job_a_window(store: Store) -> None:
    with ExitStack() as stack:
        tickers = [stack.enter_context(ticker(store.url)) for _ in range(8)]
        made = []
        for minute in range(60):
            now = at("05-05T02:00") + timedelta(minutes=minute)
            for process in tickers:
                process.send(now)
            made.append([process.recv() for process in tickers])

    assert [sum(answer["created"] for answer in answers) for answers in made] == [1] * 60
    assert [sum(answer["existing"] for answer in answers) for answers in made] == [7] * 60
    assert [sum(answer["failed"] for answer in answers) for answers in made] == [0] * 60
    assert len({job.key for job in all_jobs(store)}) == len(all_jobs(store)) == 60


@contextmanager
def ticker(url: str) -> Iterator[Connection]:
    """A process of its own that ticks when told (`tests/support/ticker.py`)."""
    ours, theirs = Pipe()
    process = fork_context().Process(target=tick_when_told, args=(url, theirs), daemon=True)
    process.start()
    theirs.close()
    yield ours
    ours.close()
    process.join()


def end_all(store: Store, tick: Tick) -> None:
    """Cancel whatever has not ended."""
    coordinator = Coordinator(store, settings_of(), chance=seeded_chance(1))
    for job in all_jobs(store):
        if not job.status.final:
            coordinator.cancel(job.id, actor="test", reason="test")
