"""`aijobs inspect`: lists with filters and cursors, and everything about one job."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from aijobs.cli import inspect_command
from aijobs.cli.shapes import EXECUTION_FIELDS
from aijobs.core.clock import Chance
from aijobs.core.model import ErrorClass
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.services.shapes import JOB_FIELDS
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, fail, new_job, settings_of, succeed

HOSTILE = "x\nINFO job 7 completed\x1b[2J\u202e [red]list[/int]"


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, settings_of(), chance=chance)


@pytest.fixture
def add(coordinator: Coordinator, clock: ManualClock) -> Callable[..., str]:
    """Enqueue a job, a second after the one before, and give its id."""

    def enqueue(**changes: Any) -> str:
        clock.advance(seconds=1)
        return coordinator.enqueue(new_job(**changes), actor="ana").job.id

    return enqueue


Add = Callable[..., str]


# --- Lists ------------------------------------------------------------------------------------------


def test_a_list_is_newest_first_with_the_promised_names(run_cli: CommandLine, add: Add) -> None:
    first, second = add(user="ana"), add()

    result = run_cli("inspect", "--json")

    assert result.code == 0
    assert [job["id"] for job in result.json["jobs"]] == [second, first]
    assert tuple(result.json["jobs"][0]) == JOB_FIELDS
    assert [job["user"] for job in result.json["jobs"]] == [None, "ana"]
    assert result.json["next_cursor"] is None


def test_a_piped_list_is_one_line_a_job(run_cli: CommandLine, add: Add) -> None:
    job_id = add(user="ana")

    result = run_cli("inspect")

    header, line = result.out.splitlines()
    assert header.split() == ["ID", "TYPE", "USER", "STATUS", "ATTEMPTS", "NEXT", "LAST", "ERROR", "CREATED"]
    assert line.split() == [
        job_id,
        "t",
        "ana",
        "pending",
        "0/5",
        "2026-01-01T00:00:01Z",
        "-",
        "2026-01-01T00:00:01Z",
    ]


def test_an_empty_list_is_said_and_not_printed(run_cli: CommandLine) -> None:
    result = run_cli("inspect")

    assert (result.code, result.out, result.err) == (0, "", "no jobs\n")


def test_filters_restrict(run_cli: CommandLine, add: Add, coordinator: Coordinator) -> None:
    dead = add(user="ana", key="K")
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)
    waiting = add(user="bo")
    nobody = add()

    def found(*args: str) -> list[str]:
        return [job["id"] for job in run_cli("inspect", *args, "--json").json["jobs"]]

    assert found("--status", "dead_letter") == [dead]
    assert found("--status", "pending", "--status", "dead_letter") == [nobody, waiting, dead]
    assert found("--user", "bo") == [waiting]
    assert found("--user=") == [nobody]
    assert found("--key", "K") == [dead]
    assert found("--key", "K\n") == [dead]
    assert found("--error-class", "invalid_request") == [dead]
    assert found("--type", "t") == [nobody, waiting, dead]
    assert found("--type", "other") == []
    assert found("--type", "%") == []


def test_since_takes_an_instant_or_a_duration_ago(run_cli: CommandLine, add: Add, clock: ManualClock) -> None:
    add()
    clock.advance(timedelta(hours=2))
    late = add()

    for since in (
        "1h",
        "-1h",
        "1h ago",
        "2026-01-01T01:00:00",
        "2026-01-01T09:00:00+08:00",
        " 2026-01-01T01:00Z ",
    ):
        result = run_cli("inspect", "--since", since, "--json")
        assert [job["id"] for job in result.json["jobs"]] == [late], since


@pytest.mark.parametrize(
    "since", ["yesterday", "01/02/2026", "1767225600", "1767225600000", "2026-02-30", "", "90"]
)
def test_a_time_that_could_mean_two_things_is_refused(since: str, run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--since", since)

    assert result.code == 2
    assert "--since: " in result.err


def test_the_resolved_time_is_told(run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--since", "1h")

    assert "created since 2025-12-31T23:00:00Z" in result.err


def test_pages_follow_one_another_without_gap_or_repeat(run_cli: CommandLine, add: Add) -> None:
    ids = [add() for _ in range(5)]
    seen: list[str] = []
    cursor: str | None = None

    while True:
        page = run_cli("inspect", "--limit", "2", "--json", *(["--after", cursor] if cursor else [])).json
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        add()  # a new job does not shift what comes after a cursor
        if cursor is None:
            break

    assert seen == ids[::-1]


def test_people_are_told_that_there_is_more(run_cli: CommandLine, add: Add) -> None:
    add()
    cursor = add()

    result = run_cli("inspect", "--limit", "1")

    assert f"there are more: --after {cursor}" in result.err


@pytest.mark.parametrize("limit", ["0", "-1", "x"])
def test_a_limit_must_be_a_positive_number(limit: str, run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--limit", limit)

    assert result.code == 2
    assert "--limit" in result.err


def test_an_unknown_status_names_those_there_are(run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--status", "done")

    assert result.code == 2
    assert "dead_letter" in result.err


# --- One job ----------------------------------------------------------------------------------------


def test_one_job_has_its_attempts_and_one_timeline(
    run_cli: CommandLine, add: Add, coordinator: Coordinator, clock: ManualClock
) -> None:
    job_id = add(user="ana", key="K", request_id="req-1", traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    fail(coordinator, claim_one(coordinator), ErrorClass.NETWORK, code="connect")
    clock.advance(timedelta(hours=1))
    succeed(coordinator, claim_one(coordinator))

    result = run_cli("inspect", job_id, "--json")

    assert result.code == 0
    assert set(result.json) == {
        "job", "executions", "timeline", "input", "has_input", "result", "has_result", "notifications",
        "timeout",
    }  # fmt: skip
    assert set(JOB_FIELDS) <= set(result.json["job"])
    assert result.json["job"]["request_id"] == "req-1"
    assert result.json["job"]["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    first, second = result.json["executions"]
    assert set(first) >= set(EXECUTION_FIELDS)
    assert (first["outcome"], first["error_class"], first["worker"]) == ("failed", "network", "w1")
    assert (second["outcome"], second["attempt"], second["worker"]) == ("succeeded", 2, "w1")
    assert first["input_tokens"] is None
    assert [moment["what"] for moment in result.json["timeline"]] == [
        "created", "attempt 1 began", "attempt 1 failed", "attempt 2 began", "attempt 2 succeeded",
    ]  # fmt: skip
    assert result.json["timeline"][0]["actor"] == "ana"


def test_input_and_result_are_hidden_unless_revealed(
    run_cli: CommandLine, add: Add, coordinator: Coordinator
) -> None:
    job_id = add(value={"text": "the prompt"})
    succeed(coordinator, claim_one(coordinator), result='{"text":"the answer"}')

    hidden, told = run_cli("inspect", job_id, "--json"), run_cli("inspect", job_id)
    shown, read = run_cli("inspect", job_id, "--reveal", "--json"), run_cli("inspect", job_id, "--reveal")

    for result in (hidden, told):
        assert "the prompt" not in result.out + result.err
        assert "the answer" not in result.out + result.err
    assert (hidden.json["result"], hidden.json["has_result"]) == (None, True)
    assert "--reveal shows it" in told.out
    assert shown.json["input"] == {"text": "the prompt"}
    assert shown.json["result"] == {"text": "the answer"}
    assert '{"text":"the answer"}' in read.out


def test_hostile_text_in_a_job_forges_no_line_and_steers_no_terminal(
    run_cli: CommandLine, add: Add, coordinator: Coordinator
) -> None:
    job_id = add(user=HOSTILE, value={"text": HOSTILE})
    fail(coordinator, claim_one(coordinator, worker=HOSTILE), message=HOSTILE, code=HOSTILE)

    for args in (("inspect",), ("inspect", job_id), ("inspect", job_id, "--reveal")):
        for result in (run_cli(*args), run_cli(*args, terminal=True)):
            text = result.out + result.err
            assert "\x1b[2J" not in text
            assert "\u202e" not in text
            assert not any(line.startswith("INFO job 7") for line in text.splitlines())
            assert "list[/int]" in text
        assert "\x1b" not in run_cli(*args, "--json").out
        assert "\u202e" not in run_cli(*args, "--json").out
    assert run_cli("inspect", job_id, "--json").json["job"]["user"] == HOSTILE


@pytest.mark.parametrize("job_id", ["nonsense", "-x", "019b76da-a800-720a-ab04-5c4a06fa9400", ""])
def test_a_job_that_is_not_there_gives_3(job_id: str, run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--json", "--", job_id)

    assert result.code == 3
    assert result.json["error"]["kind"] == "not_found"


def test_filters_do_not_go_with_one_job(run_cli: CommandLine) -> None:
    assert run_cli("inspect", "x", "--status", "failed").code == 2


def test_reveal_does_not_go_with_a_list(run_cli: CommandLine) -> None:
    assert run_cli("inspect", "--reveal").code == 2


def test_watching_a_job_shows_each_change_until_its_end(
    run_cli: CommandLine, add: Add, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = add()
    claimed = None
    steps = iter(
        [
            lambda: claim_one(coordinator),
            lambda: None,
            lambda: run_cli("cancel", job_id, "--reason", "r"),
            lambda: fail(coordinator, claimed),
        ]
    )
    look = inspect_command._one

    def look_and_go_on(*args: Any, **options: Any) -> Any:
        nonlocal claimed
        seen = look(*args, **options)
        step = next(steps, None)
        done = step() if step else None
        claimed = claimed or done
        return seen

    monkeypatch.setattr(inspect_command, "LOOK_EVERY", 0)
    monkeypatch.setattr(inspect_command, "_one", look_and_go_on)
    result = run_cli("inspect", job_id, "--watch", "--json")

    assert result.code == 0
    states = [
        (record["job"]["status"], record["job"]["cancel_requested_at"] is not None)
        for record in result.records
    ]
    assert states == [("pending", False), ("processing", False), ("processing", True), ("cancelled", True)]


def test_a_terminal_list_of_a_full_store_reads_no_bodies(
    run_cli: CommandLine, store: Store, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(value={"text": "x" * 1_000_000})
    seen: list[str] = []

    from sqlalchemy import event

    event.listen(
        store.engine.__class__, "before_cursor_execute", lambda c, cur, sql, *_: seen.append(sql), named=False
    )
    result = run_cli("inspect", terminal=True)

    assert result.code == 0
    assert seen
    assert not any("job_inputs" in sql or "job_results" in sql for sql in seen)


def test_settings_are_not_needed_to_show_types_that_are_gone(run_cli: CommandLine, add: Add) -> None:
    job_id = add()

    assert "t" not in Settings().types
    assert run_cli("inspect", job_id).code == 0
