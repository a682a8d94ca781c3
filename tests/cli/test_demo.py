"""`aijobs demo`: the story comes true, and whatever it tells people to type is a command."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aijobs.cli import demo_command
from aijobs.services.demo import DemoReport
from tests.support.command_line import CommandLine, Result, parse
from tests.support.wait import eventually


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """One demonstration whose store is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("demo")))
        yield CommandLine(database=None)("demo", "--keep", "--json")


@pytest.fixture
def kept(told: Result, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line in the folder that was kept."""
    monkeypatch.chdir(told.json["folder"])
    return CommandLine(database=None)


def job_of(told: Result, type_name: str) -> dict[str, Any]:
    return next(job for job in told.json["jobs"] if job["type"] == type_name)


def commands(told: Result) -> list[str]:
    return [command for step in told.json["steps"] for command in step["commands"]]


def test_it_goes_as_told(told: Result) -> None:
    assert (told.code, told.json["wrong"]) == (0, [])
    assert {job["status"] for job in told.json["jobs"]} == {"succeeded"}


def test_each_job_is_paid_for_once_and_three_calls_more_were_needed(told: Result) -> None:
    assert (len(told.json["jobs"]), told.json["billed"], told.json["calls"]) == (5, 5, 7)


def test_it_is_over_in_well_under_a_minute(told: Result) -> None:
    assert told.json["seconds"] < 45


def test_one_job_was_turned_away_and_tried_again(told: Result, kept: CommandLine) -> None:
    job = job_of(told, "classify")

    first, second = kept("inspect", job["id"], "--json").json["executions"]

    assert job["story"] == "rate_limited, succeeded"
    assert (first["outcome"], first["http_status"], first["error_class"]) == ("failed", 429, "rate_limited")
    assert second["outcome"] == "succeeded"


def test_one_job_died_and_was_replayed_with_its_history_kept(told: Result, kept: CommandLine) -> None:
    job = job_of(told, "translate")

    shown = kept("inspect", job["id"], "--json").json

    assert job["story"] == "not_found, replayed: succeeded"
    assert [(one["round"], one["outcome"]) for one in shown["executions"]] == [
        (1, "failed"),
        (2, "succeeded"),
    ]
    assert "not acme-9" in str(shown["timeline"])


def test_one_job_ran_at_the_provider_by_itself(told: Result, kept: CommandLine) -> None:
    (only,) = kept("inspect", job_of(told, "report")["id"], "--json").json["executions"]

    assert only["provider_job_id"].startswith("resp_")


def test_the_kept_folder_can_be_worked_on(told: Result, kept: CommandLine) -> None:
    assert kept("config", "check").code == 0
    duplicate = kept(*shlex.split(commands(told)[2])[1:], "--json").json

    assert duplicate["duplicate"] is True
    assert duplicate["result"]


def test_every_command_it_shows_can_be_typed(told: Result) -> None:
    shown = [command for command in commands(told) if not command.startswith("cd ")]

    for command in shown:
        parse(command)
    assert len(shown) > 12


@pytest.mark.parametrize("option", [("--config", "x.yaml"), ("--database", "sqlite:///x.db")])
def test_a_store_of_yours_is_not_played_with(run_bare: CommandLine, option: tuple[str, str]) -> None:
    assert run_bare("demo", *option).code == 2


def start(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "aijobs", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=folder, env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip


@pytest.mark.e2e
def test_it_tells_its_story_in_words_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0
    assert [line.split()[1] for line in out.splitlines()[1:]] == [
        "summarize", "summarize", "classify", "report", "translate",
    ]  # fmt: skip
    assert "7. Its cause is repaired, and it is replayed" in err
    assert "--keep" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
def test_it_can_be_stopped_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        eventually(lambda: list(tmp_path.glob("aijobs-demo-*/aijobs.db")), timeout=30)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_story_that_went_otherwise_says_so_and_fails(
    run_bare: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = DemoReport(
        steps=(),
        fates=(),
        provider_url="http://x:1",
        calls=0,
        billed=0,
        seconds=0.1,
        wrong=("a job is lost",),
    )
    monkeypatch.setattr(demo_command, "_play", lambda *_: report)

    result = run_bare("demo", "--json")

    assert (result.code, result.json["wrong"]) == (1, ["a job is lost"])
    assert "warning: a job is lost" in result.err
