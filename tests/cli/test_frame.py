"""What every command shares: help, global options, errors, exit codes."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aijobs import __version__
from aijobs.cli import inspect_command
from aijobs.cli.app import COMMANDS
from aijobs.cli.command import Command, Entry, Group, load
from aijobs.cli.context import Context
from aijobs.cli.options import global_parameters
from tests.support.command_line import CommandLine, command, parse


def _leaves(entries: Mapping[str, Entry] = COMMANDS, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, entry in entries.items():
        if entry.target:
            yield (*path, name)
        yield from _leaves(entry.commands, (*path, name))


def _entry(path: tuple[str, ...]) -> Entry:
    entry = COMMANDS[path[0]]
    for name in path[1:]:
        entry = entry.commands[name]
    return entry


every_command = pytest.mark.parametrize("path", list(_leaves()), ids=" ".join)


@every_command
def test_each_command_documents_itself(path: tuple[str, ...]) -> None:
    entry = _entry(path)
    loaded = load(path[-1], entry)

    assert isinstance(loaded, Command | Group)
    assert loaded.help
    assert entry.help.endswith(".")
    assert len(entry.help) <= 90
    assert loaded.notes is not None
    assert loaded.notes.examples
    assert all("aijobs " in example for example in loaded.notes.examples)
    assert {0, 2, 130} <= loaded.notes.exits.keys()
    assert all(param.help or param.hidden for param in loaded.params)
    assert {param.name for param in global_parameters()} <= {param.name for param in loaded.params}


@every_command
def test_each_help_shows_an_example_and_the_exit_codes(path: tuple[str, ...], run_bare: CommandLine) -> None:
    result = run_bare(*path, "--help")

    assert result.code == 0
    assert "Examples:\n" in result.out
    assert "Exit codes:\n" in result.out
    assert "130" in result.out
    assert result.err == ""


@pytest.mark.parametrize("group", [name for name, entry in COMMANDS.items() if entry.commands])
def test_the_help_of_a_group_has_an_example_of_each_of_its_commands(
    group: str, run_bare: CommandLine
) -> None:
    shown = run_bare(group, "--help").out

    assert shown.count("\nExamples:\n") == shown.count("\nExit codes:\n") == 1
    examples = shown[shown.index("Examples:\n") : shown.index("Exit codes:\n")]
    for name, entry in COMMANDS[group].commands.items():
        assert COMMANDS[group].target or f" {group} {name}" in examples, entry.help
    assert "  2    usage or configuration error\n" in shown


@every_command
def test_each_example_can_be_typed(path: tuple[str, ...]) -> None:
    loaded: Any = load(path[-1], _entry(path))

    for example in loaded.notes.examples:
        line = re.split(r" (?:[<>|]|&&) ", example[example.index("aijobs ") :])[0]
        parse(line)
        assert " ".join(path) in line


def test_the_overview_lists_every_command(run_bare: CommandLine) -> None:
    result = run_bare("--help")

    assert result.code == 0
    for name, entry in COMMANDS.items():
        assert f"  {name} " in result.out
        assert " ".join(entry.help.split())[:20] in " ".join(result.out.split())


def test_the_overview_says_how_to_begin_and_what_each_exit_code_means(run_bare: CommandLine) -> None:
    shown = run_bare("--help").out

    examples = shown[shown.index("Examples:\n") : shown.index("Exit codes:\n")].splitlines()[1:]
    lines = [line for line in examples if line.strip()]
    for line in lines:
        parse(line)
    assert "aijobs demo" in lines[0]
    assert re.findall(r"^  (\d+) ", shown, re.MULTILINE) == ["0", "1", "2", "3", "4", "5", "130"]


def test_the_version_is_printed(run_bare: CommandLine) -> None:
    result = run_bare("--version")

    assert result.code == 0
    assert result.out == f"aijobs {__version__}\n"


def test_without_a_command_the_help_is_talk_and_the_exit_code_says_usage(run_bare: CommandLine) -> None:
    result = run_bare()

    assert result.code == 2
    assert result.out == ""
    assert "enqueue" in result.err
    assert result.err.endswith("error: a command is missing\nhint: aijobs --help\n")


def test_an_unknown_command_names_the_nearest(run_bare: CommandLine) -> None:
    result = run_bare("enqeue", "--json")

    assert result.code == 2
    assert result.json["error"]["kind"] == "usage"
    assert "Did you mean 'enqueue'?" in result.json["error"]["message"]
    assert result.json["error"]["hint"] == "aijobs --help"


@pytest.mark.parametrize("short", ["--lim", "--li", "--stat"])
def test_options_cannot_be_abbreviated(short: str, run_bare: CommandLine) -> None:
    result = run_bare("inspect", short, "5")

    assert result.code == 2
    assert f"No such option: {short}" in result.err


def test_an_unknown_option_names_the_nearest(run_bare: CommandLine) -> None:
    result = run_bare("inspect", "--limits", "5")

    assert result.code == 2
    assert result.err.splitlines()[-1] == "hint: did you mean --limit?"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("inspect", "--status", "faild"), "failed"),
        (("inspect", "--status", "PENDING"), "pending"),
        (("deadletter", "list", "--error-class", "ratelimited"), "rate_limited"),
        (("stats", "--by", "tpye"), "type"),
        (("worker", "--log-format", "jsn"), "json"),
        (("switch", "set", "stale-result", "demo", "on", "--reason", "r"), "stale-results"),
        (("drill", "outag"), "'outage'"),
        (("config", "init", "--provider", "OpenAI"), "'openai'"),
        (("enqueue", "Demo"), "'demo'"),
        (("webhook", "ingest", "simulater"), "'simulator'"),
    ],
    ids=" ".join,
)
def test_a_value_that_is_nearly_right_names_the_right_one(
    typed: tuple[str, ...], meant: str, run_bare: CommandLine
) -> None:
    result = run_bare(*typed)

    assert result.code in (2, 3)
    assert result.err.splitlines()[-1] == f"hint: did you mean {meant}?"


WRONG = {
    "stats --by": ("Option '--by' requires an argument", "aijobs stats --help"),
    "schedule list --count x": ("'--count': must be a whole number", "aijobs schedule list --help"),
    "schedule list --count 0": ("'--count': must be at least 1", "aijobs schedule list --help"),
    "schedule list --count 1001": ("'--count': must be at most 1000", "aijobs schedule list --help"),
    "deadletter replay --max-failure-ratio x": ("must be a number", "aijobs deadletter replay --help"),
    "tick --schedule x": ("No such option: --schedule", "aijobs tick --help"),
    "tick --at 0001-01-01": ("--at: schedules fire in the years 1900 to 8999", "is the year right?"),
    "tick --at 9999-12-31T23:59:59Z": ("--at: schedules fire in the years", "is the year right?"),
    "schedule pause nightly --reason=": ("a reason is needed", "whoever looks at the record reads it"),
    "cancel JOB --reason=": ("a reason is needed", "whoever looks at the record reads it"),
    "deadletter replay --all --reason=": ("a reason is needed", "whoever looks at the record reads it"),
    "metrics --output .": ("cannot write .: it is a folder", "name a file"),
    "top": ("there is none", "aijobs stats shows it once"),
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_input_is_told_in_one_line_with_what_to_do(run_bare: CommandLine, line: str) -> None:
    run_bare("db", "upgrade")
    said, to_do = WRONG[line]

    result = run_bare(*line.split())

    error, hint = result.err.splitlines()
    assert (result.code, result.out) == (2, "")
    assert error.startswith("error: ")
    assert said in error
    assert hint == f"hint: {to_do}"


def test_an_option_given_twice_is_refused_rather_than_the_last_one_taken(run_bare: CommandLine) -> None:
    result = run_bare("inspect", "--limit", "5", "--limit", "500", "--json")

    assert result.code == 2
    assert result.json["error"]["message"] == "--limit is given more than once"


def test_an_option_that_takes_several_values_may_be_repeated(run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--status", "pending", "--status", "failed")

    assert result.code == 0


@pytest.mark.parametrize(
    "args",
    [("--json", "inspect"), ("inspect", "--json"), ("--json", "inspect", "--json")],
    ids=["before", "after", "both"],
)
def test_a_global_option_may_stand_before_and_after_the_command(
    args: tuple[str, ...], run_cli: CommandLine
) -> None:
    result = run_cli(*args)

    assert result.code == 0
    assert result.json == {"jobs": [], "next_cursor": None}


def test_two_different_databases_on_one_line_are_refused(run_bare: CommandLine) -> None:
    result = run_bare("--database", "sqlite:///a.db", "inspect", "--database", "sqlite:///b.db")

    assert result.code == 2
    assert "--database is given twice, with different values" in result.err


def test_quiet_and_verbose_contradict_each_other(run_bare: CommandLine) -> None:
    result = run_bare("inspect", "-q", "-v")

    assert result.code == 2
    assert "contradict" in result.err


def test_the_flag_beats_the_environment_and_that_beats_the_file(
    run_bare: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "aijobs.yaml").write_text("database: sqlite:///file.db\n")
    environ = {"AIJOBS_DATABASE": "sqlite:///environment.db"}

    run_bare("enqueue", "demo", "--database", "sqlite:///flag.db", environ=environ)
    run_bare("enqueue", "demo", environ=environ)
    run_bare("enqueue", "demo")

    assert {path.name for path in tmp_path.glob("*.db")} == {"flag.db", "environment.db", "file.db"}


@pytest.mark.parametrize(
    "args",
    [
        ("inspect", "--type", "de\udcff"),
        ("inspect", "--user", "\udcff"),
        ("inspect", "--after", "\udcff"),
        ("inspect", "job-\udcff"),
        ("cancel", "job", "job-\udcff", "--reason", "not needed", "--yes"),
        ("deadletter", "list", "--user", "\udcff"),
        ("enqueue", "demo", "--user", "\udcff"),
        ("pause", "--reason", "\udcff"),
    ],
)
def test_bytes_that_are_no_text_are_refused_before_any_store_is_asked(
    args: tuple[str, ...], run_cli: CommandLine
) -> None:
    result = run_cli(*args)

    assert result.code == 2
    assert "bytes that are not UTF-8 text (U+DCFF)" in result.err


def test_a_file_may_have_any_name(run_cli: CommandLine) -> None:
    Path("input-\udcff.json").write_text('{"n": 1}')

    assert run_cli("enqueue", "demo", "--input-file", "input-\udcff.json").code == 0


@pytest.mark.parametrize(
    "command_words", [("inspect",), ("sweep",), ("deadletter", "list"), ("deadletter", "replay", "--preview")]
)
def test_a_limit_beyond_what_a_database_can_count_is_refused(
    command_words: tuple[str, ...], run_cli: CommandLine
) -> None:
    result = run_cli(*command_words, "--limit", "9" * 20)

    assert result.code == 2
    assert "1000000000" in result.err


def test_words_after_two_dashes_are_never_options(run_cli: CommandLine) -> None:
    result = run_cli("inspect", "--", "--json")

    assert result.code == 3
    assert "no job --json" in result.err


def test_an_unforeseen_error_is_one_line_without_its_text(
    run_cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError("the input was sk-demo-0123456789abcdef")

    monkeypatch.setattr(inspect_command, "_list", explode)

    result = run_cli("inspect", "--json")

    assert result.code == 1
    assert result.json["error"]["kind"] == "internal"
    assert "RuntimeError" in result.json["error"]["message"]
    assert "-v" in result.json["error"]["hint"]
    assert "sk-demo" not in result.out + result.err
    assert len(result.err.splitlines()) == 2


def test_a_verbose_unforeseen_error_shows_where_it_comes_from_and_no_key(
    run_cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError("the key was sk-demo-0123456789abcdef")

    monkeypatch.setattr(inspect_command, "_list", explode)

    result = run_cli("inspect", "-v")

    assert result.code == 1
    assert "Traceback" in result.err
    assert "sk-demo-0123456789abcdef" not in result.err


def test_an_interrupt_is_reported_and_gives_130(
    run_cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect_command, "_list", interrupt)

    result = run_cli("inspect", "--json")

    assert result.code == 130
    assert result.json["error"]["kind"] == "interrupted"


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    line = CommandLine(database=f"sqlite:///{tmp_path / 'jobs.db'}")
    jobs = "".join('{"type": "demo"}\n' for _ in range(3000))
    line.process("enqueue", "--jsonl", "-", stdin=jobs.encode())

    process = subprocess.Popen(
        command("inspect", "--limit", "3000"),
        env=line.process_environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()

    assert process.wait() == 128 + signal.SIGPIPE
    assert said == b""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("aijobs enq", ["enqueue"]),
        ("aijobs inspect --statu", ["--status"]),
        ("aijobs db u", ["upgrade"]),
        ("aijobs inspect --status pe", ["pending"]),
        ("aijobs --config team.yaml enqueue tra", ["translate"]),
        ("aijobs --config none.yaml enqueue tra", []),
    ],
)
def test_a_shell_completes_commands_options_and_values(
    words: str, offered: list[str], run_bare: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "team.yaml").write_text("types: {translate: {provider: simulator}}\n")
    environ = {
        "_AIJOBS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip

    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'aijobs'; import aijobs.__main__ as m; m.main()"],
        env=run_bare.process_environ(environ), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout.split(), done.stderr) == (0, offered, "")


@pytest.mark.parametrize(
    ("path", "name", "offered"),
    [
        (("inspect",), "type_name", ["translate"]),
        (("pause",), "types", ["translate"]),
        (("provider", "hold"), "name", ["team"]),
        (("schedule", "pause"), "name", ["tonight"]),
        (("drill",), "name", []),
    ],
    ids=str,
)
def test_names_out_of_the_configuration_are_offered_to_a_shell(
    path: tuple[str, ...], name: str, offered: list[str], tmp_path: Path
) -> None:
    (tmp_path / "aijobs.yaml").write_text(
        "types: {translate: {provider: team}}\nproviders: {team: {kind: simulator}}\n"
        "schedules: {tonight: {cron: '0 2 * * *', timezone: UTC, type: translate}}\n"
    )
    loaded: Any = load(path[-1], _entry(path))
    param = next(one for one in loaded.params if one.name == name)
    context = Context(environ={"AIJOBS_CONFIG": str(tmp_path / "aijobs.yaml")})
    ctx: Any = type("Ctx", (), {"obj": context})()

    assert [item.value for item in param.shell_complete(ctx, "t")] == offered
