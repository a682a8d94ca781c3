"""`deadletter replay` from the command line: preview, plan, run, stop, resume, abort."""

import json
import os
import re
import signal
import subprocess
import threading
from datetime import timedelta

import pytest

from aijobs.cli.printer import Printer
from aijobs.core.clock import seeded_chance
from aijobs.core.errors import StoreLocked
from aijobs.core.model import ErrorClass, Status
from aijobs.http.simulator import start_in_thread
from aijobs.services.coordinator import Coordinator
from aijobs.services.replay import patience, runner
from aijobs.store import replays
from aijobs.store.engine import open_store
from tests.support.command_line import command
from tests.support.jobs import claim_some, fail, new_job, present, settings_of
from tests.support.kept import last_events
from tests.support.wait import eventually
from tests.support.workers import drain, running

FAST = ("--rate", "1000/s", "--yes")


@pytest.fixture
def fresh(database_url):
    store = open_store(database_url, create=True)
    yield store
    store.close()


@pytest.fixture
def run(run_fresh, tmp_path):
    (tmp_path / "aijobs.yaml").write_text(
        'providers: {p: {kind: python, callable: "builtins:str"}}\ntypes: {t: {provider: p}}\n'
    )
    return run_fresh


def die(store, count: int, error_class=ErrorClass.BAD_RESPONSE, **changes) -> list[str]:
    coordinator = Coordinator(store, settings_of(), chance=seeded_chance(1))
    made = [
        coordinator.enqueue(new_job({"n": n}, max_attempts=1, **changes), actor="t").job.id
        for n in range(count)
    ]
    for claim in claim_some(coordinator, count):
        fail(coordinator, claim.job, error_class)
    return made


def test_a_preview_prints_the_plan_and_changes_nothing(run, fresh):
    dead = die(fresh, 13)

    shown = run("deadletter", "replay", "--type", "t", "--preview", "--json")
    plain = run("deadletter", "replay", "--type", "t", "--preview")

    assert shown.code == plain.code == 0
    plan = shown.json
    assert (plan["replayable"], plan["skipped"], plan["batches"]) == (13, 0, 3)
    assert plan["batch_sizes"] == [1, 10, 2]
    assert plan["estimated_seconds"] == 13
    assert [check["check"] for check in plan["checks"] if not check["ok"]] == ["workers"]
    assert "--plan" in plain.err
    assert {present(fresh, job_id).status for job_id in dead} == {Status.DEAD_LETTER}


def test_a_plan_runs_exactly_what_was_shown(run, fresh):
    dead = die(fresh, 5)
    plan = run("deadletter", "replay", "--all", "--preview", "--rate", "1000/s", "--json").json["plan"]
    late = die(fresh, 1, user="late")

    with running(fresh):
        done = run("deadletter", "replay", "--plan", plan, "--yes", "--json")

    assert done.code == 0
    report = done.json
    assert (report["state"], report["replayed"], report["succeeded"], report["failed"]) == ("done", 5, 5, 0)
    assert {present(fresh, job_id).status for job_id in dead} == {Status.SUCCEEDED}
    assert present(fresh, late[0]).status is Status.DEAD_LETTER
    assert run("deadletter", "replay", "--plan", plan, "--yes").code == 4


def test_without_a_plan_it_shows_what_it_will_do_and_does_it(run, fresh):
    die(fresh, 3)

    with running(fresh):
        done = run("deadletter", "replay", "--all", *FAST)

    assert done.code == 0
    assert done.out.count("succeeded") >= 3
    assert [one["state"] for one in run("deadletter", "replays", "--json").json["replays"]] == ["done"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ([], 2, "--all"),
        (["--all"], 2, "--yes"),
        (["--type", ""], 2, "--type is empty"),
        (["--all", "--rate", "fast"], 2, "--rate"),
        (["--plan", "x", "--all"], 2, "stand alone"),
        (["--plan", "nobody", "--yes"], 3, "nobody"),
        (["--resume", "nobody", "--yes"], 3, "nobody"),
        (["--plan", "", "--yes"], 2, "empty"),
        (["--plan", "x", "--probe"], 2, "stand alone"),
        (["--all", "--force"], 2, "--reason"),
        (["--all", "--batch-size", "0"], 2, "batch-size"),
        (["--all", "--max-failure-ratio", "2"], 2, "max-failure-ratio"),
    ],
)
def test_what_is_not_clear_is_refused_and_nothing_runs(run, fresh, args, code, says):
    (job_id,) = die(fresh, 1)

    refused = run("deadletter", "replay", *args)

    assert refused.code == code
    assert says in refused.err
    assert present(fresh, job_id).status is Status.DEAD_LETTER


def test_one_unknown_job_among_several_is_named_and_none_is_planned(run, fresh):
    (job_id,) = die(fresh, 1)

    refused = run("deadletter", "replay", job_id, "019b0000-gone", "--preview")

    assert (refused.code, "019b0000-gone" in refused.err) == (3, True)
    assert run("deadletter", "replays", "--json").json["replays"] == []


def test_a_preview_with_something_in_the_way_exits_1_and_names_it(run, fresh):
    die(fresh, 2)
    run("pause", "t", "--reason", "incident")

    blocked = run("deadletter", "replay", "--all", "--preview", "--json")

    assert blocked.code == 1
    assert [c["check"] for c in blocked.json["checks"] if not c["ok"]] == ["not_paused", "workers"]
    assert "paused" in blocked.json["skipped_jobs"][0]["reason"]


def test_without_a_worker_the_preview_notes_it_and_the_run_says_what_it_waits_for(
    run, fresh, tmp_path, monkeypatch
):
    die(fresh, 1)
    shown = run("deadletter", "replay", "--all", "--preview")
    monkeypatch.setattr(patience, "PATIENCE", timedelta(0))
    alone, say = threading.Event(), Printer.say

    def overheard(self, text: str) -> None:
        say(self, text)
        if "no worker" in text:
            alone.set()

    monkeypatch.setattr(Printer, "say", overheard)

    def come_to_help() -> None:
        alone.wait(20)
        drain(fresh)

    helper = threading.Thread(target=come_to_help)
    helper.start()
    done = run("deadletter", "replay", "--all", *FAST, "--json")
    helper.join()

    assert shown.code == 0
    assert re.search(r"note +workers +no worker is alive", shown.out)
    assert "BAD" not in shown.out + shown.err
    assert (done.code, done.json["state"]) == (0, "done")
    assert done.err.count("no worker is alive") == 1


def at_simulator(tmp_path, url: str) -> None:
    """Let type `t` be done by a provider with a key, at *url*."""
    provider = f"{{kind: openai-responses, base_url: '{url}/v1', api_key: '${{KEY}}'}}"
    (tmp_path / "aijobs.yaml").write_text(
        f"providers: {{p: {provider}}}\ntypes: {{t: {{provider: p, model: m}}}}\n"
    )


def test_a_probe_shows_before_anything_runs_that_a_key_is_refused(run, fresh, tmp_path):
    dead = die(fresh, 2)
    ask = ("deadletter", "replay", "--all", "--preview", "--probe")
    with start_in_thread() as simulator:
        at_simulator(tmp_path, simulator.url)
        taken = run(*ask, "--json", environ={"KEY": "open-sesame"})
        simulator.set_fault("401_echo_key")
        refused = run(*ask, "--json", environ={"KEY": "open-sesame"})
        plain = run(*ask, environ={"KEY": "open-sesame"})
        asked = [call.path for call in simulator.calls()]

    def probe_of(result):
        return next(check for check in result.json["groups"][0]["checks"] if check["check"] == "probe")

    assert (taken.code, probe_of(taken)["ok"], taken.json["replayable"]) == (0, True, 2)
    assert (refused.code, probe_of(refused)["ok"], refused.json["replayable"]) == (1, False, 0)
    assert {one["reason"].partition(":")[0] for one in refused.json["skipped_jobs"]} == {"probe"}
    assert "refuses the credentials" in plain.out
    assert "open-sesame" not in refused.out + refused.err + plain.out + plain.err
    assert asked == ["/v1/models"] * 3
    assert {present(fresh, job_id).round for job_id in dead} == {1}


def test_while_its_provider_is_unwell_a_replay_needs_force_and_a_reason(run, fresh):
    dead = die(fresh, 3)
    planned = run("deadletter", "replay", "--all", "--preview", "--json").json["plan"]
    run("provider", "hold", "p", "--reason", "INC-7")

    preview = run("deadletter", "replay", "--all", "--preview")
    stale = run("deadletter", "replay", "--plan", planned, "--yes")
    mute = run("deadletter", "replay", "--plan", planned, "--force", "--yes")
    overruled = run("deadletter", "replay", "--all", "--preview", "--force", "--reason", "x", "--json")
    untouched = {present(fresh, job_id).round for job_id in dead}
    run("provider", "reset", "p", "--reason", "to see")
    run("pause", "t", "--reason", "no, not this")
    paused = run("deadletter", "replay", "--plan", planned, "--force", "--reason", "x", "--yes")

    assert (preview.code, stale.code, mute.code, paused.code) == (1, 4, 2, 4)
    assert "INC-7" in preview.out
    assert "--force" in preview.err
    assert "--reason" in mute.err
    health = next(c for c in overruled.json["checks"] if c["check"] == "provider_health")
    assert (overruled.code, overruled.json["replayable"], health["ok"]) == (0, 3, True)
    assert health["evidence"].endswith("(overruled by --force)")
    assert untouched == {1}


def test_what_met_a_missing_model_is_replayed_in_bulk_on_a_person_s_word(run, fresh):
    dead = die(fresh, 2, ErrorClass.NOT_FOUND)
    words = ("deadletter", "replay", "--all")
    alone = run(*words, "--preview")
    die(fresh, 1, user="other")
    mixed = run(*words, "--preview")

    with running(fresh):
        done = run(*words, "--error-class", "not_found", "--force", "--reason", "INC-4", *FAST, "--json")

    assert (alone.code, mixed.code) == (1, 0)
    hint = "2 not_found skipped: nothing has changed here. If it has elsewhere, the same again with "
    assert f"{hint}--force --reason" in alone.err
    assert f"{hint}--error-class not_found --force --reason" in mixed.err
    assert (done.code, done.json["succeeded"]) == (0, 2)
    assert {present(fresh, job_id).status for job_id in dead} == {Status.SUCCEEDED}


def test_a_forced_replay_waits_where_all_jobs_wait_and_is_written_down_as_forced(run, fresh, tmp_path):
    (job_id,) = die(fresh, 1)
    planned = run("deadletter", "replay", "--all", "--preview", "--json").json["plan"]
    run("provider", "hold", "p", "--reason", "INC-7")
    words = ("deadletter", "replay", "--plan", planned, "--force", "--reason", "INC-8 says so", "--yes")

    process = subprocess.Popen(
        command(*words, "--json"), cwd=tmp_path, env=run.process_environ(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    eventually(lambda: present(fresh, job_id).status is Status.PENDING, 20)
    with running(fresh):
        run("provider", "reset", "p", "--reason", "it is well again")
        out, _ = process.communicate(timeout=30)
    timeline = run("inspect", job_id, "--json").json["timeline"]

    assert (process.returncode, json.loads(out)["state"]) == (0, "done")
    assert f"forced replay {planned}: INC-8 says so" in json.dumps(timeline)


def test_pace_caution_and_reason_may_change_on_the_way(run, fresh):
    dead = die(fresh, 4)
    plan = run("deadletter", "replay", "--all", "--preview", "--rate", "1/h", "--json").json["plan"]

    with running(fresh):
        done = run(
            "deadletter", "replay", "--plan", plan, *FAST, "--batch-size", "2", "--reason", "INC-9", "--json"
        )
    with fresh.read() as tx:
        kept = replays.get(tx, plan)
        batches = replays.progress(tx, plan).batches
        events = [one for one in last_events(tx, 50) if one["kind"] == "replay"]

    assert (done.code, done.json["succeeded"], batches) == (0, 4, 3)
    assert (kept.reason, json.loads(kept.options)["batch_size"]) == ("INC-9", 2)
    assert all("INC-9" in run("inspect", job_id).out for job_id in dead)
    assert [(one["actor"], json.loads(one["detail"])["what"]) for one in reversed(events)] == [
        ("tester", "begun"), ("tester", "done"),
    ]  # fmt: skip


def test_ctrl_c_leaves_a_replay_that_goes_on_later(run, fresh, tmp_path):
    dead = die(fresh, 30)
    args = ("deadletter", "replay", "--all", "--rate", "5/s", "--yes")
    with running(fresh):
        process = subprocess.Popen(
            command(*args), cwd=tmp_path, env=run.process_environ(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        eventually(lambda: any(present(fresh, job_id).status is Status.SUCCEEDED for job_id in dead), 30)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
        (replay,) = run("deadletter", "replays", "--json").json["replays"]
        resumed = run("deadletter", "replay", "--resume", replay["replay"], "--yes", "--json")

    assert process.returncode == 130
    assert "--resume" in err
    assert (replay["state"], resumed.code, resumed.json["state"]) == ("interrupted", 0, "done")
    assert {present(fresh, job_id).round for job_id in dead} == {2}


def test_a_store_that_is_lost_in_the_middle_is_told_with_how_far_it_came(run, fresh, monkeypatch):
    dead = die(fresh, 30)
    reopen, calls = runner.Runner._reopen, []

    def lose_the_store(self, *args, **named):
        calls.append(args)
        if len(calls) == 16:  # the canary, a whole batch, and half of the next
            raise StoreLocked("another process held the lock")
        return reopen(self, *args, **named)

    monkeypatch.setattr(runner.Runner, "_reopen", lose_the_store)
    monkeypatch.setattr(runner, "LEASE", timedelta(milliseconds=1))
    with running(fresh):
        lost = run("deadletter", "replay", "--all", *FAST, "--json")
        untouched = [job_id for job_id in dead if present(fresh, job_id).round == 1]
        (replay,) = run("deadletter", "replays", "--json").json["replays"]
        monkeypatch.setattr(runner, "LEASE", timedelta(seconds=60))
        again = run("deadletter", "replay", "--plan", replay["replay"], "--yes")
        resumed = run("deadletter", "replay", "--resume", replay["replay"], "--yes", "--json")

    assert lost.code == 5
    error = lost.json["error"]
    assert "until then 11 replayed, 11 succeeded, 0 failed, 0 skipped, 19 left" in error["message"]
    assert f"--resume {replay['replay']}" in error["hint"]
    assert len(untouched) == 19
    assert (again.code, "--resume" in again.err) == (4, True)
    assert (resumed.code, resumed.json["replayed"], resumed.json["left"]) == (0, 30, 0)
    assert {present(fresh, job_id).round for job_id in dead} == {2}


def test_an_aborted_replay_is_over(run, fresh):
    die(fresh, 3)
    plan = run("deadletter", "replay", "--all", "--preview", "--json").json["plan"]

    aborted = run("deadletter", "abort", plan, "--reason", "wrong set")

    assert aborted.code == 0
    assert run("deadletter", "replay", "--plan", plan, "--yes").code == 4
    assert run("deadletter", "abort", plan, "--reason", "again").code == 4
