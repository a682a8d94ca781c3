"""What the README tells people to type is typed here, with the simulator in place of a provider."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, MetaData, Table, Text, create_engine, func, insert, select

from aijobs.cli.app import COMMANDS
from tests.support.command_line import CommandLine, command, parse
from tests.support.documents import named, text_of, typed

README = text_of(Path("README.md"))
HANDBOOK = text_of(Path("docs/operations.md"))
FAILING = "providers: {p: {kind: simulator, fault: '503'}}\ntypes: {summarize: {provider: p}}\n"


def block(name: str) -> str:
    """The shell block of the README that carries that name."""
    found = re.search(rf"<!-- command: {name} -->\n```bash\n(.*?)```", README, re.DOTALL)
    assert found, name
    return found[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to type in, whose path has a blank."""
    made = tmp_path / "a folder"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def worker(folder: Path) -> Iterator[Any]:
    """Starts a worker in the folder when it is called."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        environ = CommandLine(database=None).process_environ()
        started.append(subprocess.Popen(command("worker", "-q"), env=environ, cwd=folder))

    yield start
    for process in started:
        process.terminate()
        process.wait(20)


def test_the_tour_runs_line_by_line_in_a_shell(folder: Path) -> None:
    program = folder / "bin" / "aijobs"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m aijobs "$@"\n')
    program.chmod(0o755)
    environ = CommandLine(database=None).process_environ() | {
        "PATH": f"{program.parent}:{os.environ['PATH']}"
    }
    tour = block("tour").replace("--provider openai", "--provider simulator")

    done = subprocess.run(["bash", "-euc", tour], env=environ, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "no faults" in done.stdout
    assert re.search(r"summarize +ana +succeeded", done.stdout)


def test_the_night_runs_line_by_line(folder: Path, worker: Any) -> None:
    run = CommandLine(database=None)
    (folder / "aijobs.yaml").write_text(FAILING)
    ids = {"JOB": run("enqueue", "summarize", "--json", "--max-attempts", "1").json["id"]}
    run("worker", "--drain", "-q")
    run("provider", "reset", "p", "--reason", "over")
    (folder / "aijobs.yaml").write_text(FAILING.replace(", fault: '503'", ""))
    worker()

    for words in typed(block("night")):
        asked = [ids.get(word, word) for word in words]
        done = run(*asked, terminal=True, stdin="y\n")

        assert done.code in (0, 1), (words, done.err)
        if "--preview" in words:
            ids["PLAN"] = str(re.search(r"--plan (\S+)", done.err)[1])  # type: ignore[index]
    assert run("inspect", ids["JOB"], "--json").json["job"]["status"] == "succeeded"


def test_the_python_example_runs(folder: Path, worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "aijobs.yaml").write_text("types: {summarize: {provider: simulator}}\n")
    url = f"sqlite:///{folder / 'aijobs.db'}"
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found
    code = found[1].replace("postgresql://app@db/app", url).replace("values(...)", "values(text='hello')")
    CommandLine(database=None)("db", "upgrade")
    engine = create_engine(url)
    notes = Table("notes", MetaData(), Column("text", Text))
    notes.create(engine)
    worker()

    names: dict[str, Any] = {"engine": engine, "notes": notes, "insert": insert}
    exec(code, names)

    with engine.begin() as connection:
        assert connection.execute(select(func.count()).select_from(notes)).scalar_one() == 1
    names["jobs"].close()
    engine.dispose()
    assert CommandLine(database=None)("inspect", "--json").json["jobs"][0]["type"] == "summarize"


def _shown(text: str) -> list[str]:
    """Every command in the shell blocks and in the prose of *text*."""
    return [shlex.join(["aijobs", *words]) for words in named(text) if words[-1:] != ["..."]]


@pytest.mark.parametrize("line", dict.fromkeys(_shown(README) + _shown(HANDBOOK)))
def test_every_line_that_is_shown_is_a_command(line: str) -> None:
    parse(line)


def test_every_line_with_an_option_in_the_table_of_the_readme_is_a_whole_command() -> None:
    table = README[README.index("| to | type |") : README.index("Each has `--help`")]
    lines = [line for line in re.findall(r"`([^`]+)`", table) if re.match(r"[a-z].* --", line)]

    assert lines
    for line in lines:
        parse(f"aijobs {line}")


def test_every_command_is_in_the_table_of_the_readme_and_every_one_there_exists() -> None:
    table = README[README.index("| to | type |") : README.index("Each has `--help`")]
    named = [shlex.split(words)[0] for words in re.findall(r"`([^`]+)`", table) if not words.startswith("-")]

    assert set(named) - set(COMMANDS) == set()
    assert set(COMMANDS) - set(named) - {"schedule", "doctor"} == set()
