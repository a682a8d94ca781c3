"""`aijobs tick` and `aijobs schedule ...`."""

from datetime import datetime
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine

CONFIG = """
types:
  report: {provider: simulator}
  strict: {provider: simulator, input_schema: {type: object, required: [text]}}
schedules:
  nightly-report:
    cron: "30 2 * * *"
    timezone: America/New_York
    type: report
  often: {every: 5m, type: report, overlap: allow}
"""


@pytest.fixture
def cli(run_cli: CommandLine) -> CommandLine:
    configure(CONFIG)
    return run_cli


def configure(text: str) -> None:
    Path("aijobs.yaml").write_text(text)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- tick --------------------------------------------------------------------------------------------


def test_tick_says_what_it_made_and_what_was_there(cli: CommandLine, clock: ManualClock) -> None:
    clock.set(at("2026-03-08T07:00:05Z"))

    first = cli("tick", "--json")
    second = cli("tick", "--json")

    assert (first.code, second.code) == (0, 0)
    assert list(first.json) == ["at", "created", "existing", "skipped", "failed", "warnings"]
    assert first.json["at"] == "2026-03-08T07:00:05Z"
    assert [(one["schedule"], one["window"]) for one in first.json["created"]] == [
        ("nightly-report", "2026-03-08T07:00:00Z"),
        ("often", "2026-03-08T07:00:00Z"),
    ]
    assert second.json["created"] == []
    assert second.json["existing"] == first.json["created"]


def test_tick_makes_jobs_that_can_be_looked_at(cli: CommandLine, clock: ManualClock) -> None:
    clock.set(at("2026-03-08T07:00:05Z"))

    made = cli("tick", "--json").json["created"][0]
    job = cli("inspect", made["job_id"], "--json").json["job"]

    assert (job["type"], job["schedule"]) == ("report", "nightly-report")
    assert job["key"] == "schedule:nightly-report:2026-03-08T07:00:00Z"


def test_tick_at_a_time_goes_by_that_time(cli: CommandLine) -> None:
    cli("tick", "--at", "2026-05-02T02:00:00Z")

    report = cli("tick", "--at", "2026-05-05T02:01:00Z", "--json").json
    words = cli("tick", "--at", "2026-05-05T02:05:00Z")

    often = [one for one in report["skipped"] if one["schedule"] == "often"]
    assert [(one["window"], one["count"]) for one in often] == [("2026-05-05T01:55:00Z", 863)]
    assert "created" in words.out
    assert "2026-05-05T02:05:00Z" in words.out


def test_tick_says_how_many_windows_it_skipped(cli: CommandLine) -> None:
    cli("tick", "--at", "2026-05-02T02:00:00Z")

    words = cli("tick", "--at", "2026-05-05T02:01:00Z")

    assert "schedule often: skipped 863: 863 windows were missed (catch_up: latest)" in words.err


def test_tick_preview_is_what_the_tick_then_does(cli: CommandLine) -> None:
    cli("tick", "--at", "2026-03-08T06:59:00Z")

    preview = cli("tick", "--at", "2026-03-08T07:00:00Z", "--preview", "--json").json
    listed = cli("inspect", "--json").json["jobs"]
    real = cli("tick", "--at", "2026-03-08T07:00:00Z", "--json").json

    assert listed == []
    assert [one | {"job_id": None} for one in real["created"]] == preview["created"]
    assert {one["job_id"] for one in preview["created"]} == {None}


def test_tick_with_nothing_due_says_so_and_succeeds(cli: CommandLine) -> None:
    cli("tick", "--at", "2026-03-08T06:58:30Z")

    quiet = cli("tick", "--at", "2026-03-08T06:59:00Z")

    assert (quiet.code, quiet.out, quiet.err) == (0, "", "nothing is due\n")


def test_tick_warns_of_a_clock_that_was_wrong(cli: CommandLine) -> None:
    cli("tick", "--at", "2027-01-01T00:00:00Z")

    back = cli("tick", "--at", "2026-06-05T10:00:00Z")

    assert back.code == 0
    assert "warning: schedule often: it was settled up to 2027-01-01T00:00:00Z, 209 days ahead" in back.err


def test_tick_fails_when_a_schedule_cannot_fire(cli: CommandLine) -> None:
    configure(CONFIG + "  broken: {every: 1m, type: strict}\n")

    result = cli("tick", "--at", "2026-03-08T07:00:00Z", "--json")

    assert result.code == 1
    assert [one["schedule"] for one in result.json["failed"]] == ["broken"]
    assert [one["schedule"] for one in result.json["created"]] == ["nightly-report", "often"]


@pytest.mark.parametrize(
    "cron", ["*/90 * * * *", "0 9 * * FRI-MON", "R R * * *", "0 0 30 2 *", "0 */5 * * * *"]
)
def test_tick_refuses_a_cron_that_check_refuses(cli: CommandLine, cron: str) -> None:
    configure(CONFIG + f'  bad: {{cron: "{cron}", type: report}}\n')

    results = [cli(*words) for words in (["tick"], ["config", "check"], ["schedule", "list"])]

    assert [result.code for result in results] == [2, 2, 2]
    assert all("schedules.bad.cron" in result.err for result in results)


def test_tick_from_the_wrong_folder_makes_no_store(run_fresh: CommandLine) -> None:
    configure(CONFIG)

    result = run_fresh("tick")

    assert (result.code, result.out) == (5, "")
    assert result.err.startswith("error: no job store")


def test_tick_takes_a_block_scalar_for_the_same_schedule(cli: CommandLine) -> None:
    configure(
        'types: {report: {provider: simulator}}\nschedules: {daily: {cron: "0 9 * * *", type: report}}\n'
    )
    cli("tick", "--at", "2026-05-05T08:00:00Z")
    configure(
        "types: {report: {provider: simulator}}\n"
        "schedules:\n  daily:\n    type: report\n    cron: |\n      00  9 * * *\n"
    )

    late = cli("tick", "--at", "2026-05-05T12:00:00Z", "--json").json

    assert [one["window"] for one in late["created"]] == ["2026-05-05T09:00:00Z"]


# --- schedule ----------------------------------------------------------------------------------------


def test_schedule_preview_shows_both_clocks(cli: CommandLine) -> None:
    result = cli(
        "schedule",
        "preview",
        "nightly-report",
        "--from",
        "2026-03-07T12:00:00-05:00",
        "--count",
        "3",
        "--json",
    )

    assert result.code == 0
    assert (result.json["schedule"], result.json["cron"], result.json["timezone"]) == (
        "nightly-report",
        "30 2 * * *",
        "America/New_York",
    )
    assert result.json["fires"] == [
        {"utc": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00-04:00"},
        {"utc": "2026-03-09T06:30:00Z", "local": "2026-03-09T02:30:00-04:00"},
        {"utc": "2026-03-10T06:30:00Z", "local": "2026-03-10T02:30:00-04:00"},
    ]
    assert result.json["clock_changes"] == [{"utc": "2026-03-08T07:00:00Z", "shift_seconds": 3600}]


def test_schedule_preview_marks_the_days_on_which_clocks_change(cli: CommandLine) -> None:
    result = cli("schedule", "preview", "nightly-report", "--from", "2026-10-31T12:00:00Z", "--count", "2")

    lines = result.out.splitlines()
    assert "back 1h that day" in lines[1]
    assert "that day" not in lines[2]


def test_schedule_preview_of_a_leap_day_reaches_over_2100(cli: CommandLine) -> None:
    configure(
        'types: {report: {provider: simulator}}\nschedules: {leap: {cron: "0 9 29 2 *", type: report}}\n'
    )

    result = cli("schedule", "preview", "leap", "--from", "2096-01-01T00:00:00Z", "--count", "2", "--json")

    assert [fire["utc"] for fire in result.json["fires"]] == ["2096-02-29T09:00:00Z", "2104-02-29T09:00:00Z"]


def test_schedule_preview_of_none_says_which_there_are(cli: CommandLine) -> None:
    result = cli("schedule", "preview", "nightly-repot", "--json")

    assert result.code == 3
    assert result.json["error"]["kind"] == "not_found"
    assert "nightly-report" in result.json["error"]["hint"]


def test_schedule_list_shows_what_comes_and_what_was(cli: CommandLine, clock: ManualClock) -> None:
    clock.set(at("2026-03-08T06:59:00Z"))
    before = cli("schedule", "list", "--json").json["schedules"]
    cli("tick", "--at", "2026-03-08T07:00:00Z")

    after = cli("schedule", "list", "--count", "2", "--json").json["schedules"]

    assert [one["last_window"] for one in before] == [None, None]
    assert before[0]["next"] == [{"utc": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00-04:00"}]
    assert before[0]["previous"] == {"utc": "2026-03-07T07:30:00Z", "local": "2026-03-07T02:30:00-05:00"}
    assert [(one["schedule"], one["every"], one["last_window"]) for one in after] == [
        ("nightly-report", None, "2026-03-08T07:00:00Z"),
        ("often", "5m", "2026-03-08T07:00:00Z"),
    ]
    assert len(after[1]["next"]) == 2


def test_schedule_list_needs_no_store(run_fresh: CommandLine) -> None:
    configure(CONFIG)

    result = run_fresh("schedule", "list")

    assert result.code == 0
    assert "nightly-report" in result.out
    assert "America/New_York" not in result.err


def test_without_a_store_it_is_unknown_whether_a_schedule_is_paused(run_bare: CommandLine) -> None:
    configure(CONFIG)
    Path("text.db").write_text("no database, but long enough to be looked at as if it were one")

    for name, why in (("none.db", "no job store at "), ("text.db", "the file is not an SQLite database")):
        told = run_bare("schedule", "list", "--json", database=f"sqlite:///{name}")

        assert (told.code, {one["paused"] for one in told.json["schedules"]}) == (0, {None})
        assert told.err.startswith(f"warning: whether a schedule is paused is unknown: {why}")


def test_a_paused_schedule_fires_nothing_until_it_is_resumed(cli: CommandLine, clock: ManualClock) -> None:
    clock.set(at("2026-05-05T02:01:00Z"))
    cli("tick")

    paused = cli("schedule", "pause", "often", "--reason", "month end", "--json").json
    clock.set(at("2026-05-05T02:21:00Z"))
    during = cli("tick", "--json").json
    shown = cli("schedule", "list", "--json").json["schedules"][1]
    resumed = cli("schedule", "resume", "often", "--reason", "over", "--json").json
    clock.set(at("2026-05-05T02:26:00Z"))
    after = cli("tick", "--json").json

    assert paused == {"schedule": "often", "paused": True, "paused_until": None}
    assert during["created"] == []
    assert [one["reason"] for one in during["skipped"]] == ["paused until it is resumed"]
    assert shown["paused"] is True
    assert resumed == {"schedule": "often", "paused": False, "paused_until": None}
    assert [one["window"] for one in after["created"]] == ["2026-05-05T02:25:00Z"]
    assert after["skipped"] == []


def test_a_pause_may_end_by_itself(cli: CommandLine, clock: ManualClock) -> None:
    clock.set(at("2026-05-05T02:01:00Z"))

    paused = cli("schedule", "pause", "often", "--for", "20m", "--reason", "month end")
    clock.set(at("2026-05-05T02:31:00Z"))
    after = cli("tick", "--json").json

    assert paused.out == "often is paused until 2026-05-05T02:21:00Z\n"
    assert [one["window"] for one in after["created"]] == ["2026-05-05T02:30:00Z"]
    assert [(one["window"], one["count"]) for one in after["skipped"]] == [("2026-05-05T02:25:00Z", 1)]


def test_pausing_what_is_not_there_is_an_error(cli: CommandLine) -> None:
    assert cli("schedule", "pause", "nope", "--reason", "x").code == 3
    assert cli("schedule", "resume", "nope", "--reason", "x").code == 3
