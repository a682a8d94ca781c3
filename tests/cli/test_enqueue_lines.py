"""`aijobs enqueue --jsonl`: many jobs, all or nothing, or the good ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from aijobs.cli import bulk
from aijobs.core.errors import StoreLocked
from aijobs.core.model import Job
from aijobs.store import jobs
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine


def _all(store: Store) -> list[Job]:
    with store.read() as tx:
        return jobs.page(tx, jobs.Filter(), 10_000)


def _lines(*values: dict[str, Any] | str) -> str:
    return "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)


TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
THREE = [{"type": "demo", "user": "ana", "key": f"k{n}", "input": {"n": n}} for n in range(3)]


def test_each_line_becomes_a_job(run_cli: CommandLine, store: Store) -> None:
    result = run_cli("enqueue", "--jsonl", "-", stdin=_lines(*THREE))

    assert result.code == 0
    assert result.out == "created:    3\nduplicates: 0\nconflicts:  0\ninvalid:    0\n"
    assert {(job.user, job.key) for job in _all(store)} == {("ana", "k0"), ("ana", "k1"), ("ana", "k2")}


def test_the_same_file_again_creates_nothing(run_cli: CommandLine, store: Store) -> None:
    run_cli("enqueue", "--jsonl", "-", stdin=_lines(*THREE))

    result = run_cli("enqueue", "--jsonl", "-", "--json", stdin=_lines(*THREE))

    assert result.code == 0
    assert result.records[-1] == {"created": 0, "duplicates": 3, "conflicts": 0, "invalid": 0}
    assert len(_all(store)) == 3


def test_with_json_every_line_gets_an_object_and_the_summary_is_the_last(
    run_cli: CommandLine, store: Store
) -> None:
    result = run_cli("enqueue", "--jsonl", "-", "--json", stdin=_lines(THREE[0], "", THREE[1]))

    first, second, summary = result.records
    assert (first["line"], first["key"], first["duplicate"]) == (1, "k0", False)
    assert (second["line"], second["key"]) == (3, "k1")
    assert {first["id"], second["id"]} == {job.id for job in _all(store)}
    assert summary == {"created": 2, "duplicates": 0, "conflicts": 0, "invalid": 0}


def test_a_line_takes_every_name_the_options_have(
    run_cli: CommandLine, store: Store, clock: ManualClock
) -> None:
    line = {
        "type": "demo", "input": {"a": 1}, "key": "K", "user": "ana", "priority": 3, "delay": "5m",
        "deadline": "1h", "max-attempts": 2, "request_id": "r", "at": None,
        "traceparent": TRACE,
    }  # fmt: skip

    result = run_cli("enqueue", "--jsonl", "-", stdin=_lines(line))

    assert result.code == 0
    (job,) = _all(store)
    assert (job.key, job.user, job.priority, job.max_attempts, job.request_id) == ("K", "ana", 3, 2, "r")
    assert job.traceparent == TRACE
    assert job.next_run_at is not None
    assert (job.next_run_at - clock.now()).total_seconds() == 300


def test_options_stand_in_for_what_a_line_leaves_out(run_cli: CommandLine, store: Store) -> None:
    lines = _lines({}, {"user": "bo", "at": "2026-02-01"})

    result = run_cli("enqueue", "demo", "--user", "ana", "--delay", "5m", "--jsonl", "-", stdin=lines)

    assert result.code == 0
    found = {job.user: job for job in _all(store)}
    assert found.keys() == {"ana", "bo"}
    assert str(found["ana"].next_run_at) == "2026-01-01 00:05:00+00:00"
    assert str(found["bo"].next_run_at) == "2026-02-01 00:00:00+00:00"


BAD = {
    "not JSON": ("{'type': 'demo'}", "not JSON"),
    "an array": ("[]", "must be a JSON object"),
    "unknown name": ('{"type": "demo", "kye": "1"}', "unknown name 'kye'"),
    "unknown type": ('{"type": "dmeo"}', "no job type named 'dmeo'"),
    "no type": ("{}", "the type is missing"),
    "input no object": ('{"type": "demo", "input": [1]}', "must be a JSON object"),
    "key no text": ('{"type": "demo", "key": 7781}', "key must be a text"),
    "priority no number": ('{"type": "demo", "priority": "high"}', "priority must be a whole number"),
    "attempts true": ('{"type": "demo", "max_attempts": true}', "max-attempts must be a whole number"),
    "delay without unit": ('{"type": "demo", "delay": "5"}', "delay: '5' has no unit"),
    "delay and at": ('{"type": "demo", "delay": "5m", "at": "2026-02-01"}', "contradict"),
    "name twice": ('{"type": "demo", "key": "a", "key": "b"}', "given twice"),
    "empty key": ('{"type": "demo", "key": ""}', "the key is empty"),
}


@pytest.mark.parametrize(("line", "said"), BAD.values(), ids=BAD)
def test_a_wrong_line_is_named_by_its_number_and_nothing_is_enqueued(
    line: str, said: str, run_cli: CommandLine, store: Store
) -> None:
    lines = _lines(THREE[0], line, THREE[1])

    told = run_cli("enqueue", "--jsonl", "-", stdin=lines)
    as_json = run_cli("enqueue", "--jsonl", "-", "--json", stdin=lines)

    assert (told.code, as_json.code) == (2, 2)
    assert "line 2: " in told.err
    assert said in told.err
    wrong, summary = as_json.records
    assert wrong["line"] == 2
    assert said in wrong["error"]["message"]
    assert summary["created"] == 0
    assert summary["invalid"] == 1
    assert summary["error"]["kind"] == "invalid_input"
    assert _all(store) == []


def test_a_fault_in_a_line_is_told_with_the_file_its_line_and_the_column_only(run_cli: CommandLine) -> None:
    lines = _lines(THREE[0], '{"type": "demo"', '{"type": "demo, "n": 1}', "[]", '{"type')
    Path("jobs.jsonl").write_text(lines)

    told = run_cli("enqueue", "--jsonl", "jobs.jsonl").err.splitlines()
    piped = run_cli("enqueue", "--jsonl", "-", stdin=lines).err.splitlines()

    assert told[:4] == [
        "warning: jobs.jsonl line 2: column 16: not JSON: expecting ',' delimiter",
        "warning: jobs.jsonl line 3: column 18: not JSON: expecting ',' delimiter",
        "warning: jobs.jsonl line 4: must be a JSON object, such as {}, and is an array",
        "warning: jobs.jsonl line 5: column 2: not JSON: unterminated string",
    ]
    assert piped[0] == told[0].replace("jobs.jsonl ", "")


def test_every_line_is_looked_at_before_the_answer(run_cli: CommandLine) -> None:
    lines = _lines(*(THREE[0] if n % 2 else "broken" for n in range(100)))

    result = run_cli("enqueue", "--jsonl", "-", "--json", stdin=lines)

    assert [record["line"] for record in result.records[:-1]] == list(range(1, 101, 2))
    assert result.records[-1]["invalid"] == 50
    assert len(result.err.splitlines()) < 30


def test_bad_line_500_of_many_is_found_and_nothing_created(run_cli: CommandLine, store: Store) -> None:
    lines = _lines(*({"type": "demo", "key": str(n)} for n in range(499)), "broken", {"type": "demo"})

    result = run_cli("enqueue", "--jsonl", "-", stdin=lines)

    assert result.code == 2
    assert "line 500: " in result.err
    assert _all(store) == []


def test_keep_going_takes_the_good_lines(run_cli: CommandLine, store: Store) -> None:
    conflict = THREE[0] | {"input": {"n": "other"}}
    lines = _lines(THREE[0], "broken", THREE[0], conflict, THREE[1])

    result = run_cli("enqueue", "--jsonl", "-", "--keep-going", "--json", stdin=lines)

    assert result.code == 1
    assert result.records[-1] == {"created": 2, "duplicates": 1, "conflicts": 1, "invalid": 1}
    by_line = {record["line"]: record for record in result.records[:-1]}
    assert by_line[2]["error"]["kind"] == "invalid_input"
    assert by_line[3]["id"] == by_line[1]["id"]
    assert by_line[4]["error"]["kind"] == "key_conflict"
    assert len(_all(store)) == 2


def test_keep_going_goes_on_over_many_transactions(
    run_cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 10)
    lines = _lines(*({"type": "demo", "key": str(n % 30)} for n in range(45)))

    result = run_cli("enqueue", "--jsonl", "-", "--keep-going", stdin=lines)

    assert result.code == 0
    assert len(_all(store)) == 30
    assert "duplicates: 15" in result.out


def test_a_conflict_without_keep_going_creates_nothing(run_cli: CommandLine, store: Store) -> None:
    run_cli("enqueue", "--jsonl", "-", stdin=_lines(THREE[0]))
    lines = _lines(THREE[1], THREE[0] | {"input": {"n": "other"}}, THREE[2])

    result = run_cli("enqueue", "--jsonl", "-", "--json", stdin=lines)

    assert result.code == 4
    conflict, summary = result.records
    assert (conflict["line"], conflict["error"]["kind"]) == (2, "key_conflict")
    assert summary["created"] == 0
    assert summary["conflicts"] == 1
    assert summary["error"]["kind"] == "key_conflict"
    assert len(_all(store)) == 1


@pytest.mark.parametrize(("end", "code"), [(KeyboardInterrupt(), 130), (StoreLocked("it is locked"), 5)])
def test_what_cuts_it_short_leaves_word_of_how_far_it_came(
    end: BaseException, code: int, run_cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 2)
    read = bulk.request_of

    def interrupt(values: dict[str, Any], defaults: dict[str, Any]) -> Any:
        if values.get("key") == "stop":
            raise end
        return read(values, defaults)

    monkeypatch.setattr(bulk, "request_of", interrupt)
    lines = _lines(*THREE, {"type": "demo", "key": "stop"})

    result = run_cli("enqueue", "--jsonl", "-", "--keep-going", "--json", stdin=lines)

    assert result.code == code
    assert "lines up to 2 are taken (2 created)" in result.err
    *lines_taken, summary = result.records
    assert [record["line"] for record in lines_taken] == [1, 2]
    error = summary.pop("error")
    assert summary == {"created": 2, "duplicates": 0, "conflicts": 0, "invalid": 0}
    assert error["kind"] == ("interrupted" if code == 130 else "store_locked")
    assert len(_all(store)) == 2


@pytest.mark.parametrize(
    "content",
    ["\ufeff" + _lines(*THREE), _lines(*THREE).replace("\n", "\r\n"), _lines(*THREE).rstrip("\n")],
    ids=["byte order mark", "CRLF", "no newline at the end"],
)
def test_files_of_other_systems_are_read(content: str, run_cli: CommandLine, store: Store) -> None:
    with open("jobs.jsonl", "w", newline="") as file:  # noqa: PTH123
        file.write(content)

    result = run_cli("enqueue", "--jsonl", "jobs.jsonl")

    assert result.code == 0
    assert len(_all(store)) == 3


def test_an_empty_file_enqueues_nothing(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "--jsonl", "-", "--json")

    assert result.code == 0
    assert result.json == {"created": 0, "duplicates": 0, "conflicts": 0, "invalid": 0}


def test_a_line_far_too_long_is_one_wrong_line(
    run_cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("aijobs.yaml", "w") as file:  # noqa: PTH123
        file.write("limits: {input_bytes: 1000}\n")
    long = '{"type": "demo", "input": {"a": "' + "x" * 200_000 + '"}}'

    result = run_cli(
        "enqueue", "--jsonl", "-", "--json", "--keep-going", stdin=_lines(THREE[0], long, THREE[1])
    )

    assert result.code == 1
    assert [record.get("line") for record in result.records] == [1, 2, 3, None]
    assert "larger than" in result.records[1]["error"]["message"]
    assert len(_all(store)) == 2


@pytest.mark.parametrize("option", [("--key", "K"), ("--input", "{}"), ("--wait",), ("--request-id", "r")])
def test_options_for_a_single_job_do_not_go_with_a_file(
    option: tuple[str, ...], run_cli: CommandLine
) -> None:
    result = run_cli("enqueue", "--jsonl", "-", *option)

    assert result.code == 2
    assert f"{option[0]} does not go with --jsonl" in result.err


def test_long_imports_report_their_progress(run_cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aijobs.cli.progress.INTERVAL", 0)
    monkeypatch.setattr(bulk, "CHUNK", 10)
    with open("jobs.jsonl", "w") as file:  # noqa: PTH123
        file.write(_lines(*({"type": "demo"} for _ in range(25))))

    result = CommandLine(database=run_cli.database)("enqueue", "--jsonl", "jobs.jsonl")

    assert result.err.startswith("enqueue: 10 of 25 (")
