"""Every state against every way an attempt can end, and the diagram in the documents against the table."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from aijobs.core.clock import Chance, seeded_chance
from aijobs.core.lifecycle import (
    MOVES,
    Abandoned,
    AttemptEnd,
    Cancelled,
    Failed,
    Lost,
    Parked,
    Succeeded,
    Verdict,
    decide,
    is_legal,
)
from aijobs.core.model import ErrorClass, Failure, Job, Outcome, Status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILURE = Failure(error_class=ErrorClass.NETWORK, message="gone")


class Says:
    """A policy that always gives the same verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self.given = verdict

    def verdict(self, job: Job, failure: Failure, now: datetime, chance: Chance) -> Verdict:
        return self.given


RETRY = Verdict(retry=True, delay=timedelta(seconds=10), reason="try again")
NEVER = Verdict(retry=False, reason="never")
HOLD = Verdict(retry=False, hold=True, reason="outcome unknown")
UNCOUNTED = Verdict(retry=True, delay=timedelta(seconds=10), counted=False, reason="throttled")


def a_job(**changes: object) -> Job:
    job = Job(
        id="j", type="t", user="", key=None, status=Status.PROCESSING, priority=0, attempts=1, max_attempts=3,
        round=1, deferrals=0, next_run_at=None, locked_until=NOW, locked_by="w", lock_token=1, claimed_at=NOW,
        parked_at=None, hold_reason=None, cancel_requested_at=None, provider="p", model=None,
        provider_job_id=None, last_error_class=None, last_error_code=None, last_error_message=None,
        deadline=None, input_hash="", request_id=None, traceparent=None, schedule=None, key_expires_at=None,
        code_version=None, created_by="", created_at=NOW, updated_at=NOW, finished_at=None,
    )  # fmt: skip
    return replace(job, **changes)


ENDS: list[AttemptEnd] = [
    Succeeded(result="1"),
    Failed(failure=FAILURE),
    Parked(provider_job_id="r", poll_at=NOW + timedelta(seconds=2)),
    Cancelled(),
    Lost(),
    Abandoned(reason="shutdown"),
    Abandoned(reason="shutdown", started=True),
]
VERDICTS = [RETRY, NEVER, HOLD, UNCOUNTED]
SITUATIONS = [
    a_job(),
    a_job(attempts=3),
    a_job(cancel_requested_at=NOW),
    a_job(provider_job_id="r"),
    a_job(deadline=NOW - timedelta(seconds=1)),
    a_job(deadline=NOW + timedelta(seconds=5)),
    a_job(provider_job_id="r", cancel_requested_at=NOW),
]


@pytest.mark.parametrize(("job", "end", "verdict"), list(product(SITUATIONS, ENDS, VERDICTS)))
def test_every_end_of_every_attempt_leads_to_one_legal_move_that_the_tables_accept(job, end, verdict):
    move = decide(job, end, Says(verdict), NOW, seeded_chance(1))

    assert is_legal(Status.PROCESSING, move.target)
    waits = move.target in (Status.PENDING, Status.FAILED)
    assert (move.next_run_at is not None) == (waits and not move.hold)
    assert (move.locked_until is not None) == (move.target is Status.PROCESSING)
    assert not move.hold or move.target is Status.FAILED
    if move.target is Status.DEAD_LETTER:
        assert move.failure is not None
    if move.target.final or move.target is Status.FAILED:
        assert move.outcome is not None
    assert move.reason


@pytest.mark.parametrize(("source", "target"), list(product(Status, Status)))
def test_final_states_are_left_by_a_replay_only(source, target):
    verb = MOVES.get((source, target))

    if source in (Status.SUCCEEDED, Status.CANCELLED):
        assert verb is None
    if source is Status.DEAD_LETTER:
        assert (verb == "replay") == (target is Status.PENDING)
    if target is Status.PROCESSING and source is not Status.PROCESSING:
        assert (verb == "claim") == (source in (Status.PENDING, Status.FAILED))


def test_a_success_stands_even_after_a_cancel_and_past_the_deadline():
    job = a_job(cancel_requested_at=NOW, deadline=NOW - timedelta(hours=1))

    move = decide(job, Succeeded(result="1"), Says(NEVER), NOW, seeded_chance(1))

    assert (move.target, move.outcome) == (Status.SUCCEEDED, Outcome.SUCCEEDED)


def test_a_retry_waits_as_long_as_the_policy_says():
    move = decide(a_job(), Failed(failure=FAILURE), Says(RETRY), NOW, seeded_chance(1))

    assert (move.target, move.next_run_at) == (Status.FAILED, NOW + timedelta(seconds=10))
    assert move.outcome is Outcome.FAILED


def test_the_last_attempt_that_fails_becomes_a_dead_letter():
    move = decide(a_job(attempts=3), Failed(failure=FAILURE), Says(RETRY), NOW, seeded_chance(1))

    assert move.target is Status.DEAD_LETTER
    assert move.reason == "all 3 attempts used"


def test_a_failure_that_is_not_counted_is_retried_even_after_the_last_attempt():
    move = decide(a_job(attempts=3), Failed(failure=FAILURE), Says(UNCOUNTED), NOW, seeded_chance(1))

    assert (move.target, move.counted) == (Status.FAILED, False)


def test_a_retry_that_would_come_exactly_at_the_deadline_ends_the_job_now():
    ends_there = a_job(deadline=NOW + timedelta(seconds=10))
    ends_later = a_job(deadline=NOW + timedelta(seconds=10, microseconds=1))

    at = decide(ends_there, Failed(failure=FAILURE), Says(RETRY), NOW, seeded_chance(1))
    before = decide(ends_later, Failed(failure=FAILURE), Says(RETRY), NOW, seeded_chance(1))

    assert (at.target, at.reason) == (Status.DEAD_LETTER, "the next try would come after its deadline")
    assert before.target is Status.FAILED


def test_past_the_deadline_the_reason_says_so():
    move = decide(a_job(deadline=NOW), Failed(failure=FAILURE), Says(RETRY), NOW, seeded_chance(1))

    assert move.reason == "past its deadline"


def test_a_lost_attempt_counts_and_is_recorded_as_lost():
    move = decide(a_job(), Lost(), Says(RETRY), NOW, seeded_chance(1))

    assert (move.target, move.outcome, move.counted) == (Status.FAILED, Outcome.LOST, True)
    assert move.failure is not None
    assert (move.failure.error_class, move.failure.maybe_billed) == (ErrorClass.WORKER_LOST, True)


def test_a_failure_after_a_request_to_cancel_cancels_and_keeps_the_failure():
    move = decide(a_job(cancel_requested_at=NOW), Failed(failure=FAILURE), Says(RETRY), NOW, seeded_chance(1))

    assert (move.target, move.failure) == (Status.CANCELLED, FAILURE)


def test_a_job_handed_back_before_it_began_leaves_no_attempt_behind():
    unstarted = decide(a_job(), Abandoned(reason="stop"), Says(RETRY), NOW, seeded_chance(1))
    started = decide(a_job(), Abandoned(reason="stop", started=True), Says(RETRY), NOW, seeded_chance(1))

    assert (unstarted.target, unstarted.outcome, unstarted.counted) == (Status.PENDING, None, False)
    assert (started.target, started.outcome, started.counted) == (Status.PENDING, Outcome.ABANDONED, False)


def test_a_job_that_a_provider_works_on_is_parked_at_shutdown_not_handed_back():
    move = decide(a_job(provider_job_id="r"), Abandoned(reason="stop", started=True), Says(RETRY), NOW,
                  seeded_chance(1))  # fmt: skip

    assert (move.target, move.outcome, move.locked_until) == (Status.PROCESSING, None, NOW)


def test_the_diagram_in_the_documents_is_the_table():
    text = (Path(__file__).parents[2] / "docs" / "state-machine.md").read_text()
    drawn = re.findall(r"^    (\w+) --> (\w+): (.+)$", text, re.MULTILINE)

    assert sorted(drawn) == sorted((a.value, b.value, verb) for (a, b), verb in MOVES.items())
