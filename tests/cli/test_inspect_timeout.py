"""`aijobs inspect JOB` says how long one call is given, and why."""

from pathlib import Path

from aijobs.core.clock import Chance
from aijobs.core.lifecycle import Succeeded
from aijobs.core.model import CallFacts
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, ended, new_job, settings_of

CONFIG = """\
providers: {p: {kind: python, callable: "builtins:str"}}
types:
  t: {provider: p, timeout: auto, tier: simple}
  u: {provider: p, timeout: 45s}
timeouts: {auto: {min_samples: 3}}
"""


def run_times(store: Store, chance: Chance, seconds: list[float]) -> str:
    """Runs of type t that took so long; the id of the last job."""
    coordinator = Coordinator(store, settings_of(), chance=chance)
    for number, elapsed in enumerate(seconds):
        coordinator.enqueue(new_job({"n": number}), actor="test")
        job = claim_one(coordinator)
        facts = CallFacts(elapsed_seconds=elapsed)
        coordinator.finish([ended(job, Succeeded(result="1", facts=facts))])
    return job.id


def test_a_learned_time_limit_is_shown_with_what_it_was_learned_from(
    run_cli: CommandLine, store: Store, chance: Chance
) -> None:
    Path("aijobs.yaml").write_text(CONFIG)
    job_id = run_times(store, chance, [6.0, 7.0, 8.0])

    document = run_cli("inspect", job_id, "--json").json["timeout"]
    text = run_cli("inspect", job_id).out

    assert document["seconds"] == 12.0
    assert document["reason"] == "auto: 95% of 3 runs took at most 8s, times 1.5"
    assert f"12s a call ({document['reason']})" in text


def test_too_few_runs_leave_the_tier_and_say_so(run_cli: CommandLine, store: Store, chance: Chance) -> None:
    Path("aijobs.yaml").write_text(CONFIG)
    job_id = run_times(store, chance, [6.0, 7.0])

    document = run_cli("inspect", job_id, "--json").json["timeout"]

    assert document == {"seconds": 10.0, "reason": "auto: 2 of 3 runs known, so tier simple for now"}


def test_a_type_that_is_gone_has_no_time_limit(run_cli: CommandLine, store: Store, chance: Chance) -> None:
    job_id = run_times(store, chance, [6.0])

    result = run_cli("inspect", job_id, "--json")

    assert (result.code, result.json["timeout"]) == (0, None)
