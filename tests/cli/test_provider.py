"""`provider list|show|reset|hold`: what is seen, what is changed, and who did it."""

from datetime import timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.model import CallFacts, ErrorClass
from aijobs.services.coordinator import Coordinator
from tests.support.jobs import claim_some, fail, new_job, settings_of
from tests.support.kept import last_events

CONFIG = """
providers:
  p: {kind: python, callable: "builtins:str", breaker: {failures: 2, open_for: 30s}}
types:
  t: {provider: p}
"""


@pytest.fixture
def run(run_cli, tmp_path):
    (tmp_path / "aijobs.yaml").write_text(CONFIG)
    return run_cli


@pytest.fixture
def coordinator(store):
    providers = {"p": {"kind": "python", "callable": "builtins:str", "breaker": {"failures": 2}}}
    made = Coordinator(store, settings_of(providers=providers), chance=seeded_chance(1))
    made.enqueue_many([new_job(n) for n in range(10)], actor="t")
    return made


def broken(coordinator) -> None:
    for claim in claim_some(coordinator, 2):
        facts = CallFacts(provider="p", rate_limits='{"requests": {"remaining": 3}}')
        fail(coordinator, claim.job, ErrorClass.UNAVAILABLE, facts=facts)


def test_a_provider_in_trouble_shows_why_and_until_when(run, coordinator, clock):
    broken(coordinator)

    (listed,) = [one for one in run("provider", "list", "--json").json["providers"] if one["provider"] == "p"]
    shown = run("provider", "show", "p", "--json").json

    assert listed == shown
    assert (shown["breaker"], shown["may_start"]) == ("open", 0)
    assert shown["opened_because"] == "2 failures in a row, the last unavailable (test)"
    assert shown["why"] == f"the breaker is open: {shown['opened_because']}"
    assert (shown["breaker_since"], shown["opened_until"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z")
    assert shown["last_headers"] == {"requests": {"remaining": 3}}
    assert "p          open     2026-01-01T00:00:00Z  0" in run("provider", "list").out
    assert "30s, trial  the breaker is open: 2 failures in a row" in run("stats").out


def test_why_a_breaker_opened_is_told_until_it_is_closed_and_of_the_latest_time(run, coordinator, clock):
    broken(coordinator)
    clock.advance(timedelta(seconds=30))
    (claim,) = claim_some(coordinator, 1)
    facts = CallFacts(provider="p")
    half_open = run("provider", "show", "p", "--json").json["why"]
    fail(coordinator, claim.job, ErrorClass.NETWORK_TIMEOUT, facts=facts)
    again = run("provider", "show", "p", "--json").json["why"]
    run("provider", "reset", "p", "--reason", "x")
    well = run("provider", "show", "p", "--json").json

    assert half_open == "the breaker is half open: 2 failures in a row, the last unavailable (test)"
    assert again == "the breaker is open: a trial failed, the last network_timeout (test)"
    assert (well["why"], well["opened_because"]) == (None, None)


def test_when_its_time_is_up_it_shows_as_half_open(run, coordinator, clock):
    broken(coordinator)
    clock.advance(timedelta(seconds=30))

    assert run("provider", "show", "p", "--json").json["breaker"] == "half_open"


def test_a_reset_lets_calls_through_at_once_and_is_on_record(run, store, coordinator):
    broken(coordinator)

    done = run("provider", "reset", "p", "--reason", "they fixed it", "--actor", "ana")

    assert done.code == 0
    assert len(claim_some(coordinator, 10)) == 8
    with store.read() as tx:
        event = last_events(tx, 1)[0]
    assert (event["actor"], event["reason"]) == ("ana", "they fixed it")


@pytest.mark.parametrize("lasting", [[], ["--for", "1h"]])
def test_a_hold_stops_calls_until_it_ends(run, coordinator, clock, lasting):
    held = run("provider", "hold", "p", *lasting, "--reason", "status page", "--json")
    before = claim_some(coordinator, 10)
    clock.advance(timedelta(hours=1))
    later = claim_some(coordinator, 10)

    assert (held.code, before) == (0, [])
    assert bool(later) == bool(lasting)
    assert run("provider", "reset", "p", "--reason", "over").code == 0


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["show", "nobody"], 3),
        (["reset", "nobody", "--reason", "x"], 3),
        (["hold", "p"], 2),
        (["hold", "p", "--reason", " "], 2),
        (["hold", "p", "--for", "0s", "--reason", "x"], 2),
    ],
)
def test_what_makes_no_sense_is_refused(run, args, code):
    assert run("provider", *args).code == code
