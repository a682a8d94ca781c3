"""Which failure is tried again, when, at what cost, and why: every class, code and setting (C4, C5, B20)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.clock import seeded_chance
from aijobs.core.lifecycle import Failed, Lost, Verdict, decide
from aijobs.core.model import ErrorClass, Failure, Job, Status
from aijobs.core.retry import BY_PROVIDER, POOL_TIMEOUT, RESULT_LOST, Policy, budget_allows, full_jitter
from aijobs.core.settings import Settings

E = ErrorClass
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Fixed:
    """A chance that always draws the same."""

    def __init__(self, draw: float) -> None:
        self.draw = draw

    def random(self) -> float:
        return self.draw

    def getrandbits(self, k: int, /) -> int:
        return 0


HALF = Fixed(0.5)
MOST = Fixed(1 - 2**-53)
LEAST = Fixed(0.0)


def a_job(**changes: object) -> Job:
    job = Job(
        id="j", type="t", user="", key=None, status=Status.PROCESSING, priority=0, attempts=1,
        max_attempts=100, round=1, deferrals=0, next_run_at=None,
        locked_until=NOW, locked_by="w", lock_token=1, claimed_at=NOW,
        parked_at=None, hold_reason=None, cancel_requested_at=None, provider="p", model=None,
        provider_job_id=None, last_error_class=None, last_error_code=None, last_error_message=None,
        deadline=None, input_hash="", request_id=None, traceparent=None, schedule=None, key_expires_at=None,
        code_version=None, created_by="", created_at=NOW, updated_at=NOW, finished_at=None,
    )  # fmt: skip
    return replace(job, **changes)


def policy(**sections: object) -> Policy:
    plain = {
        "providers": {"p": {"kind": "python", "callable": "builtins:str"}},
        "types": {"t": {"provider": "p"}},
    }
    return Policy.from_settings(Settings.model_validate(plain | sections))


def verdict(
    error_class: ErrorClass, *, used: int = 0, chance=HALF, by: Policy | None = None, **failure
) -> Verdict:
    """What the policy says after *used* retries in a row of that class."""
    by = by or policy()
    made = Failure(error_class=error_class, **failure)
    job = a_job()
    if used:
        counted = by.rule_for(job, made).counted
        job = replace(
            job,
            last_error_class=error_class.value,
            **{"attempts": used + 1} if counted else {"deferrals": used},
        )
    return by.verdict(job, made, NOW, chance)


# --- Which classes, how often -----------------------------------------------------------------------

RETRIES = {
    # class: (retries, counted as an attempt)
    E.NETWORK: (3, True),
    E.NETWORK_TIMEOUT: (2, True),
    E.RATE_LIMITED: (20, False),
    E.QUOTA_EXHAUSTED: (2, False),
    E.AUTH: (0, True),
    E.UNAVAILABLE: (1, True),
    E.BAD_RESPONSE: (1, True),
    E.WORKER_LOST: (5, True),
    E.INTERNAL: (1, True),
    E.OUTPUT_TRUNCATED: (0, True),
    E.INVALID_REQUEST: (0, True),
    E.CONTEXT_LENGTH: (0, True),
    E.CONTENT_POLICY: (0, True),
    E.NOT_FOUND: (0, True),
    E.PERMISSION: (0, True),
    E.CANCELLED: (0, True),
    E.DEADLINE_EXCEEDED: (0, True),
}


@pytest.mark.parametrize("error_class", E)
def test_every_class_gets_its_retries_and_not_one_more(error_class):
    retries, counted = RETRIES[error_class]

    given = [verdict(error_class, used=used) for used in range(retries + 2)]

    assert [v.retry for v in given] == [True] * retries + [False] * 2
    assert {v.counted for v in given} == {counted}
    assert all(v.reason.startswith(f"{error_class.value}: ") and len(v.reason) > 20 for v in given)
    assert not any(v.hold for v in given)


@pytest.mark.parametrize("error_class", [c for c, (retries, _) in RETRIES.items() if retries == 0])
@pytest.mark.parametrize("code", [None, "whatever", BY_PROVIDER + "x", POOL_TIMEOUT])
def test_what_the_caller_must_mend_is_never_retried(error_class, code):
    assert verdict(error_class, code=code, hint=SECOND) == Verdict(
        retry=False, reason=f"{error_class.value}: trying again changes nothing"
    )


def test_the_count_starts_again_after_another_class():
    job = a_job(attempts=4, last_error_class="unavailable")

    assert policy().verdict(job, Failure(error_class=E.NETWORK), NOW, HALF).retry
    assert not policy().verdict(job, Failure(error_class=E.UNAVAILABLE), NOW, HALF).retry


def test_two_uncounted_classes_that_take_turns_come_to_an_end():
    by, job, turns = policy(), a_job(), 0

    while turns < 1000:
        given = by.verdict(
            job, Failure(error_class=(E.RATE_LIMITED, E.QUOTA_EXHAUSTED)[turns % 2]), NOW, HALF
        )
        if not given.retry:
            break
        turns += 1
        job = replace(
            job, deferrals=turns, last_error_class=("rate_limited", "quota_exhausted")[(turns - 1) % 2]
        )

    assert turns == by.most_deferrals == 42
    assert given.reason == "rate_limited: put off 42 times in all"


def test_a_replayed_job_has_all_its_retries_again():
    job = a_job(attempts=1, last_error_class="network")

    given = policy().verdict(job, Failure(error_class=E.NETWORK), NOW, HALF)

    assert (given.retry, given.delay) == (True, timedelta(0))


def test_a_class_that_a_configuration_never_retries_costs_an_attempt_like_the_others():
    by = policy(retry={"rate_limited": {"retries": 0}})

    assert verdict(E.RATE_LIMITED, by=by) == Verdict(
        retry=False, reason="rate_limited: trying again changes nothing"
    )


def test_the_reason_says_whether_it_waits():
    assert verdict(E.NETWORK).reason == "network: tried again at once"
    assert verdict(E.NETWORK, used=1).reason == "network: tried again after a backoff"
    assert verdict(E.UNAVAILABLE).reason == "unavailable: waits for the provider to recover"


@pytest.mark.parametrize("counted", [True, False])
def test_a_setting_replaces_the_rule_of_its_class(counted):
    by = policy(retry={"unavailable": {"retries": 2, "backoff": "fixed", "delay": "7s", "counted": counted}})

    given = [verdict(E.UNAVAILABLE, used=used, by=by) for used in range(3)]

    assert [v.retry for v in given] == [True, True, False]
    assert given[0].delay == 7 * SECOND
    assert {v.counted for v in given} == {counted}


# --- After which wait -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error_class", "waits"),
    [
        (E.NETWORK, [0, 1, 2]),
        (E.NETWORK_TIMEOUT, [2.5, 5]),
        (E.RATE_LIMITED, [1, 2, 4, 8, 16, 32, 64, 128, 150, 150]),
        (E.QUOTA_EXHAUSTED, [300, 300]),
        (E.UNAVAILABLE, [2.5]),
        (E.BAD_RESPONSE, [10]),
        (E.INTERNAL, [30]),
        (E.WORKER_LOST, [0.5, 1, 2, 4, 8]),
    ],
)
def test_the_waits_of_a_class_grow_as_its_rule_says(error_class, waits):
    given = [verdict(error_class, used=used).delay.total_seconds() for used in range(len(waits))]

    assert given == waits


def test_no_wait_of_a_backoff_without_a_hint_is_drawn_twice_from_the_same_place():
    chance = seeded_chance(1)
    waits = {verdict(E.RATE_LIMITED, used=5, chance=chance).delay for _ in range(50)}

    assert len(waits) == 50


@pytest.mark.parametrize("error_class", [c for c, (retries, _) in RETRIES.items() if retries])
@pytest.mark.parametrize("chance", [LEAST, HALF, MOST])
def test_a_hint_is_never_undercut_and_hardly_exceeded(error_class, chance):
    for hint in (timedelta(0), SECOND, 6 * MINUTE, timedelta(hours=5)):
        own = verdict(error_class, chance=chance).delay
        given = verdict(error_class, hint=hint, chance=chance)

        assert max(hint, own) <= given.delay <= max(hint + min(hint / 10, 30 * SECOND), own)
        assert "the provider asks to wait" in given.reason


def test_jobs_that_were_told_the_same_do_not_all_come_back_at_once():
    chance = seeded_chance(1)
    waits = {verdict(E.RATE_LIMITED, hint=MINUTE, chance=chance).delay for _ in range(50)}

    assert len(waits) == 50


def test_a_hint_of_nothing_or_less_leaves_the_backoff_in_force():
    for hint in (timedelta(0), -MINUTE):
        assert verdict(E.RATE_LIMITED, used=3, hint=hint).delay == 8 * SECOND


def test_a_hint_is_believed_up_to_a_bound():
    assert verdict(E.RATE_LIMITED, hint=timedelta(days=400), chance=LEAST).delay == timedelta(days=1)
    by = policy(retry={"max_hint": "10m"})
    assert verdict(E.RATE_LIMITED, hint=timedelta(days=400), chance=LEAST, by=by).delay == 10 * MINUTE


def test_a_hint_beyond_the_deadline_ends_the_job_now():
    job = a_job(deadline=NOW + 5 * MINUTE)
    move = decide(
        job, Failed(failure=Failure(error_class=E.RATE_LIMITED, hint=6 * MINUTE)), policy(), NOW, LEAST
    )

    assert move.target is Status.DEAD_LETTER
    assert move.reason == "the next try would come after its deadline"


# --- The provider's x-should-retry ------------------------------------------------------------------


@pytest.mark.parametrize("error_class", E)
def test_a_provider_that_says_no_is_not_asked_again(error_class):
    given = verdict(error_class, force_retry=False)

    waits = error_class is E.QUOTA_EXHAUSTED  # for a person; that is no retry of the provider's kind
    assert given.retry is waits
    if RETRIES[error_class][0] and not waits:
        assert given.reason == f"{error_class.value}: the provider says not to try again"


@pytest.mark.parametrize("error_class", [c for c, (retries, _) in RETRIES.items() if retries == 0])
def test_a_provider_that_says_yes_gets_one_retry_of_what_is_final(error_class):
    given = [verdict(error_class, force_retry=True, used=used).retry for used in range(3)]

    expected = [False] * 3 if error_class is E.OUTPUT_TRUNCATED else [True, False, False]
    assert given == expected


def test_a_provider_that_says_yes_does_not_add_to_what_a_class_has():
    assert [verdict(E.UNAVAILABLE, force_retry=True, used=used).retry for used in range(3)] == [
        True,
        False,
        False,
    ]


# --- Codes with a rule of their own -----------------------------------------------------------------


def test_no_free_connection_costs_no_attempt():
    given = [verdict(E.INTERNAL, code=POOL_TIMEOUT, used=used) for used in (0, 19, 20)]

    assert [(v.retry, v.counted) for v in given] == [(True, False), (True, False), (False, False)]


def test_a_cancel_by_the_provider_is_retried_once():
    given = [verdict(E.CANCELLED, code=BY_PROVIDER, used=used) for used in (0, 1)]

    assert [v.retry for v in given] == [True, False]


def test_a_truncated_answer_is_retried_only_where_the_type_raises_the_limit_first():
    types = {"t": {"provider": "p", "grow_output": {"factor": 2}}, "other": {"provider": "p"}}
    by = policy(types=types)

    assert [verdict(E.OUTPUT_TRUNCATED, by=by, used=used).retry for used in (0, 1)] == [True, False]
    failure = Failure(error_class=E.OUTPUT_TRUNCATED)
    assert not by.verdict(a_job(type="other"), failure, NOW, HALF).retry
    assert not by.verdict(a_job(type="gone"), failure, NOW, HALF).retry


# --- Unknown outcomes -------------------------------------------------------------------------------

HOLDING = {"t": {"provider": "p", "on_unknown_outcome": "hold"}, "other": {"provider": "p"}}


@pytest.mark.parametrize(("error_class", "billed"), list(product(E, [True, False])))
def test_an_unknown_outcome_waits_for_a_person_where_the_type_says_so(error_class, billed):
    by = policy(types=HOLDING)
    failure = Failure(error_class=error_class, maybe_billed=billed)

    held = by.verdict(a_job(), failure, NOW, HALF)
    other = by.verdict(a_job(type="other"), failure, NOW, HALF)

    unknown = billed and error_class in (E.NETWORK, E.NETWORK_TIMEOUT, E.WORKER_LOST)
    assert held.hold is unknown
    assert not other.hold
    if unknown:
        assert not held.retry
        assert "a person decides" in held.reason
    else:
        assert held == other


def test_a_result_that_the_provider_lost_is_an_unknown_outcome_too():
    by = policy(types=HOLDING)

    assert verdict(E.BAD_RESPONSE, code=RESULT_LOST, by=by).hold
    assert not verdict(E.BAD_RESPONSE, code="not_json", by=by).hold
    assert verdict(E.BAD_RESPONSE, code=RESULT_LOST).retry


def test_a_lost_worker_whose_call_may_have_gone_out_is_held_through_the_whole_decision():
    move = decide(a_job(), Lost(maybe_billed=True), policy(types=HOLDING), NOW, HALF)

    assert move.hold
    assert move.target is Status.FAILED
    assert move.next_run_at is None


# --- While the provider recovers --------------------------------------------------------------------

UNWELL = (E.UNAVAILABLE, E.NETWORK, E.NETWORK_TIMEOUT, E.RATE_LIMITED, E.QUOTA_EXHAUSTED, E.AUTH)


@pytest.mark.parametrize("error_class", E)
def test_a_trial_that_fails_costs_a_job_nothing_if_the_provider_is_at_fault(error_class):
    job = a_job(attempts=90, deferrals=900, last_error_class=error_class.value)
    failure = Failure(error_class=error_class, hint=2 * SECOND)

    trial = policy().while_recovering().verdict(job, failure, NOW, MOST)

    if error_class in UNWELL:
        assert (trial.retry, trial.counted, trial.hold) == (True, False, False)
        assert trial.delay >= 2 * SECOND
        assert "does not count" in trial.reason
    else:
        assert trial == policy().verdict(job, failure, NOW, MOST)


def test_a_trial_of_unknown_outcome_still_waits_for_a_person():
    by = policy(types=HOLDING).while_recovering()

    assert by.verdict(a_job(), Failure(error_class=E.NETWORK_TIMEOUT, maybe_billed=True), NOW, HALF).hold


def test_a_trial_that_fails_is_not_repeated_at_once():
    assert (
        policy().while_recovering().verdict(a_job(), Failure(error_class=E.NETWORK), NOW, HALF).delay
        == SECOND
    )


# --- Full jitter ------------------------------------------------------------------------------------


@given(
    st.integers(0, 900) | st.just(10**6),
    st.timedeltas(timedelta(milliseconds=1), timedelta(days=30)),
    st.timedeltas(timedelta(milliseconds=1), timedelta(days=30)),
    st.floats(0, 1, exclude_max=True),
)
def test_full_jitter_is_drawn_from_nothing_up_to_the_bound(attempt, base, cap, draw):
    bound = min(cap.total_seconds(), base.total_seconds() * 2.0 ** min(attempt, 900))

    assert 0 <= full_jitter(attempt, base, cap, Fixed(draw)).total_seconds() < bound


def test_full_jitter_spreads_over_the_whole_span():
    waits = [full_jitter(n, SECOND, MINUTE, MOST).total_seconds() for n in (0, 1, 2, 5, 6, 7, 100)]

    assert waits == pytest.approx([1, 2, 4, 32, 60, 60, 60], abs=1e-5)
    assert full_jitter(5, SECOND, MINUTE, LEAST) == timedelta(0)
    assert full_jitter(5, SECOND, MINUTE, HALF) == 16 * SECOND


# --- Budget -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_calls", "retries", "allowed"),
    [
        (0, 0, True),
        (0, 9, True),
        (0, 10, False),
        (50, 10, False),
        (54, 10, False),
        (55, 10, True),
        (100, 19, True),
        (100, 20, False),
        (1000, 199, True),
        (1000, 200, False),
    ],
)
def test_retries_stay_within_a_share_of_first_calls_and_a_floor_is_free(first_calls, retries, allowed):
    assert budget_allows(first_calls, retries, ratio=0.2, floor=10) is allowed
