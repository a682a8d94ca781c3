"""A job whose call may or may not have been made: held, seen, released or closed by a person."""

import pytest

from aijobs.core.clock import Chance
from aijobs.core.model import ErrorClass, Status
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, claim_some, fail, new_job, present, settings_of, succeed


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    types = {"t": {"provider": "p", "on_unknown_outcome": "hold", "max_attempts": 1}}
    return Coordinator(store, settings_of(types=types), chance=chance)


@pytest.fixture
def held(coordinator: Coordinator) -> str:
    """The id of a held job; another one failed in an ordinary way."""
    coordinator.enqueue(new_job({"n": 1}, max_attempts=1), actor="ana")
    job = claim_one(coordinator)
    fail(coordinator, job, ErrorClass.NETWORK_TIMEOUT, maybe_billed=True)
    coordinator.enqueue(new_job({"n": 2}), actor="ana")
    fail(coordinator, claim_one(coordinator), ErrorClass.UNAVAILABLE)
    return job.id


def test_held_jobs_are_found_and_say_what_can_be_done(run_cli: CommandLine, held: str) -> None:
    listed = run_cli("inspect", "--held", "--json").json["jobs"]
    table = run_cli("inspect", "--held").out
    shown = run_cli("inspect", held, "--json").json["job"]
    said = run_cli("inspect", held).err

    assert [(job["id"], job["status"], job["next_run_at"]) for job in listed] == [(held, "failed", None)]
    assert "held" in table
    assert "a person decides" in shown["hold_reason"]
    assert f"aijobs retry {held}" in said
    assert f"aijobs cancel {held}" in said


def test_nothing_happens_to_a_held_job_by_itself(
    coordinator: Coordinator, clock: ManualClock, store: Store, held: str
) -> None:
    clock.advance(seconds=10 * 86_400)
    coordinator.rescue(limit=10)
    coordinator.expire(limit=10)

    assert held not in {claim.job.id for claim in claim_some(coordinator, 5)}
    assert present(store, held).status is Status.FAILED


def test_a_retry_releases_it_and_is_written_down(
    run_cli: CommandLine, coordinator: Coordinator, store: Store, held: str
) -> None:
    result = run_cli("retry", held, "--reason", "the provider has no such request", "--actor", "eve")
    job = claim_one(coordinator)
    succeed(coordinator, job)

    assert (result.code, job.id, job.round) == (0, held, 1)
    assert present(store, held).status is Status.SUCCEEDED
    with store.read() as tx:
        (event,) = [event for event in jobs.events_of(tx, held) if event["kind"] == "released"]
    assert (event["actor"], event["reason"]) == ("eve", "the provider has no such request")
    assert run_cli("retry", held, "--reason", "again").code == 4


def test_a_cancel_closes_it_for_good(
    run_cli: CommandLine, coordinator: Coordinator, store: Store, held: str
) -> None:
    result = run_cli("cancel", held, "--reason", "the provider shows it done, sent by hand", "--actor", "eve")

    job = present(store, held)
    assert (result.code, job.status, job.hold_reason) == (0, Status.CANCELLED, None)
    with store.read() as tx:
        (event,) = [event for event in jobs.events_of(tx, held) if event["kind"] == "cancelled"]
    assert event["actor"] == "eve"
    assert run_cli("inspect", "--held", "--json").json["jobs"] == []
    assert run_cli("retry", held, "--reason", "after all").code == 4
