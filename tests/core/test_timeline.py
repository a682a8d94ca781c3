"""The story of a job: everything once, in order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from aijobs.core.model import Execution, Job, Outcome, Status
from aijobs.core.timeline import timeline

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def _at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


JOB = Job(
    id="1", type="t", user="", key="K", status=Status.PENDING, priority=0, attempts=0, max_attempts=5,
    round=1, deferrals=0, next_run_at=T0, locked_until=None, locked_by=None, lock_token=0, claimed_at=None,
    parked_at=None, hold_reason=None, cancel_requested_at=None, provider=None, model=None,
    provider_job_id=None, last_error_class=None, last_error_code=None, last_error_message=None,
    deadline=None, input_hash="h",
    request_id="r", traceparent=None, schedule=None, key_expires_at=None, code_version=None, created_by="ana",
    created_at=T0, updated_at=T0, finished_at=None,
)  # fmt: skip

FAILED = Execution(
    job_id="1", fence=1, round=1, attempt=1, worker="w1", provider="p", model="m", outcome=Outcome.FAILED,
    error_class="network", error_code="connect", http_status=502, message="refused", started_at=_at(1),
    finished_at=_at(2), maybe_billed=True,
)  # fmt: skip


def test_a_new_job_was_created_by_somebody_for_something() -> None:
    (moment,) = timeline(JOB, executions=[])

    assert (moment.at, moment.what, moment.actor) == (T0, "created", "ana")
    assert moment.detail == "key K, request r"


def test_an_attempt_has_a_beginning_and_an_end_with_its_reason() -> None:
    _, began, ended = timeline(JOB, executions=[FAILED])

    assert (began.at, began.what, began.actor, began.detail) == (_at(1), "attempt 1 began", "w1", "p m")
    assert (ended.at, ended.what) == (_at(2), "attempt 1 failed")
    assert ended.detail == "network connect 502; refused; maybe billed"


def test_attempts_of_later_rounds_and_shadows_are_told_apart() -> None:
    later = replace(FAILED, round=2, fence=3)
    shadow = replace(FAILED, shadow=True)

    told = [moment.what for moment in timeline(JOB, executions=[FAILED, shadow, later])]

    assert "attempt 1 of round 2 began" in told
    assert "shadow attempt 1 failed" in told


def test_what_runs_now_is_the_last_word() -> None:
    job = replace(
        JOB, status=Status.PROCESSING, attempts=2, claimed_at=_at(5), locked_by="w2", parked_at=_at(6),
        provider="p", provider_job_id="resp_1",
    )  # fmt: skip

    told = timeline(job, executions=[FAILED])

    assert [moment.what for moment in told[-2:]] == ["attempt 2 began", "last left to the provider"]
    assert told[-1].detail == "p job resp_1"


def test_events_deaths_and_notifications_stand_in_their_place() -> None:
    event = {"at": _at(4), "kind": "cancel_requested", "actor": "bo", "reason": "why"}
    death = {"at": _at(3), "error_class": "network", "attempts": 5}
    told_of = {"created_at": _at(3), "delivered_at": _at(7), "event": "dead_letter", "target": "ops"}

    told = timeline(JOB, executions=[FAILED], events=[event], dead_letters=[death], notifications=[told_of])

    assert [moment.at for moment in told] == sorted(moment.at for moment in told)
    assert [moment.what for moment in told[3:]] == [
        "became a dead letter", "notification due", "cancel requested", "notification delivered",
    ]  # fmt: skip
    assert (told[5].actor, told[5].detail) == ("bo", "why")


def test_a_notification_that_was_not_delivered_is_only_due() -> None:
    row = {"created_at": _at(3), "delivered_at": None, "event": "succeeded", "target": "ops"}

    told = timeline(JOB, executions=[], notifications=[row])

    assert [moment.what for moment in told] == ["created", "notification due"]
