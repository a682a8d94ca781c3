"""`diagnose`: the checks, the layer, the next steps, and an exit code to build on."""

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.services.coordinator import Coordinator
from tests.support.jobs import claim_one, new_job, settings_of, succeed

CONFIG = """
providers:
  p: {kind: python, callable: "builtins:str"}
types:
  t: {provider: p}
"""


@pytest.fixture
def run(run_cli, tmp_path):
    (tmp_path / "aijobs.yaml").write_text(CONFIG)
    return run_cli


@pytest.fixture
def coordinator(store):
    return Coordinator(store, settings_of(), chance=seeded_chance(1))


def test_a_job_that_no_worker_takes_is_told_by_layer_evidence_and_next_step(run, coordinator):
    job = coordinator.enqueue(new_job(), actor="shop").job

    shown = run("diagnose", job.id, "--json")

    assert shown.code == 1
    assert set(shown.json) == {"checks", "layer", "summary", "next_steps"}
    assert set(shown.json["checks"][0]) == {"check", "ok", "evidence", "since"}
    assert (shown.json["layer"], shown.json["summary"]) == ("worker", "no worker is alive")
    assert "aijobs worker --type t" in shown.json["next_steps"]


def test_the_words_say_the_same(run, coordinator):
    job = coordinator.enqueue(new_job(), actor="shop").job

    shown = run("diagnose", job.id)

    assert "worker: no worker is alive" in shown.out
    assert "next: aijobs worker --type t" in shown.out


def test_a_job_that_succeeded_is_well(run, coordinator):
    coordinator.enqueue(new_job(), actor="shop")
    job = claim_one(coordinator)
    succeed(coordinator, job)

    shown = run("diagnose", job.id, "--json")

    assert (shown.code, shown.json["layer"], shown.json["next_steps"]) == (0, None, [])


def test_without_a_job_the_whole_is_looked_at(run, coordinator):
    well = run("diagnose", "--json")
    coordinator.enqueue(new_job(), actor="shop")
    ill = run("diagnose", "--json")

    assert (well.code, well.json["layer"]) == (0, None)
    assert (ill.code, ill.json["layer"]) == (1, "worker")


def test_an_input_and_a_result_are_never_part_of_the_evidence(run, coordinator):
    coordinator.enqueue(new_job({"prompt": "the-planted-prompt"}), actor="shop")
    job = claim_one(coordinator)
    succeed(coordinator, job, result='"the-planted-result"')

    shown = run("diagnose", job.id, "--json").out + run("diagnose", job.id).out

    assert "planted" not in shown


def test_a_job_that_is_not_there_is_not_found(run):
    assert run("diagnose", "nobody").code == 3
