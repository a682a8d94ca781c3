"""Pauses and switches from the command line: who, why, until when, and what is refused."""

from datetime import timedelta
from pathlib import Path

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.config import load
from aijobs.services.coordinator import Coordinator
from tests.support.jobs import claim_some, new_job, settings_of
from tests.support.kept import last_events

CONFIG = """
providers:
  p: {kind: python, callable: "builtins:str"}
  q: {kind: python, callable: "builtins:str"}
types:
  summarize: {provider: p, stale_results: {allowed: true}}
  digest:
    provider: p
    fallback: {provider: q, approved: {quality: true, privacy: true, region: true, cost: false}}
  report:
    provider: p
    fallback: {provider: q, approved: {quality: true, privacy: true, region: true, cost: true}}
"""


@pytest.fixture
def configured(run_cli, tmp_path):
    (tmp_path / "aijobs.yaml").write_text(CONFIG)
    return run_cli


def scopes(result) -> list[tuple[str, str]]:
    return [(one["kind"], one["scope"]) for one in result.json["switches"]]


def test_a_pause_shows_in_the_list_with_who_why_and_until_when(configured, clock):
    done = configured("pause", "summarize", "--for", "2h", "--reason", "INC-1", "--actor", "ana")
    listed = configured("switch", "list", "--json")
    plain = configured("switch", "list")

    assert (done.code, listed.code) == (0, 0)
    (switch,) = listed.json["switches"]
    assert (switch["kind"], switch["scope"], switch["actor"], switch["reason"]) == (
        "pause", "summarize", "ana", "INC-1",
    )  # fmt: skip
    assert switch["expires_at"] == "2026-01-01T02:00:00Z"
    assert "INC-1" in plain.out


def test_a_pause_ends_when_it_is_resumed_and_both_are_on_record(configured, store):
    configured("pause", "--all", "--reason", "outage")
    resumed = configured("resume", "--all", "--reason", "over")

    assert resumed.code == 0
    assert configured("switch", "list", "--json").json == {"switches": []}
    with store.read() as tx:
        kinds = [(event["kind"], event["actor"], event["reason"]) for event in last_events(tx, 10)]
    assert kinds == [("resumed", "tester", "over"), ("paused", "tester", "outage")]


def test_below_a_priority(configured):
    configured("pause", "--below-priority", "5", "--reason", "users first")

    assert scopes(configured("switch", "list", "--json")) == [("pause", "below-priority")]
    assert configured("resume", "--below-priority", "--reason", "fine").code == 0


def test_a_worker_starts_nothing_of_a_paused_type(configured, store):
    coordinator = Coordinator(store, settings_of(), chance=seeded_chance(1))
    coordinator.enqueue(new_job(), actor="t")
    configured("pause", "--all", "--reason", "outage")

    paused = claim_some(coordinator)
    configured("resume", "--all", "--reason", "over")

    assert (paused, len(claim_some(coordinator))) == ([], 1)


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["pause", "--reason", "x"], 2, "say what"),
        (["pause", "summarize", "--all", "--reason", "x"], 2, "one of them"),
        (["pause", "sumarize", "--reason", "x"], 3, "summarize"),
        (["pause", "summarize"], 2, "--reason"),
        (["pause", "summarize", "--reason", "  "], 2, "reason"),
        (["pause", "summarize", "--for", "30", "--reason", "x"], 2, "--for"),
        (["resume", "summarize", "--reason", "x"], 3, "not paused"),
        (["switch", "set", "stale-results", "digest", "on", "--reason", "x"], 4, "not allowed"),
        (["switch", "set", "fallback", "summarize", "on", "--reason", "x"], 4, "no fallback"),
        (["switch", "set", "fallback", "digest", "on", "--reason", "x"], 4, "cost"),
        (["switch", "set", "fallback", "report", "off", "--reason", "x"], 3, "not on"),
        (["switch", "set", "fallback", "report", "off", "--for", "1h", "--reason", "x"], 2, "--for"),
        (["switch", "set", "magic", "report", "on", "--reason", "x"], 2, "magic"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(configured, args, code, says):
    refused = configured(*args)

    assert refused.code == code
    assert says in refused.err
    assert configured("switch", "list", "--json").json == {"switches": []}


def test_a_fallback_that_was_approved_can_be_switched_on_for_a_time(configured, clock):
    on = configured("switch", "set", "fallback", "report", "on", "--for", "4h", "--reason", "outage")
    before = scopes(configured("switch", "list", "--json"))
    clock.advance(timedelta(hours=4))

    assert on.code == 0
    assert before == [("fallback", "report")]
    assert scopes(configured("switch", "list", "--json")) == []


def test_stale_results_on_and_off(configured):
    configured("switch", "set", "stale-results", "summarize", "on", "--reason", "slow")
    off = configured("switch", "set", "stale-results", "summarize", "off", "--reason", "fine")

    assert (off.code, configured("switch", "list", "--json").json) == (0, {"switches": []})


# --- Previews -------------------------------------------------------------------------------------


@pytest.fixture
def coordinator(configured, store):
    settings = load(Path("aijobs.yaml"), environ={}, database=store.url)
    return Coordinator(store, settings, chance=seeded_chance(1))


def test_a_preview_of_a_pause_says_how_many_jobs_would_wait_and_which_go_on(configured, coordinator):
    for name, priority in (("summarize", 0), ("summarize", 7), ("digest", 0), ("digest", 7)):
        coordinator.enqueue(new_job(type=name, priority=priority), actor="t")
    claim_some(coordinator, types=("digest",))

    typed = configured("pause", "summarize", "digest", "--for", "2h", "--reason", "x", "--preview", "--json")
    below = configured("pause", "--below-priority", "7", "--reason", "x", "--preview", "--json")
    everything = configured("pause", "--all", "--reason", "x", "--preview")

    counts = [[one["scope"], one["waiting"], one["running"]] for one in typed.json["preview"]]
    assert counts == [["summarize", 2, 0], ["digest", 1, 1]]
    assert "until 2026-01-01T02:00:00Z" in typed.json["preview"][0]["would"]
    assert [one["waiting"] for one in below.json["preview"]] == [2]
    assert everything.out.splitlines()[1].split()[:3] == ["all", "3", "1"]
    assert scopes(configured("switch", "list", "--json")) == []


def test_a_preview_of_a_resumption_names_the_pauses_that_stay(configured):
    configured("pause", "summarize", "--reason", "x")
    configured("pause", "--below-priority", "5", "--reason", "x")

    preview = configured("resume", "summarize", "--reason", "x", "--preview")

    assert "start again where no other pause is on: below-priority" in preview.out
    assert len(scopes(configured("switch", "list", "--json"))) == 2


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["pause", "sumarize"], 3),
        (["resume", "digest"], 3),
        (["switch", "set", "fallback", "digest", "on"], 4),
        (["switch", "set", "fallback", "digest", "off"], 3),
        (["provider", "hold", "nobody"], 3),
        (["provider", "reset", "nobody"], 3),
    ],
)
def test_a_preview_refuses_what_would_be_refused(configured, args, code):
    assert (
        configured(*args, "--reason", "x", "--preview").code
        == configured(*args, "--reason", "x").code
        == code
    )


def test_a_preview_of_a_hold_counts_the_jobs_that_go_there_now(configured, coordinator):
    for name in ("summarize", "report", "report"):
        coordinator.enqueue(new_job(type=name), actor="t")
    hold = ("provider", "hold", "q", "--reason", "x", "--preview", "--json")

    before = configured(*hold).json["preview"][0]["waiting"]
    would = configured("switch", "set", "fallback", "report", "on", "--reason", "x", "--preview").out
    configured("switch", "set", "fallback", "report", "on", "--reason", "x")
    after = configured(*hold).json["preview"][0]["waiting"]

    assert (before, after) == (0, 2)
    assert "go to q until switched off" in would
