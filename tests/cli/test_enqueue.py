"""`aijobs enqueue` of one job: inputs, keys, times, and what it answers."""

import json
from datetime import timedelta

import pytest

from aijobs.core.clock import Chance
from aijobs.core.model import ErrorClass, Job, NewJob
from aijobs.core.settings import Settings
from aijobs.services import waiting
from aijobs.services.coordinator import Coordinator
from aijobs.store import jobs
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, fail, present, succeed


def _all(store: Store) -> list[Job]:
    with store.read() as tx:
        return jobs.page(tx, jobs.Filter(), 1000)


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, Settings(), chance=chance)


# --- The answer -------------------------------------------------------------------------------------


def test_the_id_alone_is_printed_so_that_a_script_can_keep_it(run_cli: CommandLine, store: Store) -> None:
    result = run_cli("enqueue", "demo")

    assert result.code == 0
    assert result.out == f"{_all(store)[0].id}\n"


def test_the_json_answer_has_the_promised_names(run_cli: CommandLine, store: Store) -> None:
    result = run_cli("enqueue", "demo", "--key", "order-7781", "--user", "ana", "--json")

    assert result.code == 0
    assert result.json == {
        "id": _all(store)[0].id,
        "status": "pending",
        "type": "demo",
        "user": "ana",
        "key": "order-7781",
        "duplicate": False,
        "poll_after_seconds": 1.0,
        "result": None,
        "key_expires_at": "2026-01-31T00:00:00Z",
        "stale_result": None,
    }


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "look before you ask again: aijobs inspect --type demo"),
        (("--key", "order-7781"), "its key makes it safe to run the command again"),
    ],
)
def test_ctrl_c_while_it_is_committed_says_that_it_may_have_been_accepted(
    words: tuple[str, ...], hint: str, run_cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue = Coordinator.enqueue

    def interrupted(self: Coordinator, new: NewJob, *, actor: str) -> None:
        enqueue(self, new, actor=actor)
        raise KeyboardInterrupt

    monkeypatch.setattr(Coordinator, "enqueue", interrupted)
    result = run_cli("enqueue", "demo", *words)

    assert (result.code, result.out, len(_all(store))) == (130, "", 1)
    assert "the job may have been accepted" in result.err
    assert hint in result.err


def test_everything_that_is_asked_for_is_stored(
    run_cli: CommandLine, store: Store, clock: ManualClock
) -> None:
    result = run_cli(
        "enqueue", "demo", "--input", '{"text": "你好"}', "--user", "ana", "--priority", "7",
        "--delay", "90s", "--deadline", "2h", "--max-attempts", "3", "--request-id", "req-1",
        environ={"TRACEPARENT": f"00-{'a' * 32}-{'b' * 16}-01"},
    )  # fmt: skip

    assert result.code == 0
    (job,) = _all(store)
    assert (job.user, job.priority, job.max_attempts, job.request_id) == ("ana", 7, 3, "req-1")
    assert job.next_run_at == clock.now() + timedelta(seconds=90)
    assert job.deadline == clock.now() + timedelta(hours=2)
    assert job.traceparent == f"00-{'a' * 32}-{'b' * 16}-01"
    assert job.created_by == "tester"
    with store.read() as tx:
        assert jobs.payload_of(tx, job.id) == '{"text":"你好"}'


def test_a_delayed_job_is_worth_asking_about_after_its_delay(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "demo", "--delay", "1m", "--json")

    assert result.json["poll_after_seconds"] == 61.0


def test_at_takes_a_time_in_any_zone(run_cli: CommandLine) -> None:
    created = run_cli("enqueue", "demo", "--at", "2026-01-01T09:00:00+08:00", "--json").json["id"]

    job = run_cli("inspect", created, "--json").json["job"]
    assert job["next_run_at"] == "2026-01-01T01:00:00Z"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--delay", "90"), "--delay: '90' has no unit"),
        (("--delay", "-5m"), "--delay: '-5m' is negative"),
        (("--at", "01/02/2026"), "--at: '01/02/2026' is not a time"),
        (("--at", "1767225600000"), "--at: '1767225600000' is a bare number"),
        (("--at", "2026-02-30"), "--at: '2026-02-30' is no such time"),
        (("--delay", "5m", "--at", "2026-01-01"), "delay and at contradict each other"),
        (("--delay", "2h", "--deadline", "1h"), "the deadline is over before the job may run"),
        (("--priority", "1001"), "priority must be a whole number"),
        (("--max-attempts", "0"), "max-attempts must be a whole number"),
        (("--user", ""), "the user is empty"),
        (("--timeout", "5s"), "--timeout goes with --wait only"),
        (("--keep-going",), "--keep-going goes with --jsonl only"),
    ],
)
def test_what_makes_no_sense_is_refused(
    args: tuple[str, ...], said: str, run_cli: CommandLine, store: Store
) -> None:
    result = run_cli("enqueue", "demo", *args)

    assert result.code == 2
    assert said in result.err
    assert _all(store) == []


def test_an_unknown_type_names_the_nearest(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "dmeo", "--json")

    assert result.code == 3
    assert result.json["error"] == {
        "kind": "not_found", "message": "no job type named 'dmeo'", "hint": "did you mean 'demo'?",
    }  # fmt: skip


def test_the_type_must_be_named(run_cli: CommandLine) -> None:
    result = run_cli("enqueue")

    assert result.code == 2
    assert "the job type is missing" in result.err


# --- Inputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stdin",
    [b'{"a": 1}', b'{"a": 1}\n', b'\xef\xbb\xbf{"a": 1}', b'{\r\n"a": 1\r\n}\r\n'],
    ids=["plain", "newline", "byte order mark", "CRLF"],
)
def test_the_input_may_come_from_standard_input(stdin: bytes, run_cli: CommandLine, store: Store) -> None:
    result = run_cli("enqueue", "demo", "-", stdin=stdin)

    assert result.code == 0
    with store.read() as tx:
        assert jobs.payload_of(tx, _all(store)[0].id) == '{"a":1}'


def test_the_input_may_come_from_a_file(run_cli: CommandLine, store: Store, tmp_path: object) -> None:
    with open("in put.json", "w") as file:  # noqa: PTH123
        file.write('{"a": 2}')

    result = run_cli("enqueue", "demo", "--input-file", "in put.json")

    assert result.code == 0
    with store.read() as tx:
        assert jobs.payload_of(tx, _all(store)[0].id) == '{"a":2}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("[]", "must be a JSON object"),
        ('"x"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("{} {}", "line 1 column 4"),
        ("{'a':1}", "line 1 column 2"),
        ('{"a":01}', "line 1 column 7"),
        ('{"a":1,"a":2}', "the name is given twice"),
        ('{"a":NaN}', "NaN is not a JSON number"),
        ('{"a":' + "[" * 200 + "]" * 200 + "}", "nested deeper than 100"),
    ],
)
def test_an_input_that_is_no_json_object_is_refused_with_its_place(
    text: str, said: str, run_cli: CommandLine, store: Store
) -> None:
    from_option = run_cli("enqueue", "demo", "--input", text, "--json")
    from_stdin = run_cli("enqueue", "demo", "-", stdin=text)

    assert (from_option.code, from_stdin.code) == (2, 2)
    assert from_option.json["error"]["kind"] == "invalid_input"
    assert said in from_option.err
    assert said in from_stdin.err
    assert _all(store) == []


def test_input_that_is_not_utf8_is_refused(run_cli: CommandLine, store: Store) -> None:
    result = run_cli("enqueue", "demo", "-", stdin=b'{"a": "\xff"}')

    assert result.code == 2
    assert "not UTF-8" in result.err
    assert _all(store) == []


@pytest.mark.parametrize(
    "args",
    [("--input", "{}", "-"), ("--input", "{}", "--input-file", "x"), ("--input-file", "x", "-")],
)
def test_two_inputs_are_refused(args: tuple[str, ...], run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "demo", *args, stdin="{}")

    assert result.code == 2
    assert "the input is given twice" in result.err


def test_a_second_word_that_is_no_dash_is_refused(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "demo", "{}")

    assert result.code == 2
    assert "unexpected argument '{}'" in result.err


def test_a_file_that_cannot_be_read_is_named(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "demo", "--input-file", "missing.json")

    assert result.code == 2
    assert "cannot read missing.json: No such file or directory" in result.err


def test_an_input_larger_than_the_limit_is_refused_before_it_is_read_to_its_end(
    run_cli: CommandLine, store: Store
) -> None:
    result = run_cli("enqueue", "demo", "-", stdin=b'{"a": "' + b"x" * (11 << 20) + b'"}')

    assert result.code == 2
    assert "larger than" in result.err
    assert len(result.err) < 500
    assert _all(store) == []


# --- Keys -------------------------------------------------------------------------------------------


def test_the_same_key_and_input_name_the_same_job(run_cli: CommandLine, store: Store) -> None:
    first = run_cli("enqueue", "demo", "--key", "K", "--input", '{"a": 1, "b": 2}', "--json").json
    second = run_cli("enqueue", "demo", "--key", "K", "--input", '{"b": 2, "a": 1}', "--json")

    assert second.code == 0
    assert second.json["duplicate"] is True
    assert second.json["id"] == first["id"]
    assert second.json["result"] is None
    assert len(_all(store)) == 1


def test_a_repeat_says_so_to_people(run_cli: CommandLine) -> None:
    first = run_cli("enqueue", "demo", "--key", "K")
    second = run_cli("enqueue", "demo", "--key", "K")

    assert second.out == first.out
    assert "the key was known" in second.err


def test_a_repeat_of_a_succeeded_job_brings_its_result(
    run_cli: CommandLine, coordinator: Coordinator
) -> None:
    run_cli("enqueue", "demo", "--key", "K")
    succeed(coordinator, claim_one(coordinator), result='{"text":"done"}')

    result = run_cli("enqueue", "demo", "--key", "K", "--json")

    assert result.json["duplicate"] is True
    assert result.json["status"] == "succeeded"
    assert result.json["result"] == {"text": "done"}
    assert result.json["poll_after_seconds"] is None


@pytest.mark.parametrize("state", ["pending", "processing", "succeeded"])
def test_the_same_key_with_another_input_is_a_conflict_that_names_the_job(
    state: str, run_cli: CommandLine, coordinator: Coordinator, store: Store
) -> None:
    first = run_cli("enqueue", "demo", "--key", "order-7781", "--input", '{"n":1}', "--json").json["id"]
    if state != "pending":
        job = claim_one(coordinator)
        if state == "succeeded":
            succeed(coordinator, job)
    before = _all(store)

    result = run_cli("enqueue", "demo", "--key", "order-7781", "--input", '{"n":2}', "--json")

    assert result.code == 4
    assert result.json["error"]["kind"] == "key_conflict"
    assert first in result.json["error"]["message"]
    assert "another input" in result.json["error"]["message"]
    assert _all(store) == before


@pytest.mark.parametrize("end", ["dead_letter", "cancelled"])
def test_the_key_of_a_job_that_died_or_was_cancelled_is_never_a_silent_success(
    end: str, run_cli: CommandLine, coordinator: Coordinator, store: Store
) -> None:
    first = run_cli("enqueue", "demo", "--key", "K", "--json").json["id"]
    if end == "cancelled":
        run_cli("cancel", first, "--reason", "test")
    else:
        fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)

    result = run_cli("enqueue", "demo", "--key", "K", "--json")

    assert result.code == 4
    assert result.json["error"]["kind"] == "key_owner_ended"
    assert first in result.json["error"]["message"]
    assert end in result.json["error"]["message"]
    assert result.json["error"]["hint"]
    assert len(_all(store)) == 1


def test_a_key_is_one_users_own(run_cli: CommandLine) -> None:
    ana = run_cli("enqueue", "demo", "--key", "1", "--user", "ana", "--input", '{"secret": 1}', "--json").json
    bo = run_cli("enqueue", "demo", "--key", "1", "--user", "bo", "--input", '{"other": 2}', "--json")
    nobody = run_cli("enqueue", "demo", "--key", "1", "--json")

    assert (bo.code, nobody.code) == (0, 0)
    assert len({ana["id"], bo.json["id"], nobody.json["id"]}) == 3
    assert not bo.json["duplicate"]


def test_a_key_is_one_types_own(run_cli: CommandLine) -> None:
    with open("aijobs.yaml", "w") as file:  # noqa: PTH123
        file.write("types: {other: {provider: simulator}}\n")

    first = run_cli("enqueue", "demo", "--key", "1", "--json")
    second = run_cli("enqueue", "other", "--key", "1", "--json")

    assert (first.code, second.code) == (0, 0)
    assert first.json["id"] != second.json["id"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("K", "K\n"), ("K", "  K\t"), ("caf\u00e9", "cafe\u0301"), ("-K", "-K"), ("🎉", "🎉 ")],
    ids=["newline", "spaces", "NFC and NFD", "leading dash", "emoji"],
)
def test_keys_that_look_the_same_are_the_same(one: str, other: str, run_cli: CommandLine) -> None:
    first = run_cli("enqueue", "demo", f"--key={one}", "--json").json
    second = run_cli("enqueue", "demo", "--key", other, "--json").json

    assert first["id"] == second["id"]
    assert second["duplicate"] is True


@pytest.mark.parametrize(("one", "other"), [("K", "k"), ("1", "01"), ("K", "K K")])
def test_keys_that_differ_are_different(one: str, other: str, run_cli: CommandLine) -> None:
    first = run_cli("enqueue", "demo", "--key", one, "--json").json
    second = run_cli("enqueue", "demo", "--key", other, "--json").json

    assert first["id"] != second["id"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('{"b":1,"a":[1.10,-0.0,1E5]}', '{"b":1,"a":[1.1,-0.0,100000.0]}'),
        ('{"n":9007199254740993}', '{"n":9007199254740993}'),
        ('{"n":-123456789012345678901234567890}', '{"n":-123456789012345678901234567890}'),
        ('{"t":"a\\u0000b \\\\u0000 \\u00e9\\ud83d\\ude00"}', '{"t":"a\\u0000b \\\\u0000 é😀"}'),
    ],
)
def test_each_database_gives_an_input_back_in_the_same_bytes(
    given: str, kept: str, run_cli: CommandLine, store: Store
) -> None:
    job_id = run_cli("enqueue", "demo", "--input", given, "--json").json["id"]

    with store.read() as tx:
        assert jobs.payloads_of(tx, [job_id]) == {job_id: kept}
    assert json.loads(kept) == run_cli("inspect", job_id, "--reveal", "--json").json["input"]


@pytest.mark.parametrize("number", ["1e400", "1e-400", "0.1000000000000000055", "9" * 5000])
def test_a_number_that_would_come_back_as_another_is_refused(
    number: str, run_cli: CommandLine, store: Store
) -> None:
    result = run_cli("enqueue", "demo", "--input", f'{{"n":{number}}}')

    assert (result.code, _all(store)) == (2, [])
    assert "--input: n: a number" in result.err


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "the key is empty"),
        (" \n", "the key is empty"),
        ("k" * 10_000, "the key is 10000 characters long; 255 are allowed"),
        ("k" * 256, "256 characters"),
        ("a\0b", "U+0000"),
        ("a\nb", "U+000A"),
        ("a\udcffb", "U+DCFF"),
    ],
)
def test_a_key_that_cannot_be_kept_as_it_is_is_refused(
    key: str, said: str, run_cli: CommandLine, store: Store
) -> None:
    result = run_cli("enqueue", "demo", "--key", key)

    assert result.code == 2
    assert said in result.err
    assert _all(store) == []


def test_the_longest_key_and_user_fit(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "demo", "--key", "🎉" * 255, "--user", "🎉" * 255)

    assert result.code == 0


def test_a_key_that_has_outlived_its_time_starts_afresh(run_cli: CommandLine, clock: ManualClock) -> None:
    first = run_cli("enqueue", "demo", "--key", "K", "--json").json["id"]
    clock.advance(timedelta(days=30) - timedelta(microseconds=1))
    still = run_cli("enqueue", "demo", "--key", "K", "--json").json["id"]
    clock.advance(timedelta(microseconds=1))

    later = run_cli("enqueue", "demo", "--key", "K", "--json").json

    assert still == first
    assert later["id"] != first
    assert later["duplicate"] is False


# --- Waiting ----------------------------------------------------------------------------------------


def test_waiting_for_a_job_that_has_succeeded_prints_its_result(
    run_cli: CommandLine, coordinator: Coordinator
) -> None:
    created = run_cli("enqueue", "demo", "--key", "K", "--json").json["id"]
    succeed(coordinator, claim_one(coordinator), result='"你好\\n[red]"')

    told = run_cli("enqueue", "demo", "--key", "K", "--wait")
    as_json = run_cli("enqueue", "demo", "--key", "K", "--wait", "--json")

    assert told.code == 0
    assert told.out.splitlines() == [created, '"你好\\n[red]"']
    assert as_json.json["result"] == "你好\n[red]"


def test_a_wait_that_is_over_before_the_job_gives_1(run_cli: CommandLine) -> None:
    result = run_cli("enqueue", "demo", "--wait", "--timeout", "0s", "--json")

    assert result.code == 1
    assert result.json["status"] == "pending"
    assert "is pending" in result.err


def test_a_waited_for_job_that_fails_gives_1(
    run_cli: CommandLine, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_cli("enqueue", "demo", "--key", "K")
    job = claim_one(coordinator)

    def dies_when_looked_at(store: Store, job_id: str) -> Job:
        if not present(store, job_id).status.final:
            fail(coordinator, job, ErrorClass.INVALID_REQUEST)
        return present(store, job_id)

    monkeypatch.setattr(waiting, "find", dies_when_looked_at)
    result = run_cli("enqueue", "demo", "--key", "K", "--wait", "--json")

    assert result.code == 1
    assert result.json["status"] == "dead_letter"
    assert "invalid_request" in result.err
