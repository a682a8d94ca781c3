"""Breaker, slow start, pauses and holds: every state against everything that can happen (B05, B19, B20)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from aijobs.core.breaker import (
    COUNTED,
    HEALTHY,
    NEVER,
    Admission,
    Breaker,
    Change,
    Health,
    Rules,
    admit,
    failed,
    hold,
    is_recovering,
    passed,
    pause,
    pause_until,
    reset,
    succeeded,
)
from aijobs.core.clock import seeded_chance
from aijobs.core.model import ErrorClass, Failure
from aijobs.core.settings.providers import BreakerSettings

E = ErrorClass
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
RULES = Rules()
NEUTRAL = set(ErrorClass) - COUNTED - {E.QUOTA_EXHAUSTED, E.AUTH, E.RATE_LIMITED}

OPEN = Health(breaker="open", breaker_since=NOW - SECOND, opened_until=NOW + 29 * SECOND)
HALF_OPEN = Health(breaker="half_open", breaker_since=NOW - SECOND)
RAMP = Health(breaker="ramp", breaker_since=NOW - SECOND, ramp_step=2, successes=3)
FIRST_STEP = replace(RAMP, ramp_step=0, successes=0)
COUNTING = Health(failures=4, failures_since=NOW - 10 * SECOND)
HELD = Health(
    held_at=NOW - 6 * MINUTE, hold_reason="no quota", paused_until=NOW - SECOND, pause_reason="no quota"
)
WAITING = replace(HELD, paused_until=NOW + MINUTE)
STATES = [HEALTHY, COUNTING, OPEN, HALF_OPEN, RAMP, FIRST_STEP, HELD, WAITING]


def fail(
    health: Health, error_class: ErrorClass = E.UNAVAILABLE, *, rules: Rules = RULES, now: datetime = NOW,
    started_at: datetime | None = None, in_flight: int = 10, **failure: object,
) -> Change:  # fmt: skip
    made = Failure(error_class=error_class, **failure)
    return failed(health, rules, now, failure=made, started_at=started_at or now, in_flight=in_flight)


def succeed(
    health: Health, *, rules: Rules = RULES, now: datetime = NOW, started_at: datetime | None = None
) -> Change:
    return succeeded(health, rules, now, started_at=started_at or now)


def may(health: Health, *, in_flight: int = 0, trials_out: int = 0, now: datetime = NOW) -> Admission:
    return admit(health, RULES, now, in_flight=in_flight, trials_out=trials_out)


# --- Closed to open ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error_class", sorted(COUNTED))
def test_failures_in_a_row_open_it(error_class):
    health = HEALTHY
    for _ in range(4):
        change = fail(health, error_class)
        assert change.reasons == ()
        health = change.health
        assert health.breaker == Breaker.CLOSED

    change = fail(health, error_class, code="503")

    assert change.health.breaker == Breaker.OPEN
    assert change.health.breaker_since == NOW
    assert change.health.opened_until == NOW + 30 * SECOND
    assert change.reasons == (f"breaker opened: 5 failures in a row, the last {error_class.value} (503)",)


def test_a_breaker_that_opens_at_its_first_failure_does_not_speak_of_a_row():
    change = fail(HEALTHY, code="503", rules=replace(RULES, failures=1))

    assert change.reasons == ("breaker opened: 1 failure, the last unavailable (503)",)


def test_a_page_instead_of_an_answer_is_counted_and_other_bad_answers_are_not():
    assert fail(COUNTING, E.BAD_RESPONSE, code="not_json_html").health.breaker == Breaker.OPEN
    assert fail(COUNTING, E.BAD_RESPONSE, code="not_json_empty").health.breaker == Breaker.OPEN
    assert fail(COUNTING, E.BAD_RESPONSE, code="empty_output").health == COUNTING


@pytest.mark.parametrize("error_class", sorted(NEUTRAL))
def test_no_number_of_failures_that_are_not_the_providers_moves_it(error_class):
    for health in STATES:
        for _ in range(10):
            change = fail(health, error_class, code="whatever")
            assert change == Change(health=health)


def test_a_success_in_between_starts_the_count_again():
    assert succeed(COUNTING) == Change(health=HEALTHY)
    assert succeed(HEALTHY) == Change(health=HEALTHY)


def test_failures_far_apart_do_not_add_up():
    late = NOW + 51 * SECOND  # 61 seconds after the first

    given = fail(COUNTING, now=late).health

    assert (given.breaker, given.failures, given.failures_since) == (Breaker.CLOSED, 1, late)
    assert fail(COUNTING, now=NOW + 50 * SECOND).health.breaker == Breaker.OPEN


def test_a_providers_own_word_on_when_lengthens_the_opening_up_to_a_bound():
    def until(hint: timedelta) -> datetime | None:
        return fail(COUNTING, hint=hint).health.opened_until

    assert until(2 * SECOND) == NOW + 30 * SECOND
    assert until(2 * MINUTE) == NOW + 2 * MINUTE
    assert until(timedelta(days=9)) == NOW + 15 * MINUTE


def test_the_rules_come_from_the_settings():
    settings = BreakerSettings(failures=2, within=10 * SECOND, open_for=5 * SECOND, trials=3, ramp=(4, 8))

    rules = Rules.from_settings(settings)

    assert (rules.failures, rules.within, rules.open_for, rules.trials, rules.ramp) == (
        2, 10 * SECOND, 5 * SECOND, 3, (4, 8),
    )  # fmt: skip
    assert fail(Health(failures=1, failures_since=NOW), rules=rules).health.opened_until == NOW + 5 * SECOND


def test_the_defaults_are_those_of_the_settings():
    assert Rules.from_settings(BreakerSettings()) == RULES


# --- Open to half open ------------------------------------------------------------------------------


def test_an_open_breaker_lets_nothing_through_and_is_half_open_when_its_time_is_up():
    assert may(OPEN) == Admission(allowed=0, reason="the breaker is open", recovering=True)
    until = OPEN.opened_until
    assert until is not None

    assert passed(OPEN, until - SECOND) == OPEN
    assert (
        passed(OPEN, until)
        == passed(OPEN, until + MINUTE)
        == Health(breaker="half_open", breaker_since=until)
    )
    assert may(OPEN, now=until).allowed == 1


def test_late_outcomes_do_not_move_an_open_breaker():
    for outcome in (fail(OPEN), succeed(OPEN), fail(OPEN, started_at=NOW - MINUTE)):
        assert outcome == Change(health=OPEN)


# --- Half open --------------------------------------------------------------------------------------


def test_a_half_open_breaker_lets_as_many_trials_through_as_there_are_leases():
    assert may(HALF_OPEN) == Admission(
        allowed=1, reason="the breaker is half open", trial=True, recovering=True
    )
    assert may(HALF_OPEN, trials_out=1).allowed == 0
    assert may(HALF_OPEN, trials_out=5).allowed == 0
    rules = replace(RULES, trials=3)
    assert admit(HALF_OPEN, rules, NOW, in_flight=99, trials_out=1).allowed == 2


def test_a_trial_that_fails_opens_it_again_and_one_that_succeeds_begins_the_slow_start():
    reopened = fail(HALF_OPEN)
    begun = succeed(HALF_OPEN)

    assert (reopened.health.breaker, reopened.health.opened_until) == (Breaker.OPEN, NOW + 30 * SECOND)
    assert "a trial failed" in reopened.reasons[0]
    assert (begun.health.breaker, begun.health.ramp_step, begun.health.breaker_since) == (
        Breaker.RAMP,
        0,
        NOW,
    )
    assert begun.reasons == ("slow start: the trials succeeded",)


def test_all_trials_have_to_succeed():
    rules = replace(RULES, trials=2)

    once = succeed(HALF_OPEN, rules=rules).health

    assert (once.breaker, once.successes) == (Breaker.HALF_OPEN, 1)
    assert succeed(once, rules=rules).health.breaker == Breaker.RAMP


def test_calls_from_before_say_nothing_to_a_half_open_breaker():
    before = HALF_OPEN.breaker_since - SECOND if HALF_OPEN.breaker_since else NOW

    assert fail(HALF_OPEN, started_at=before) == Change(health=HALF_OPEN)
    assert succeed(HALF_OPEN, started_at=before) == Change(health=HALF_OPEN)


def test_a_trial_counts_although_nobody_wrote_down_that_it_was_half_open():
    later = NOW + MINUTE

    assert succeed(OPEN, now=later, started_at=NOW + 29 * SECOND).health.breaker == Breaker.RAMP
    assert fail(OPEN, now=later, started_at=NOW + 29 * SECOND).health.opened_until == later + 30 * SECOND


# --- Slow start -------------------------------------------------------------------------------------


def test_the_slow_start_climbs_step_by_step_and_closes():
    health = succeed(HALF_OPEN).health
    seen: list[int | None] = []
    calls = 0

    while health.breaker == Breaker.RAMP:
        seen.append(may(health).allowed)
        change = succeed(health)
        health = change.health
        calls += 1

    assert sorted(set(seen)) == [1, 2, 5, 10, 25]
    assert seen == sorted(seen)
    assert calls == 1 + 2 + 5 + 10 + 25
    assert change.reasons == ("breaker closed: the slow start is over",)
    assert health == Health(breaker_since=NOW)
    assert may(health).allowed is None


def test_on_the_slow_start_calls_under_way_take_their_place():
    assert may(RAMP) == Admission(allowed=5, reason="slow start: 5 at once", recovering=True)
    assert may(RAMP, in_flight=3).allowed == 2
    assert may(RAMP, in_flight=9).allowed == 0


def test_a_failure_on_the_slow_start_steps_down_and_at_its_foot_opens():
    down = fail(RAMP)

    assert (down.health.ramp_step, down.health.successes, down.health.breaker) == (1, 0, Breaker.RAMP)
    foot = fail(down.health).health
    assert (foot.breaker, foot.ramp_step) == (Breaker.RAMP, 0)
    assert fail(foot).health.breaker == Breaker.OPEN
    assert "it failed again" in fail(FIRST_STEP).reasons[0]


def test_calls_from_before_the_slow_start_do_not_count_on_it():
    before = NOW - MINUTE

    assert fail(RAMP, started_at=before) == Change(health=RAMP)
    assert succeed(RAMP, started_at=before) == Change(health=RAMP)


def test_calls_from_before_it_closed_do_not_open_it_again():
    closed = Health(breaker_since=NOW, failures=4, failures_since=NOW)

    assert fail(closed, started_at=NOW - SECOND) == Change(health=closed)
    assert succeed(closed, started_at=NOW - SECOND) == Change(health=closed)
    assert fail(closed, started_at=NOW).health.breaker == Breaker.OPEN


def test_a_ramp_that_became_shorter_is_stood_on_its_last_step():
    rules = replace(RULES, ramp=(1, 2))
    far = replace(RAMP, ramp_step=4, successes=1)

    assert admit(far, rules, NOW, in_flight=0, trials_out=0).allowed == 2
    assert succeed(far, rules=rules).health.breaker == Breaker.CLOSED


# --- Holds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error_class", "words"),
    [(E.QUOTA_EXHAUSTED, "the quota is used up"), (E.AUTH, "the provider refuses our credentials")],
)
@pytest.mark.parametrize("health", [HEALTHY, COUNTING, RAMP, HALF_OPEN])
def test_without_quota_or_credentials_nothing_is_sent_until_a_probe_is_due(error_class, words, health):
    change = fail(health, error_class, code="x")

    held = change.health
    assert change.reasons == (f"held: {words} (x)",)
    assert (held.held_at, held.paused_until) == (NOW, NOW + 5 * MINUTE)
    assert may(held, now=NOW + 5 * MINUTE - SECOND).allowed == 0
    probe = may(held, now=NOW + 5 * MINUTE)
    assert (probe.allowed, probe.trial, probe.recovering) == (1, True, True)
    assert may(held, now=NOW + 5 * MINUTE, trials_out=1).allowed == 0


def test_a_probe_waits_for_the_providers_own_word_up_to_a_bound():
    assert fail(HEALTHY, E.QUOTA_EXHAUSTED, hint=7 * MINUTE).health.paused_until == NOW + 7 * MINUTE
    assert fail(HEALTHY, E.QUOTA_EXHAUSTED, hint=SECOND).health.paused_until == NOW + 5 * MINUTE
    assert fail(HEALTHY, E.QUOTA_EXHAUSTED, hint=timedelta(days=20)).health.paused_until == NOW + 15 * MINUTE


def test_a_probe_that_succeeds_lifts_the_hold_into_a_slow_start():
    change = succeed(HELD)

    assert change.reasons == ("slow start: a probe succeeded",)
    assert change.health == Health(breaker="ramp", breaker_since=NOW)


def test_a_call_from_before_the_hold_does_not_lift_it():
    assert succeed(HELD, started_at=NOW - 7 * MINUTE) == Change(health=HELD)
    assert succeed(WAITING) == Change(health=WAITING)
    assert succeed(WAITING, now=NOW + MINUTE).health.held_at is None


def test_a_probe_that_is_refused_puts_the_next_one_off_without_news():
    change = fail(HELD, E.QUOTA_EXHAUSTED)

    assert change.reasons == ()
    assert (change.health.held_at, change.health.paused_until) == (HELD.held_at, NOW + 5 * MINUTE)


@pytest.mark.parametrize("error_class", [*sorted(COUNTED), E.RATE_LIMITED])
def test_a_probe_that_fails_otherwise_puts_the_next_one_off_too(error_class):
    change = fail(HELD, error_class)

    assert (change.health.held_at, change.health.paused_until) == (HELD.held_at, NOW + 5 * MINUTE)
    assert change.health.breaker == Breaker.CLOSED


def test_a_persons_hold_sends_no_probe_and_only_a_person_ends_it():
    held = hold(HEALTHY, NOW, "maintenance").health

    assert held.paused_until == NEVER
    assert may(held, now=NOW + timedelta(days=1000)) == Admission(
        allowed=0, reason="held: maintenance", recovering=True
    )
    assert fail(held, E.AUTH) == Change(health=held)
    assert succeed(held, now=NOW + MINUTE) == Change(health=held)
    assert reset(held, NOW).health == Health(breaker_since=NOW)


def test_a_persons_hold_for_a_time_ends_with_a_probe():
    held = hold(HEALTHY, NOW, "maintenance", until=NOW + MINUTE)

    assert held.reasons == ("held: maintenance",)
    assert may(held.health, now=NOW + MINUTE).trial
    assert hold(held.health, NOW, "longer").health.paused_until == NEVER


def test_refusals_from_before_a_reset_do_not_hold_it_again():
    well = reset(HELD, NOW).health

    assert fail(well, E.AUTH, started_at=NOW - SECOND) == Change(health=well)
    assert fail(well, E.AUTH, started_at=NOW).health.held_at == NOW


def test_a_reset_forgets_everything_and_of_a_healthy_provider_nothing():
    for health in STATES[1:]:
        assert reset(health, NOW) == Change(health=Health(breaker_since=NOW), reasons=("reset",))
    assert reset(HEALTHY, NOW) == Change(health=HEALTHY)


def test_an_open_breaker_goes_before_the_probe_of_a_hold():
    both = replace(HELD, breaker="open", breaker_since=NOW, opened_until=NOW + MINUTE)

    assert may(both).allowed == 0
    assert may(both, now=NOW + MINUTE).trial


# --- Pauses -----------------------------------------------------------------------------------------


def test_a_pause_is_only_ever_extended():
    early, late = NOW + SECOND, NOW + MINUTE

    assert pause(None, early) == early
    assert pause(early, late) == late
    assert pause(late, early) == late
    paused = pause_until(HEALTHY, late, "first", NOW)
    assert paused.reasons == ("paused: first",)
    assert pause_until(paused.health, early, "shorter", NOW) == Change(health=paused.health)
    longer = pause_until(paused.health, late + SECOND, "longer", NOW)
    assert longer.reasons == ()
    assert longer.health.paused_until == late + SECOND
    assert pause_until(paused.health, late + MINUTE, "again", late).reasons == ("paused: again",)


def test_a_paused_provider_is_sent_nothing_until_then():
    paused = pause_until(HEALTHY, NOW + MINUTE, "asked", NOW).health

    assert may(paused) == Admission(allowed=0, reason="paused: asked")
    assert may(paused, now=NOW + MINUTE).allowed is None


def test_a_rate_limit_pauses_the_provider_for_everybody():
    given = fail(HEALTHY, E.RATE_LIMITED, hint=MINUTE, code="rate_limit_exceeded")

    assert given.health.paused_until == NOW + MINUTE
    assert given.reasons == ("paused: rate limited (rate_limit_exceeded)",)
    assert given.health.breaker == Breaker.CLOSED
    assert fail(given.health, E.RATE_LIMITED, hint=SECOND) == Change(health=given.health)


def test_a_rate_limit_without_a_wait_pauses_for_a_moment_and_one_with_a_long_wait_for_a_day():
    assert fail(HEALTHY, E.RATE_LIMITED).health.paused_until == NOW + 2 * SECOND
    assert fail(HEALTHY, E.RATE_LIMITED, hint=timedelta(0)).health.paused_until == NOW + 2 * SECOND
    assert fail(HEALTHY, E.RATE_LIMITED, hint=timedelta(days=30)).health.paused_until == NOW + timedelta(
        days=1
    )


def test_a_rate_limit_neither_opens_nor_closes():
    for health in (COUNTING, HALF_OPEN, RAMP):
        given = fail(health, E.RATE_LIMITED, hint=SECOND).health
        assert replace(given, paused_until=None, pause_reason=None) == health


# --- Slow down --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["slow_down", "ramp_limit_exceeded"])
def test_slow_down_halves_what_is_under_way_for_a_while(code):
    change = fail(HEALTHY, E.RATE_LIMITED, code=code, in_flight=40)

    slowed = change.health
    assert (slowed.concurrency_cap, slowed.cap_until) == (20, NOW + 15 * MINUTE)
    assert change.reasons[-1] == f"slowed down to 20 at once ({code})"
    after = NOW + 10 * SECOND
    assert may(slowed, in_flight=12, now=after) == Admission(allowed=8, reason="slowed down: 20 at once")
    assert may(slowed, in_flight=21, now=after).allowed == 0
    assert may(slowed, in_flight=21, now=NOW + 15 * MINUTE).allowed is None


def test_slow_down_is_obeyed_once_for_calls_that_were_under_way_together():
    slowed = fail(HEALTHY, E.RATE_LIMITED, code="slow_down", in_flight=40).health
    later = NOW + 5 * SECOND

    same = fail(
        slowed, E.RATE_LIMITED, code="slow_down", in_flight=39, now=later, started_at=NOW - SECOND
    ).health
    again = fail(
        slowed, E.RATE_LIMITED, code="slow_down", in_flight=39, now=later, started_at=NOW + SECOND
    ).health

    assert (same.concurrency_cap, same.cap_until) == (20, slowed.cap_until)
    assert (again.concurrency_cap, again.cap_until) == (10, later + 15 * MINUTE)


def test_slow_down_never_stops_a_provider_and_an_old_cap_is_forgotten():
    assert fail(HEALTHY, E.RATE_LIMITED, code="slow_down", in_flight=1).health.concurrency_cap == 1
    one = fail(HEALTHY, E.RATE_LIMITED, code="slow_down", in_flight=2).health
    assert fail(one, E.RATE_LIMITED, code="slow_down", in_flight=2).health.concurrency_cap == 1
    two = fail(HEALTHY, E.RATE_LIMITED, code="slow_down", in_flight=4).health
    assert fail(two, E.RATE_LIMITED, code="slow_down", in_flight=4).health.concurrency_cap == 1
    late = NOW + 15 * MINUTE
    assert fail(one, E.RATE_LIMITED, code="slow_down", in_flight=60, now=late).health.concurrency_cap == 30
    assert fail(HEALTHY, E.RATE_LIMITED, code="rate_limit_exceeded").health.concurrency_cap is None


# --- What is known to be unwell ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("health", "unwell"),
    [
        (HEALTHY, False),
        (COUNTING, False),
        (OPEN, True),
        (HALF_OPEN, True),
        (RAMP, True),
        (HELD, True),
        (WAITING, True),
    ],
)
def test_a_provider_that_is_unwell_is_known_to_be(health, unwell):
    assert is_recovering(health, NOW) is unwell
    assert may(health).recovering is unwell


def test_a_paused_provider_is_not_unwell():
    assert not is_recovering(pause_until(HEALTHY, NOW + MINUTE, "asked", NOW).health, NOW)


# --- All states, all events -------------------------------------------------------------------------

EVENTS: list[Callable[[Health, datetime], Change]] = [
    *[lambda health, now, c=c: fail(health, c, now=now) for c in ErrorClass],
    lambda health, now: fail(health, E.RATE_LIMITED, now=now, code="slow_down"),
    lambda health, now: succeed(health, now=now),
    lambda health, now: pause_until(health, now + MINUTE, "x", now),
    lambda health, now: hold(health, now, "x"),
    lambda health, now: reset(health, now),
    lambda health, now: Change(health=passed(health, now)),
]


OFTEN: list[Callable[[Health, datetime], Change]] = [
    lambda health, now: fail(health, now=now),
    lambda health, now: succeed(health, now=now),
    lambda health, now: Change(health=passed(health, now)),
]


def walk(seed: int) -> set[str]:
    chance, health, now, seen = seeded_chance(seed), HEALTHY, NOW, set()
    for number in range(500):
        events = OFTEN if chance.random() < 0.95 else EVENTS
        event = events[int(chance.random() * len(events))]
        for _ in range(1 + int(chance.random() * 8)):
            now += SECOND * int(chance.random() * 8)
            before, health = health, event(health, now).health
            seen.add(health.breaker)
            assert_sound(before, health, may(health, in_flight=number % 30, trials_out=number % 2, now=now))
    return seen


def test_whatever_happens_in_whatever_order_the_value_stays_sound():
    seen = [walk(seed) for seed in range(40)]

    assert sum(states == set(Breaker) for states in seen) > 20


def assert_sound(before: Health, health: Health, given: Admission) -> None:
    assert (health.opened_until is not None) == (health.breaker == Breaker.OPEN)
    assert (health.held_at is None) == (health.hold_reason is None)
    assert (health.failures > 0) == (health.failures_since is not None)
    assert health.failures < RULES.failures
    assert 0 <= health.ramp_step < len(RULES.ramp)
    assert health.breaker == Breaker.RAMP or health.ramp_step == 0
    assert given.allowed is None or given.allowed >= 0
    assert (given.allowed is None) <= (health.breaker == Breaker.CLOSED)
    lifted = before.held_at and not health.held_at
    if before.paused_until and not lifted and health != Health(breaker_since=health.breaker_since):
        assert health.paused_until is not None
        assert health.paused_until >= before.paused_until


# --- A whole outage ---------------------------------------------------------------------------------


def test_three_hours_of_outage_cost_a_trial_every_half_minute_and_the_load_comes_back_along_the_ramp():
    health, now, end = HEALTHY, NOW, NOW + timedelta(hours=3)
    calls = 0
    while now < end:
        for _ in range(min(100, 100 if (allowed := may(health, now=now).allowed) is None else allowed)):
            calls += 1
            health = fail(health, now=now).health
        now += SECOND
    during = calls
    load: list[int] = []
    while health.breaker != Breaker.CLOSED:
        allowed = may(health, now=now).allowed or 0
        started, now = now, now + SECOND
        load.append(allowed)
        for _ in range(allowed):
            health = succeed(health, now=now, started_at=started).health

    assert during <= 100 + 3 * 60 * 2
    ramp = [count for count in load if count]
    assert ramp == [1, 1, 2, 5, 10, 25]
    assert all(after <= 3 * before for before, after in pairwise(ramp))
