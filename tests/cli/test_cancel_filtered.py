"""`aijobs cancel` by filters: which jobs, what is asked first, and the account of what was done."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreLocked
from aijobs.core.model import Status
from aijobs.services.coordinator import Coordinator, cancelling
from aijobs.services.coordinator.cancelling import Cancellation, Stopped
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, fail, new_job, present, settings_of, succeed

WHY = ("--reason", "a loop in her script")


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, settings_of(), chance=chance)


def _enqueue(coordinator: Coordinator, count: int = 1, **changes: object) -> list[str]:
    """The ids in their order, which within a millisecond is not that of coming in."""
    return sorted(coordinator.enqueue(new_job({"n": n}, **changes), actor="t").job.id for n in range(count))


def _statuses(store: Store, ids: list[str]) -> list[Status]:
    return [present(store, job_id).status for job_id in ids]


def test_all_jobs_of_a_user_that_have_not_ended_are_stopped_and_no_others(
    run_cli: CommandLine, coordinator: Coordinator, store: Store
) -> None:
    (done,) = _enqueue(coordinator, user="ana")
    succeed(coordinator, claim_one(coordinator))
    (running,) = _enqueue(coordinator, user="ana")
    claim_one(coordinator)
    waiting, others = _enqueue(coordinator, 3, user="ana"), _enqueue(coordinator, 2, user="bob")

    result = run_cli("cancel", "--user", "ana", *WHY, "--yes", "--json")

    assert result.code == 0
    stopped = {job["id"]: job for job in result.json["cancelled"]}
    assert stopped.keys() == {*waiting, running}
    assert stopped[running]["cancel_requested_at"] is not None
    assert result.json["counts"] == {
        "matched": 4, "cancelled": 3, "asked_to_stop": 1, "asked_already": 0, "ended_already": 0,
        "changed": 0, "left": 0,
    }  # fmt: skip
    assert (result.json["refused"], result.json["interrupted"]) == ([], False)
    assert _statuses(store, [done, running]) == [Status.SUCCEEDED, Status.PROCESSING]
    assert set(_statuses(store, waiting)) == {Status.CANCELLED}
    assert set(_statuses(store, others)) == {Status.PENDING}


def test_each_filter_narrows_it_down_and_all_hold_together(
    run_cli: CommandLine, coordinator: Coordinator, store: Store, clock: ManualClock
) -> None:
    (old,) = _enqueue(coordinator)
    fail(coordinator, claim_one(coordinator))
    clock.advance(timedelta(hours=1))
    (running,) = _enqueue(coordinator, priority=1)
    claim_one(coordinator)
    new = _enqueue(coordinator, 2)
    (other,) = _enqueue(coordinator, type="u")

    def matched(*filters: str) -> set[str]:
        done = run_cli("cancel", *filters, *WHY, "--preview", "--json")
        assert done.code == 0, done.err
        return {row["job_id"] for row in done.json["preview"]}

    assert matched("--type", "u") == {other}
    assert matched("--status", "failed") == {old}
    assert matched("--status", "failed", "--status", "processing") == {old, running}
    assert matched("--error-class", "network") == {old}
    assert matched("--since", "30m", "--status", "pending") == {*new, other}
    assert matched("--until", "30m") == {old}
    assert matched("--type", "t", "--since", "30m", "--limit", "1") == {new[1]}
    assert matched("--held") == set()
    assert present(store, old).status is Status.FAILED


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "say which"),
        (("--limit", "5"), "say which"),
        (("019b7d6e", "--user", "ana"), "filters do not go with JOB"),
        (("019b7d6e", "--limit", "5"), "filters do not go with JOB"),
        (("--user", ""), "--user is empty"),
        (("--type", " "), "--type is empty"),
        (("--user", "ana", "--status", "succeeded"), "has ended"),
        (("--since", "1h", "--until", "2h"), "--since is not before --until"),
        (("--user", "ana", "--reason", " "), "a reason is needed"),
    ],
)
def test_what_would_mean_everything_or_nothing_is_refused(
    args: tuple[str, ...], said: str, run_cli: CommandLine, coordinator: Coordinator, store: Store
) -> None:
    ids = _enqueue(coordinator, user="ana")

    result = run_cli("cancel", *(() if "--reason" in args else WHY), *args, "--yes")

    assert (result.code, said in result.err) == (2, True), result.err
    assert _statuses(store, ids) == [Status.PENDING]


def test_it_asks_first_and_refuses_where_nobody_can_answer(
    run_cli: CommandLine, coordinator: Coordinator, store: Store
) -> None:
    ids = _enqueue(coordinator, 2, user="ana")

    nobody = run_cli("cancel", "--user", "ana", *WHY, "--json")
    declined = run_cli("cancel", "--user", "ana", *WHY, stdin="n\n", terminal=True)

    assert (nobody.code, declined.code) == (2, 1)
    assert "--yes" in nobody.json["error"]["hint"]
    assert "Cancel 2 jobs (1 type, 1 user)?" in declined.err
    assert set(_statuses(store, ids)) == {Status.PENDING}
    assert run_cli("cancel", "--user", "ana", *WHY, stdin="y\n", terminal=True).code == 0
    assert set(_statuses(store, ids)) == {Status.CANCELLED}


def test_a_preview_counts_by_type_user_and_status_and_shows_the_newest(
    run_cli: CommandLine, coordinator: Coordinator, store: Store, clock: ManualClock
) -> None:
    first = _enqueue(coordinator, user="bob")
    claim_one(coordinator)
    clock.advance(timedelta(seconds=1))
    ids = _enqueue(coordinator, 12, user="ana")

    asked = ("cancel", "--type", "t", *WHY, "--preview")
    shown, told = run_cli(*asked, "--json").json, run_cli(*asked)

    assert shown["matched"] == 13
    assert shown["groups"] == [
        {"type": "t", "user": "ana", "status": "pending", "jobs": 12, "would": "be cancelled"},
        {"type": "t", "user": "bob", "status": "processing", "jobs": 1, "would": "be asked to stop"},
    ]
    assert [row["job_id"] for row in shown["preview"]] == ids[:1:-1]
    assert "the newest (10 of 13)" in told.out
    assert present(store, first[0]).cancel_requested_at is None
    assert set(_statuses(store, ids)) == {Status.PENDING}


def test_nothing_to_stop_is_no_failure_and_names_a_type_that_is_not_there(run_cli: CommandLine) -> None:
    result = run_cli("cancel", "--type", "demmo", *WHY)  # nobody is asked about nothing

    assert result.code == 0
    assert "no type named 'demmo' is configured" in result.err


def test_ctrl_c_ends_it_between_two_steps_with_a_true_account(
    run_cli: CommandLine, coordinator: Coordinator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = _enqueue(coordinator, 6, user="ana")
    monkeypatch.setattr(cancelling, "STEP", 2)
    real = Coordinator.cancel_many

    def interrupted(self: Coordinator, job_ids: list[str], cancellation: Cancellation) -> Iterator[Stopped]:
        for step in real(self, job_ids, cancellation):
            os.kill(os.getpid(), signal.SIGINT)
            yield step

    monkeypatch.setattr(Coordinator, "cancel_many", interrupted)
    result = run_cli("cancel", "--user", "ana", "--limit", "5", *WHY, "--yes", "--json")

    assert "--limit 3 goes on" in result.err
    assert (result.code, result.json["interrupted"], result.json["error"]["kind"]) == (
        130,
        True,
        "interrupted",
    )
    assert [job["id"] for job in result.json["cancelled"]] == [ids[5], ids[4]]
    assert (result.json["counts"]["cancelled"], result.json["counts"]["left"]) == (2, 3)
    assert _statuses(store, ids) == [Status.PENDING] * 4 + [Status.CANCELLED] * 2


def test_a_second_ctrl_c_in_the_middle_of_a_step_looks_what_became_of_it(
    run_cli: CommandLine, coordinator: Coordinator, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = _enqueue(coordinator, 4, user="ana")
    clock.advance(timedelta(seconds=1))
    (running,) = _enqueue(coordinator, user="ana", priority=5)
    claim_one(coordinator)
    monkeypatch.setattr(cancelling, "STEP", 2)
    real = Coordinator.cancel_many

    def cut_off(self: Coordinator, job_ids: list[str], cancellation: Cancellation) -> Iterator[Stopped]:
        steps = real(self, job_ids, cancellation)
        next(steps)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        yield from steps

    monkeypatch.setattr(Coordinator, "cancel_many", cut_off)
    result = run_cli("cancel", "--user", "ana", *WHY, "--yes", "--json")

    assert (result.code, result.json["interrupted"]) == (130, True)
    assert {job["id"]: job["status"] for job in result.json["cancelled"]} == {
        running: "processing", ids[3]: "cancelled"
    }  # fmt: skip
    counts = {name: count for name, count in result.json["counts"].items() if count}
    assert counts == {"matched": 5, "cancelled": 1, "asked_to_stop": 1, "left": 3}
    assert "goes on: with what is left, and what came in since" in result.err


def test_a_store_that_goes_away_says_what_was_done_until_then(
    run_cli: CommandLine, coordinator: Coordinator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = _enqueue(coordinator, 4, user="ana")
    monkeypatch.setattr(cancelling, "STEP", 2)
    real = Coordinator.cancel_many

    def breaks(self: Coordinator, job_ids: list[str], cancellation: Cancellation) -> Iterator[Stopped]:
        yield next(real(self, job_ids, cancellation))
        raise StoreLocked("the store is locked")

    monkeypatch.setattr(Coordinator, "cancel_many", breaks)
    result = run_cli("cancel", "--user", "ana", *WHY, "--yes", "--json")

    assert (result.code, result.json["error"]["kind"], result.json["interrupted"]) == (
        5,
        "store_locked",
        True,
    )
    assert {job["id"] for job in result.json["cancelled"]} == set(ids[2:])
    assert "until then 4 matched, 2 cancelled, 2 left" in result.err
    assert _statuses(store, ids) == [Status.PENDING] * 2 + [Status.CANCELLED] * 2
