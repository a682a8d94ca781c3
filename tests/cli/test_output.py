"""What becomes of the output when nobody takes it, and how a bug is shown."""

import subprocess
from pathlib import Path

import pytest

from aijobs.cli import inspect_command
from tests.support.command_line import CommandLine, command


def _run(line: CommandLine, redirect: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run `aijobs ARGS...` by a shell that redirects as *redirect* says."""
    shell = ["sh", "-c", f'exec "$@" {redirect}', "sh", *command(*args)]
    return subprocess.run(shell, env=line.process_environ(), capture_output=True, text=True, check=False)


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    """The command line as a program of its own, on a store with a few jobs."""
    made = CommandLine(database=f"sqlite:///{tmp_path / 'jobs.db'}")
    made("enqueue", "--jsonl", "-", stdin='{"type": "demo"}\n' * 400)
    return made


@pytest.mark.parametrize("limit", ["1", "400"])
def test_a_full_disk_behind_the_output_is_one_clear_error(line: CommandLine, limit: str) -> None:
    done = _run(line, ">/dev/full", "inspect", "--limit", limit, "-q")

    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: cannot write to standard output: No space left on device"
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_fills_up_in_the_middle_of_the_output_is_an_error_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    """What a short write leaves over is dropped by Python's own streams without a buffer."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    out = tmp_path / "out"
    words = ["sh", "-c", f'ulimit -f 8; exec "$@" >{out}', "sh", *command("config", "schema")]

    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "error: cannot write to standard output: File too large" in done.stderr


@pytest.mark.parametrize("redirect", [">&-", "2>&- >/dev/null", ">&- 2>&-"])
def test_a_stream_that_the_caller_has_closed_is_written_to_by_nobody(
    line: CommandLine, redirect: str
) -> None:
    done = _run(line, redirect, "inspect", "--limit", "400", "-q")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("enqueue", "demo", "-"), 2, "standard input: is empty"),
        (("enqueue", "--jsonl", "-"), 0, "there was no line to enqueue"),
        (("prune", "--yes"), 0, ""),
        (("config", "init"), 2, "There is no terminal to ask on."),
    ],
)
def test_an_input_that_the_caller_has_closed_is_an_empty_one(
    args: tuple[str, ...], code: int, said: str, line: CommandLine
) -> None:
    done = _run(line, "<&-", *args)

    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "bug" not in done.stderr


def test_a_traceback_has_its_lines(run_cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(inspect_command, "_list", explode)

    result = run_cli("inspect", "-v")

    assert "Traceback (most recent call last):" in result.err.splitlines()
    assert any(row.startswith('  File "') for row in result.err.splitlines())
