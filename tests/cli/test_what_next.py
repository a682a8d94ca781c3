"""Answers that tell what to do next, to somebody who was woken up for it."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from aijobs.store.engine import open_store
from tests.support.command_line import CommandLine

DEAD = "providers: {p: {kind: simulator, fault: '400'}}\ntypes: {t: {provider: p}}\n"


def _kill_one(line: CommandLine) -> str:
    """A dead letter, made by a worker."""
    Path("aijobs.yaml").write_text(DEAD)
    job_id = line("enqueue", "t", "--json").json["id"]
    line("worker", "--drain")
    return str(job_id)


def test_a_drain_that_leaves_jobs_behind_says_so_and_where_to_look(run_fresh: CommandLine) -> None:
    run_fresh("enqueue", "demo")
    run_fresh("pause", "demo", "--reason", "r")

    drained = run_fresh("worker", "--drain")

    assert drained.code == 0
    assert "still waiting: 1; why: aijobs diagnose" in drained.err


def test_a_drain_that_made_dead_letters_says_where_they_are(run_fresh: CommandLine) -> None:
    Path("aijobs.yaml").write_text(DEAD)
    run_fresh("enqueue", "t")

    drained = run_fresh("worker", "--drain")

    assert drained.code == 1
    assert "open dead letters: 1; see aijobs deadletter list" in drained.err


def test_a_replay_that_is_not_there_is_not_found_before_anybody_is_asked(run_cli: CommandLine) -> None:
    resumed = run_cli("deadletter", "replay", "--resume", "nope")

    assert resumed.code == 3
    assert "no replay nope" in resumed.err


def test_nothing_to_replay_is_no_fault(run_cli: CommandLine) -> None:
    preview = run_cli("deadletter", "replay", "--all", "--preview")

    assert (preview.code, preview.out) == (0, "")
    assert "nothing to replay" in preview.err


def test_a_preview_of_what_would_only_die_again_says_what_each_needs(run_fresh: CommandLine) -> None:
    _kill_one(run_fresh)

    preview = run_fresh("deadletter", "replay", "--all", "--preview")

    assert preview.code == 1
    assert "aijobs diagnose JOB" in preview.err
    assert "BAD" not in preview.err


def test_a_time_that_is_none_is_told_with_both_ways_to_write_it(run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--since", "yesterday")

    assert result.code == 2
    assert "ISO 8601, like " in result.err
    assert "or say how long ago, like 2h" in result.err


def test_a_replay_of_nothing_in_particular_says_how_to_mean_all(run_cli: CommandLine) -> None:
    refused = run_cli("deadletter", "replay", "--preview")

    assert refused.code == 2
    assert "hint: --all --preview" in refused.err


def test_a_plan_without_a_job_that_can_be_replayed_is_refused(run_fresh: CommandLine) -> None:
    _kill_one(run_fresh)
    run_fresh("provider", "hold", "p", "--reason", "r")
    preview = run_fresh("deadletter", "replay", "--all", "--preview", "--json")

    told = run_fresh("deadletter", "replay", "--all", "--preview")
    ran = run_fresh("deadletter", "replay", "--plan", preview.json["plan"], "--yes")

    assert (preview.code, preview.json["replayable"]) == (1, 0)
    assert "aijobs diagnose" in told.err
    assert ran.code == 4


def test_a_cursor_that_is_none_is_refused_rather_than_the_first_page_shown(run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--after", "zzz")

    assert result.code == 2
    assert "--after: 'zzz' is no cursor" in result.err


@pytest.mark.parametrize("args", [("inspect",), ("deadletter", "list")])
def test_an_empty_answer_to_a_mistyped_type_says_that_there_is_none(
    args: tuple[str, ...], run_cli: CommandLine
) -> None:
    mistyped, typed = run_cli(*args, "--type", "dmeo"), run_cli(*args, "--type", "demo")

    assert "no type named 'dmeo' is configured (there are: demo)" in mistyped.err
    assert "configured" not in typed.err


def test_no_line_at_all_is_said(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "--jsonl", "-", stdin="")

    assert "there was no line to enqueue" in result.err


def test_a_pause_by_priority_ends_with_or_without_its_number(run_cli: CommandLine) -> None:
    for given in ((), ("5",)):
        run_cli("pause", "--below-priority", "5", "--reason", "r")

        ended = run_cli("resume", "--below-priority", *given, "--reason", "r")

        assert (ended.code, ended.out) == (0, "resumed: below-priority\n"), ended.err


def test_what_is_said_of_a_wrong_choice_names_the_choices_only(run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--status", "nope")

    assert result.code == 2
    assert "Value error" not in result.err
    assert "'pending'" in result.err


def test_a_variable_that_is_not_set_is_told_with_what_to_do(run_bare: CommandLine) -> None:
    Path("aijobs.yaml").write_text("providers: {p: {kind: openai-chat, api_key: '${NOT_SET_ANYWHERE}'}}\n")

    result = run_bare("config", "check")

    assert result.code == 2
    assert "hint: set the variable" in result.err


def test_a_store_that_lacks_a_table_is_told_by_the_doctor_and_by_who_needs_it(
    run_fresh: CommandLine, database_url: str
) -> None:
    store = open_store(database_url, create=True)  # not one that other tests share: a table of it goes
    with store.write() as tx:
        tx.execute(text("DROP TABLE switches"))
    store.close()

    doctor, listed = run_fresh("doctor", "--json"), run_fresh("switch", "list")

    schema = next(one for one in json.loads(doctor.out)["checks"] if one["check"] == "schema")
    assert (doctor.code, schema["ok"]) == (1, False)
    assert "lacks table switches" in schema["evidence"]
    assert listed.code == 5
    assert "aijobs db check" in listed.err
