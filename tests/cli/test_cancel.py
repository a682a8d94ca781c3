"""`aijobs cancel`: one job, several, and those that cannot be cancelled."""

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreLocked
from aijobs.core.model import Job, Status
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from aijobs.store.engine import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, present, succeed


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, Settings(), chance=chance)


def _enqueue(run_cli: CommandLine) -> str:
    return run_cli("enqueue", "demo").out.strip()


def test_a_waiting_job_is_cancelled_at_once_by_a_person_for_a_reason(
    run_cli: CommandLine, store: Store
) -> None:
    job_id = _enqueue(run_cli)

    result = run_cli("cancel", job_id, "--reason", "wrong input", "--json", "--actor", "ana")

    assert result.code == 0
    assert result.json["refused"] == []
    assert [job["status"] for job in result.json["cancelled"]] == ["cancelled"]
    with store.read() as tx:
        (event,) = jobs.events_of(tx, job_id)
    assert (event["actor"], event["reason"]) == ("ana", "wrong input")


def test_the_person_is_the_option_then_the_environment_then_the_login(
    run_cli: CommandLine, store: Store
) -> None:
    first, second, third = (_enqueue(run_cli) for _ in range(3))

    run_cli("cancel", first, "--reason", "r", "--actor", "option", environ={"AIJOBS_ACTOR": "environment"})
    run_cli("cancel", second, "--reason", "r", environ={"AIJOBS_ACTOR": "environment"})
    run_cli("cancel", third, "--reason", "r", environ={"AIJOBS_ACTOR": "", "LOGNAME": "x"})

    with store.read() as tx:
        actors = [jobs.events_of(tx, job_id)[0]["actor"] for job_id in (first, second, third)]
    assert actors[:2] == ["option", "environment"]
    assert actors[2] not in ("", "option", "environment")


@pytest.mark.parametrize("actor", ["a\nb", "x" * 201, "\x1b[2J"])
def test_an_actor_must_be_a_name(actor: str, run_cli: CommandLine, store: Store) -> None:
    job_id = _enqueue(run_cli)

    result = run_cli("cancel", job_id, "--reason", "r", "--actor", actor)

    assert result.code == 2
    assert present(store, job_id).status is Status.PENDING


def test_a_running_job_is_asked_to_stop(run_cli: CommandLine, coordinator: Coordinator) -> None:
    job_id = _enqueue(run_cli)
    claim_one(coordinator)

    result = run_cli("cancel", job_id, "--reason", "r")

    assert result.code == 0
    assert "asked to stop" in result.out


def test_a_reason_is_needed(run_cli: CommandLine) -> None:
    result = run_cli("cancel", "x")

    assert result.code == 2
    assert "--reason" in result.err


def test_a_job_that_has_ended_is_a_conflict(
    run_cli: CommandLine, coordinator: Coordinator, store: Store
) -> None:
    job_id = _enqueue(run_cli)
    succeed(coordinator, claim_one(coordinator))

    result = run_cli("cancel", job_id, "--reason", "r", "--json")

    assert result.code == 4
    assert result.json["error"]["kind"] == "already_finished"
    assert present(store, job_id).status is Status.SUCCEEDED


def test_a_job_that_is_not_there_gives_3(run_cli: CommandLine) -> None:
    assert run_cli("cancel", "nonsense", "--reason", "r").code == 3


def test_several_jobs_are_refused_without_a_terminal_and_without_yes(
    run_cli: CommandLine, store: Store
) -> None:
    ids = [_enqueue(run_cli), _enqueue(run_cli)]

    result = run_cli("cancel", *ids, "--reason", "r", "--json")

    assert result.code == 2
    assert "--yes" in result.json["error"]["hint"]
    assert {present(store, job_id).status for job_id in ids} == {Status.PENDING}


def test_several_jobs_are_confirmed_on_a_terminal(run_cli: CommandLine, store: Store) -> None:
    ids = [_enqueue(run_cli), _enqueue(run_cli)]

    declined = run_cli("cancel", *ids, "--reason", "r", stdin="n\n", terminal=True)
    before = {present(store, job_id).status for job_id in ids}
    agreed = run_cli("cancel", *ids, "--reason", "r", stdin="y\n", terminal=True)

    assert (declined.code, agreed.code) == (1, 0)
    assert before == {Status.PENDING}
    assert {present(store, job_id).status for job_id in ids} == {Status.CANCELLED}


def test_one_that_cannot_be_cancelled_does_not_keep_the_others(run_cli: CommandLine, store: Store) -> None:
    first, second = _enqueue(run_cli), _enqueue(run_cli)
    run_cli("cancel", first, "--reason", "r")

    result = run_cli("cancel", first, "nonsense", second, "--reason", "r", "--yes", "--json")

    assert result.code == 1
    assert [job["id"] for job in result.json["cancelled"]] == [second]
    assert [(one["job_id"], one["kind"]) for one in result.json["refused"]] == [
        (first, "already_finished"), ("nonsense", "not_found"),
    ]  # fmt: skip


def test_a_job_named_twice_is_cancelled_once(run_cli: CommandLine) -> None:
    job_id = _enqueue(run_cli)

    assert run_cli("cancel", job_id, job_id, "--reason", "r").code == 0


def test_a_preview_changes_nothing(run_cli: CommandLine, store: Store, coordinator: Coordinator) -> None:
    running, waiting = _enqueue(run_cli), None
    claim_one(coordinator)
    waiting = _enqueue(run_cli)

    result = run_cli("cancel", running, waiting, "--reason", "r", "--preview", "--json")

    assert result.code == 0
    assert [one["would"] for one in result.json["preview"]] == ["be asked to stop", "be cancelled"]
    assert present(store, running).cancel_requested_at is None
    assert present(store, waiting).status is Status.PENDING


def test_a_store_that_goes_away_in_the_middle_leaves_word_of_what_was_done(
    run_cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = _enqueue(run_cli), _enqueue(run_cli)
    real = Coordinator.cancel

    def breaks(self: Coordinator, job_id: str, **why: str) -> Job:
        if job_id == second:
            raise StoreLocked("the store is locked")
        return real(self, job_id, actor=why["actor"], reason=why["reason"])

    monkeypatch.setattr(Coordinator, "cancel", breaks)
    result = run_cli("cancel", first, second, "--reason", "r", "--yes", "--json")

    assert (result.code, result.json["error"]["kind"]) == (5, "store_locked")
    assert [job["id"] for job in result.json["cancelled"]] == [first]
    assert "until then 1 of 2 cancelled" in result.err
