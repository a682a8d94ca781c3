"""`alerts` and `alerts rules`: exit codes for cron, who is told, and what the rules file names."""

import re
import sys

import pytest
import yaml

from aijobs.core.clock import seeded_chance
from aijobs.core.model import ErrorClass
from aijobs.services.coordinator import Coordinator
from tests.support.jobs import claim_one, fail, new_job, settings_of

CONFIG = """
providers:
  p: {{kind: python, callable: "builtins:str"}}
types:
  t: {{provider: p}}
notify:
  ops:
    kind: command
    command: ["{python}", "-c", "import sys; open('told', 'ab').write(sys.stdin.buffer.read())"]
  log: {{kind: log}}
alerts: {{notify: [ops, log]}}
"""


@pytest.fixture
def run(run_cli, tmp_path):
    (tmp_path / "aijobs.yaml").write_text(CONFIG.format(python=sys.executable))
    return run_cli


@pytest.fixture
def dead(store):
    coordinator = Coordinator(store, settings_of(), chance=seeded_chance(1))
    coordinator.enqueue(new_job(), actor="t")
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)


def test_quiet_is_0(run):
    quiet = run("alerts", "--json")

    assert (quiet.code, quiet.json["firing"]) == (0, [])
    assert {one["rule"] for one in quiet.json["alerts"]} >= {"stuck", "retries", "failure_rate"}


@pytest.mark.usefixtures("dead")
def test_what_fires_is_1_each_time_and_told_once(run, tmp_path):
    first = run("alerts", "--json")
    second = run("alerts")
    new = run("alerts", "--new", "--json")

    (alert,) = [one for one in first.json["alerts"] if one["firing"]]
    assert (alert["rule"], alert["told"], alert["news"]) == ("dead_letters", ["ops", "log"], True)
    assert (first.code, second.code, new.code) == (1, 1, 0)
    assert "FIRING" in second.out
    assert (tmp_path / "told").read_text().count("dead_letters") == 1
    assert "P2 alert dead_letters: 1" in first.err


@pytest.mark.usefixtures("dead")
def test_a_look_tells_nobody_where_there_is_no_target_and_so_silences_nothing(run_cli):
    looked = [run_cli("alerts", "--json"), run_cli("alerts", "--json")]
    mailed = [run_cli("alerts", "--new").code, run_cli("alerts", "--new").code]

    alerts = [one for shown in looked for one in shown.json["alerts"] if one["firing"]]
    assert [(one["news"], one["silenced_until"]) for one in alerts] == [(True, None)] * 2
    assert mailed == [1, 0]


def test_the_rules_file_names_only_metrics_that_we_export(run):
    rules = yaml.safe_load(run("alerts", "rules").out)
    exported = set(re.findall(r"^# TYPE (\w+)", run("metrics").out, re.MULTILINE))

    used = {name for rule in rules["groups"][0]["rules"] for name in re.findall(r"aijobs_\w+", rule["expr"])}
    assert {re.sub(r"_(sum|count|bucket)$", "", name) for name in used} <= exported
    assert len(rules["groups"][0]["rules"]) == 10
    assert {rule["labels"]["severity"] for rule in rules["groups"][0]["rules"]} == {"P1", "P2", "P3"}
