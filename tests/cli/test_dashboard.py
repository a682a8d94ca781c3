"""`dashboard`: JSON that Grafana can import, over metrics that we export."""

import json
import re


def test_every_panel_asks_only_for_metrics_that_are_exported(run_cli):
    board = json.loads(run_cli("dashboard").out)
    exported = set(re.findall(r"^# TYPE (\w+)", run_cli("metrics").out, re.MULTILINE))

    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"aijobs_\w+", target["expr"])
    }
    assert {re.sub(r"_(sum|count|bucket)$", "", name) for name in asked} <= exported


def test_panels_have_ids_of_their_own_and_do_not_overlap(run_cli):
    panels = json.loads(run_cli("dashboard").out)["panels"]

    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len({panel["id"] for panel in panels}) == len(set(places)) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert all(target["refId"] for panel in panels for target in panel["targets"])
