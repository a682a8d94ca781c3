"""Shells are taught to complete: by a script that works, for the shell meant, where it can be written."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from aijobs.cli import completion
from tests.support.command_line import CommandLine


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program as a file that a shell can run."""
    made = tmp_path / "aijobs"
    made.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m aijobs "$@"\n')
    made.chmod(0o755)
    return made


def test_bash_completes_a_command_by_the_script_that_is_shown(run_bare: CommandLine, program: Path) -> None:
    shown = run_bare("--show-completion", "bash")
    typed = f"COMP_WORDS=(aijobs dead) COMP_CWORD=1; _aijobs_completion {program}; echo ${{COMPREPLY[*]}}"

    done = subprocess.run(
        ["bash", "-c", f"{shown.out}\n{typed}"],
        env=run_bare.process_environ(), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (shown.code, done.returncode, done.stderr) == (0, 0, "")
    assert done.stdout == "deadletter\n"


def test_the_script_is_for_the_shell_that_is_named_or_else_for_the_one_that_runs_this(
    run_bare: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: "fish")

    assert run_bare("--show-completion").out == completion.script("fish")
    assert run_bare("--show-completion", "zsh").out.startswith("#compdef aijobs\n")
    assert {name for name in completion.SHELLS if "aijobs" in completion.script(name)} == set(
        completion.SHELLS
    )


@pytest.mark.parametrize("detected", ["tcsh", None])
def test_a_shell_that_is_not_known_is_refused_with_those_that_are(
    detected: str | None, run_bare: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: detected)

    for args in (("--show-completion",), ("--show-completion", "tcsh"), ("--install-completion", "--json")):
        done = run_bare(*args)

        assert done.code == 2
        assert "bash, zsh, fish" in done.err


def test_zsh_completes_when_it_loads_the_installed_file_not_only_from_then_on(
    run_bare: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    done = run_bare("--install-completion", "zsh")

    assert (done.code, done.out) == (0, "")
    installed = (tmp_path / ".zfunc" / "_aijobs").read_text()
    assert installed == completion.script("zsh")
    assert '$funcstack[1] == _aijobs ]]; then\n  _aijobs_completion "$@"' in installed


def test_a_home_that_cannot_be_written_is_one_clear_error(
    run_bare: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    done = run_bare("--install-completion", "fish")

    assert (done.code, done.err.splitlines()[0][:20]) == (2, "error: cannot write ")
