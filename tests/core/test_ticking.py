"""What a tick decides: first sight, downtime, overlap, edits, pauses, and clocks that go wrong."""

import random
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from aijobs.core.cron import Schedule
from aijobs.core.ticking import Decision, Rule, State, decide_tick

MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}Z")


def rule(cron: str = "* * * * *", *, fingerprint: str = "f", **choices: Any) -> Rule:
    return Rule(schedule=Schedule.parse(cron=cron), fingerprint=fingerprint, **choices)


def state(last: str | None = "05-05T01:59", *, seen: str = "01-01T00:00", **more: Any) -> State:
    window = at(last) if last else None
    return State(**{"fingerprint": "f", "seen_at": at(seen), "last_window": window, **more})


def test_first_sight_fires_nothing_from_the_past() -> None:
    decision = decide_tick(rule("0 3 * * *"), None, at("05-05T02:59:59"))

    assert decision == Decision(becomes=state(None, seen="05-05T02:59:59"))


def test_first_sight_fires_the_minute_that_is_running() -> None:
    decision = decide_tick(rule("0 3 * * *"), None, at("05-05T03:00:42"))

    assert decision.fire == (at("05-05T03:00"),)
    assert decision.becomes == state("05-05T03:00", seen="05-05T03:00:42")


def test_nothing_due_changes_nothing() -> None:
    decision = decide_tick(rule("0 3 * * *"), state("05-05T03:00"), at("05-06T02:59:59"))

    assert decision == Decision()


def test_what_was_seen_without_a_window_counts_from_when_it_was_seen() -> None:
    seen = state(None, seen="05-05T02:59:59")

    decision = decide_tick(rule("0 3 * * *"), seen, at("05-05T03:00"))

    assert decision.fire == (at("05-05T03:00"),)


def test_a_second_tick_in_the_minute_finds_it_settled() -> None:
    decision = decide_tick(rule(), state("05-05T02:00"), at("05-05T02:00:59"))

    assert decision == Decision(settled=at("05-05T02:00"))


# --- Downtime ----------------------------------------------------------------------------------------

OFF = state("05-02T02:00")
ON_AGAIN = at("05-05T02:00")


def test_after_a_downtime_only_the_latest_fires_and_the_rest_is_counted() -> None:
    decision = decide_tick(rule(), OFF, ON_AGAIN)

    assert decision.fire == (ON_AGAIN,)
    assert [(skip.window, skip.count) for skip in decision.skipped] == [(at("05-05T01:59"), 4319)]
    assert "4319 windows were missed" in decision.skipped[0].reason
    assert decision.becomes == state("05-05T02:00")


def test_a_weekly_window_missed_in_a_downtime_fires_late() -> None:
    decision = decide_tick(rule("0 3 * * 0"), OFF, ON_AGAIN)

    assert decision.fire == (at("05-03T03:00"),)
    assert decision.skipped == ()


def test_without_catching_up_what_is_late_is_counted_and_does_not_fire() -> None:
    decision = decide_tick(rule("0 3 * * 0", catch_up="none"), OFF, ON_AGAIN)

    assert decision.fire == ()
    assert [(skip.window, skip.count) for skip in decision.skipped] == [(at("05-03T03:00"), 1)]
    assert decision.becomes == state("05-03T03:00")


@pytest.mark.parametrize(
    ("now", "fires"), [("05-03T03:00:00", 1), ("05-03T03:10:00", 1), ("05-03T03:10:01", 0)]
)
def test_without_catching_up_a_tick_may_be_ten_minutes_late(now: str, fires: int) -> None:
    decision = decide_tick(rule("0 3 * * 0", catch_up="none"), OFF, at(now))

    assert len(decision.fire) == fires


def test_catching_up_all_is_bounded_and_takes_the_latest_in_order() -> None:
    decision = decide_tick(rule(catch_up="all", catch_up_limit=3, overlap="allow"), OFF, ON_AGAIN)

    assert decision.fire == (at("05-05T01:58"), at("05-05T01:59"), at("05-05T02:00"))
    assert [(skip.window, skip.count) for skip in decision.skipped] == [(at("05-05T01:57"), 4317)]
    assert decision.becomes == state("05-05T02:00")


def test_years_of_downtime_are_decided_as_quickly_as_days() -> None:
    decision = decide_tick(rule(), state("01-01T00:00"), at("12-31T00:00").replace(year=2065))

    assert (
        decision.left_out == 40 * 365 * 1440 + 10 * 1440 - 1440 - 1
    )  # ten leap days, one day short, one fires


# --- Overlap -----------------------------------------------------------------------------------------


def test_a_live_job_skips_the_window_for_good() -> None:
    decision = decide_tick(rule(), state("05-05T01:59"), ON_AGAIN, live=True)

    assert decision.fire == ()
    assert [(skip.window, skip.count) for skip in decision.skipped] == [(ON_AGAIN, 1)]
    assert decision.becomes == state("05-05T02:00")


def test_a_live_job_does_not_matter_where_overlap_is_allowed() -> None:
    decision = decide_tick(rule(overlap="allow"), state("05-05T01:59"), ON_AGAIN, live=True)

    assert decision.fire == (ON_AGAIN,)


def test_all_windows_wait_their_turn_when_only_one_job_may_live() -> None:
    eager = rule(catch_up="all", catch_up_limit=3)

    first = decide_tick(eager, OFF, ON_AGAIN)
    meanwhile = decide_tick(eager, first.becomes, ON_AGAIN, live=True)
    second = decide_tick(eager, first.becomes, ON_AGAIN)

    assert first.fire == (at("05-05T01:58"),)
    assert [skip.count for skip in first.skipped] == [4317, 0]
    assert (meanwhile.fire, meanwhile.becomes, meanwhile.left_out) == ((), None, 0)
    assert "waits" in meanwhile.skipped[0].reason
    assert second.fire == (at("05-05T01:59"),)


# --- Edits and pauses --------------------------------------------------------------------------------


def test_an_edit_does_not_fire_the_past() -> None:
    decision = decide_tick(rule("0 1 * * *", fingerprint="new"), state("05-02T02:00"), ON_AGAIN)

    assert decision.fire == ()
    assert decision.becomes == state("05-02T02:00", seen="05-05T02:00", fingerprint="new")


def test_an_edit_fires_from_its_own_minute_on() -> None:
    edited = rule("*/2 * * * *", fingerprint="new")

    decision = decide_tick(edited, state("05-05T01:59"), at("05-05T02:00:30"))

    assert decision.fire == (at("05-05T02:00"),)


def test_an_edit_does_not_fire_a_window_again_that_was_settled() -> None:
    decision = decide_tick(rule(fingerprint="new"), state("05-05T02:00"), at("05-05T02:00:30"))

    assert decision.fire == ()
    assert decision.settled == at("05-05T02:00")


def test_what_was_out_of_the_file_for_more_than_a_day_does_not_fire_the_past() -> None:
    gone = state("05-04T01:59", retired_at=at("05-04T01:59:59"))

    decision = decide_tick(rule(), gone, ON_AGAIN)

    assert decision.fire == (ON_AGAIN,)
    assert decision.skipped == ()
    assert decision.becomes == state("05-05T02:00", seen="05-05T02:00")
    assert decision.note == (
        "it is back in the file, from which it was gone at 2026-05-04T01:59:59Z: it begins afresh"
    )


def test_what_was_out_of_the_file_for_a_day_goes_on_where_it_stood() -> None:
    gone = state("05-04T01:59", retired_at=at("05-04T02:00"))

    decision = decide_tick(rule(), gone, ON_AGAIN)

    assert decision.fire == (ON_AGAIN,)
    assert [skip.count for skip in decision.skipped] == [24 * 60]
    assert decision.becomes == state("05-05T02:00")
    assert "it goes on where it stood" in str(decision.note)


def test_what_is_back_in_the_file_is_so_although_nothing_is_due() -> None:
    gone = state("05-05T01:59", retired_at=at("05-05T01:59:30"))

    assert decide_tick(rule(), gone, at("05-05T01:59:40")).becomes == state("05-05T01:59")


def test_what_comes_back_with_other_times_begins_afresh() -> None:
    gone = state("05-05T01:57", retired_at=at("05-05T01:59"))

    decision = decide_tick(rule("*/2 * * * *", fingerprint="new"), gone, ON_AGAIN)

    assert decision.fire == (ON_AGAIN,)
    assert decision.skipped == ()


def test_a_pause_fires_nothing_while_it_lasts() -> None:
    paused = state("05-05T01:57", paused_until=at("05-05T03:00"))

    decision = decide_tick(rule(), paused, ON_AGAIN)

    assert decision.fire == ()
    assert [(skip.window, skip.count) for skip in decision.skipped] == [(ON_AGAIN, 3)]
    assert "paused until 2026-05-05T03:00:00Z" in decision.skipped[0].reason
    assert decision.becomes == state("05-05T02:00", paused_until=at("05-05T03:00"))


def test_a_pause_that_is_over_does_not_fire_its_past_even_when_no_tick_ran_in_it() -> None:
    paused = state("05-02T02:00", paused_until=at("05-05T01:59:30"))

    decision = decide_tick(rule(overlap="allow", catch_up="all"), paused, ON_AGAIN)

    assert decision.fire == (ON_AGAIN,)


def test_a_window_at_the_very_end_of_a_pause_fires() -> None:
    paused = state("05-02T02:00", paused_until=ON_AGAIN)

    assert decide_tick(rule(), paused, ON_AGAIN).fire == (ON_AGAIN,)


# --- Clocks that go wrong ----------------------------------------------------------------------------


def test_a_clock_that_steps_back_a_little_fires_nothing_twice() -> None:
    settled = state("05-05T10:00")

    again = [decide_tick(rule(), settled, at(f"05-05T09:{minute}")) for minute in range(50, 60)]

    assert again == [Decision()] * 10
    assert decide_tick(rule(), settled, at("05-05T10:01")).fire == (at("05-05T10:01"),)


def test_a_tick_far_in_the_future_does_not_freeze_the_schedule() -> None:
    bogus = state("12-31T00:00", seen="01-01T00:00")

    decision = decide_tick(rule(), bogus, at("06-05T10:00:10"))

    assert decision.fire == (at("06-05T10:00"),)
    assert decision.becomes == state("06-05T10:00", seen="06-05T10:00:10")
    assert decision.note is not None
    assert "208 days ahead" in decision.note


def test_a_schedule_first_seen_far_in_the_future_recovers_too() -> None:
    bogus = state(None, seen="12-31T00:00")

    decision = decide_tick(rule("0 3 * * *"), bogus, at("06-05T10:00:10"))

    assert decision.becomes == state(None, seen="06-05T10:00:10")
    assert decision.note is not None


# --- Any history -------------------------------------------------------------------------------------


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_whatever_happens_no_window_fires_twice_or_out_of_order(catch_up: str, overlap: str) -> None:
    chance = random.Random(f"{catch_up} {overlap}")
    for _ in range(60):
        fired, now, stored = walk(chance, catch_up, overlap)

        assert fired == sorted(set(fired))
        assert all(window <= now for window in fired)
        assert stored is not None


def walk(chance: random.Random, catch_up: str, overlap: str) -> tuple[list[datetime], datetime, State | None]:
    """Ticks at odd times, by clocks a little apart, with jobs that live on, edits and pauses in between."""
    latest, version = at("05-05T00:00"), 0
    stored: State | None = None
    fired: list[datetime] = []
    for _ in range(80):
        latest += chance.choice([0, 0, 1, 7, 90]) * MINUTE + timedelta(seconds=chance.random() * 59)
        now = latest - chance.choice([0, 0, 0, 20, 59]) * MINUTE
        version += chance.random() < 0.05
        cron = ["* * * * *", "*/5 * * * *", "7 * * * *"][version % 3]
        current = rule(cron, fingerprint=str(version), catch_up=catch_up, overlap=overlap, catch_up_limit=4)
        if stored and chance.random() < 0.05:
            until = now + chance.choice([-1, 10]) * MINUTE
            stored = State(
                fingerprint=stored.fingerprint,
                seen_at=stored.seen_at,
                last_window=stored.last_window,
                paused_until=until,
            )
        decision = decide_tick(current, stored, now, live=chance.random() < 0.3)
        fired += decision.fire
        stored = decision.becomes or stored
        for earlier, later in pairwise(decision.fire):
            assert earlier < later
        assert overlap == "allow" or len(decision.fire) <= 1
    return fired, latest, stored
