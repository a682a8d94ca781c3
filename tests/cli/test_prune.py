"""`prune` from the command line: it shows first, asks before it acts, and says what it did."""

from datetime import timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from tests.support.jobs import claim_one, new_job, settings_of, succeed


@pytest.fixture
def old_job(store, clock):
    coordinator = Coordinator(store, settings_of(), chance=seeded_chance(1))
    coordinator.enqueue(new_job(), actor="t")
    job = claim_one(coordinator)
    succeed(coordinator, job)
    clock.advance(timedelta(days=31))
    return job


def is_there(store, job) -> bool:
    with store.read() as tx:
        return jobs.get(tx, job.id) is not None


def test_a_preview_changes_nothing(run_cli, store, old_job):
    shown = run_cli("prune", "--preview", "--json")

    assert shown.code == 0
    assert {"what": "succeeded jobs", "kept_for": 2592000.0, "would_remove": 1} in shown.json["prune"]
    assert is_there(store, old_job)


def test_without_a_terminal_it_needs_yes(run_cli, store, old_job):
    refused = run_cli("prune")

    assert refused.code == 2
    assert "--yes" in refused.err
    assert is_there(store, old_job)


def test_json_does_not_imply_yes(run_cli, store, old_job):
    assert run_cli("prune", "--json").code == 2
    assert is_there(store, old_job)


def test_a_person_may_say_no(run_cli, store, old_job):
    said_no = run_cli("prune", stdin="n\n", terminal=True)

    assert said_no.code == 1
    assert is_there(store, old_job)


def test_with_yes_it_removes(run_cli, store, old_job):
    done = run_cli("prune", "--yes")

    assert done.code == 0
    assert "succeeded jobs" in done.out
    assert not is_there(store, old_job)


def test_with_nothing_to_do_it_asks_nothing(run_cli):
    assert run_cli("prune").code == 0
