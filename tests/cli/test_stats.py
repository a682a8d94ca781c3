"""`stats`: one look at everything, and tokens and cost by what they were spent on."""

from datetime import timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.lifecycle import Succeeded
from aijobs.core.model import CallFacts, ErrorClass, Usage
from aijobs.services.coordinator import Coordinator
from aijobs.store import workers
from tests.support.jobs import claim_one, ended, fail, new_job, settings_of

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


def spend(coordinator, user: str, tokens: int) -> None:
    coordinator.enqueue(new_job(user=user), actor="t")
    job = claim_one(coordinator)
    facts = CallFacts(provider="p", model="m", usage=Usage(input_tokens=tokens))
    coordinator.finish([ended(job, Succeeded(result="1", facts=facts))])


def test_what_waits_and_what_the_last_hour_brought_is_shown(run, coordinator, clock):
    coordinator.enqueue(new_job(1), actor="t")
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)
    coordinator.enqueue(new_job(2), actor="t")
    clock.advance(timedelta(seconds=90))

    shown = run("stats", "--json").json

    (kind,) = [one for one in shown["types"] if one["type"] == "t"]
    assert (kind["ready"], kind["oldest_ready_seconds"]) == (1, 90)
    assert (kind["hour"]["dead_letter"], kind["hour"]["success_rate"]) == (1, 0)
    assert shown["dead_letters"] == [{"type": "t", "error_class": "invalid_request", "open": 1}]
    assert shown["oldest_dead_letter_seconds"] == 90
    assert shown["workers"] == []


def test_a_worker_that_takes_every_type_there_is_shows_so(run, store, clock):
    about = {"host": "h", "pid": 1, "version": "1", "concurrency": 3, "now": clock.now()}
    with store.write() as tx:
        workers.register(tx, name="w-all", types=["demo", "t", "gone"], **about)
        workers.register(tx, name="w-some", types=["t", "gone"], **about)

    lines = run("stats").out.splitlines()

    rows = [line.split() for line in lines if line.startswith("w-")]
    assert [" ".join(row[4:-1]) for row in rows] == ["all", "t, gone"]
    assert [one["types"] for one in run("stats", "--json").json["workers"]] == [
        ["demo", "t", "gone"],
        ["t", "gone"],
    ]


def test_the_table_says_the_same(run, coordinator, clock):
    coordinator.enqueue(new_job(2), actor="t")
    run("pause", "t", "--reason", "a test [/b]")
    clock.advance(timedelta(seconds=90))

    shown = run("stats")

    assert shown.code == 0
    assert "1m30s" in shown.out
    assert "a test [/b]" in shown.out


def test_usage_is_summed_by_any_of_its_groups(run, coordinator):
    spend(coordinator, "ana", 5)
    spend(coordinator, "ana", 6)
    spend(coordinator, "", 7)

    by_user = run("stats", "--by", "user", "--json").json["usage"]
    by_both = run("stats", "--by", "day", "--by", "model", "--json").json["usage"]

    assert {one["user"]: (one["calls"], one["input_tokens"]) for one in by_user} == {
        "ana": (2, 11),
        None: (1, 7),
    }
    assert [(one["day"], one["model"], one["input_tokens"]) for one in by_both] == [("2026-01-01", "m", 18)]
    assert by_user[0]["output_tokens"] is None


def test_usage_begins_with_a_whole_day(run, coordinator, clock):
    spend(coordinator, "ana", 5)
    clock.advance(timedelta(days=2))
    spend(coordinator, "ana", 6)

    shown = run("stats", "--by", "user", "--since", "1d", "--json").json

    assert (shown["since"], [one["input_tokens"] for one in shown["usage"]]) == ("2026-01-02", [6])


def test_since_without_a_group_is_refused(run):
    assert run("stats", "--since", "1d").code == 2
