"""Mistakes and misfortune in the place of the store: one clear line, exit 5, and no file left behind."""

import os
import resource
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aijobs.cli.app import COMMANDS
from aijobs.cli.command import Entry
from tests.support.command_line import CommandLine, command
from tests.support.people import ordinary_user

_JOB = "019b76da-a800-720a-ab04-5c4a06fa9400"
_WHY = ("--reason", "r")

MAKERS = {("enqueue", "demo"), ("worker", "--drain"), ("db", "upgrade"), ("serve", "--port", "0")}
READERS = {
    "inspect": (),
    "cancel": (_JOB, *_WHY),
    "sweep": (),
    "db check": (),
    "tick": (),
    "schedule pause": ("nightly", *_WHY),
    "schedule resume": ("nightly", *_WHY),
    "retry": (_JOB, *_WHY),
    "deadletter list": (),
    "deadletter show": (_JOB,),
    "deadletter replay": ("--all", "--preview"),
    "deadletter replays": (),
    "deadletter abort": (_JOB, *_WHY),
    "deadletter close": (_JOB, *_WHY),
    "prune": ("--preview",),
    "provider list": (),
    "provider show": ("simulator",),
    "provider reset": ("simulator", *_WHY),
    "provider hold": ("simulator", *_WHY),
    "pause": ("demo", *_WHY),
    "resume": ("demo", *_WHY),
    "switch list": (),
    "switch set": ("stale-results", "demo", "on", *_WHY),
    "stats": (),
    "alerts": (),
    "metrics": (),
    "result": ("--type", "demo", "--user", "ana"),
    "shadow report": ("demo",),
    "top": (),
}
"""Commands that work on a store that is there, with what each needs to get as far as opening it."""

WITHOUT = {
    "config check", "config show", "config schema", "config init", "schedule preview", "demo", "simulate",
    "alerts rules", "dashboard",
    "drill",  # a store of its own unless --database names one; see test_drill
    "schedule list",  # without schedules there is nothing to look up; makes no store either way
    "doctor", "diagnose",  # report a missing store as a finding
    "webhook ingest",  # wants a provider with a secret before it looks for the store; see test_webhook
}  # fmt: skip
"""Commands that open no store, or tell of it in another way."""


def _leaves(entries: Mapping[str, Entry], path: str = "") -> Iterator[str]:
    for name, entry in entries.items():
        full = f"{path} {name}".strip()
        if entry.target:
            yield full
        yield from _leaves(entry.commands, full)


def test_every_command_is_looked_at_here() -> None:
    makers = {" ".join(args[:2] if args[0] == "db" else args[:1]) for args in MAKERS}

    assert set(_leaves(COMMANDS)) - READERS.keys() - WITHOUT - makers == set()


readers = pytest.mark.parametrize(
    "args",
    [
        pytest.param((*name.split(), *rest), id=name)
        for name, rest in READERS.items()
        if name in set(_leaves(COMMANDS))
    ],
)


@readers
@pytest.mark.parametrize(
    "url", ["sqlite:///jbos.db", "sqlite:///missing/jobs.db", "sqlite:///folder", "sqlite:///~/x.db"]
)
def test_a_typing_mistake_in_the_path_leaves_no_file(
    args: tuple[str, ...], url: str, run_bare: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "folder"))
    before = sorted(tmp_path.rglob("*"))

    result = run_bare(*args, database=url)

    assert result.code == 5
    assert result.out == ""
    assert str(tmp_path) in result.err.splitlines()[0]
    assert len(result.err.splitlines()) <= 2
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_configuration_the_wrong_folder_is_named_as_the_likely_cause(run_bare: CommandLine) -> None:
    here = run_bare("inspect")
    there = run_bare("inspect", database="sqlite:///other.db")

    assert (here.code, there.code) == (5, 5)
    assert "hint: there is no aijobs.yaml here, see --config; or check the path" in here.err
    assert "aijobs.yaml" not in there.err


@readers
def test_an_empty_file_is_no_store_and_stays_empty(
    args: tuple[str, ...], run_bare: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()

    result = run_bare(*args, database="sqlite:///notes.txt")

    assert (result.code, result.out) == (5, "")
    assert "notes.txt: the file is empty" in result.err.splitlines()[0]
    assert [(one.name, one.stat().st_size) for one in tmp_path.iterdir()] == [("notes.txt", 0)]


@pytest.mark.parametrize("url", ["sqlite:///missing/jobs.db", "sqlite:///folder"])
@pytest.mark.parametrize("args", sorted(MAKERS), ids=" ".join)
def test_commands_that_make_a_store_make_no_folder_and_replace_none(
    args: tuple[str, ...], url: str, run_bare: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))

    result = run_bare(*args, database=url)

    assert result.code == 5
    assert sorted(tmp_path.rglob("*")) == before


def test_enqueue_makes_a_store_and_says_where(run_bare: CommandLine, tmp_path: Path) -> None:
    result = run_bare("enqueue", "demo")

    assert result.code == 0
    assert f"created the job store {tmp_path / 'aijobs.db'}" in result.err
    assert (tmp_path / "aijobs.db").exists()


def test_a_job_that_is_refused_makes_no_store(run_bare: CommandLine, tmp_path: Path) -> None:
    single = run_bare("enqueue", "demo", "--input", "[]")
    many = run_bare("enqueue", "--jsonl", "-", stdin="broken\n")

    assert (single.code, many.code) == (2, 2)
    assert list(tmp_path.iterdir()) == []


def test_the_second_enqueue_says_nothing_about_the_store(run_fresh: CommandLine) -> None:
    first, second = run_fresh("enqueue", "demo"), run_fresh("enqueue", "demo")

    assert "created the job store" in first.err
    assert "created" not in second.err
    assert second.code == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("jobs.db", "not a database URL: jobs.db"),
        ("mysql://localhost/jobs", "a job store is SQLite or PostgreSQL"),
        ("sqlite:///:memory:", "must be a file"),
        ("postgres:/host", ""),
    ],
)
def test_a_url_that_makes_no_sense_is_a_usage_error(
    url: str, said: str, run_bare: CommandLine, tmp_path: Path
) -> None:
    result = run_bare("inspect", database=url)

    assert result.code in (2, 5)
    assert said in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_one_line_without_the_password(run_bare: CommandLine) -> None:
    url = "postgresql://jobs:sk-demo-0123456789abcdef@127.0.0.1:1/jobs"

    result = run_bare("inspect", "--json", "-v", database=url)

    assert result.code == 5
    assert result.json["error"]["kind"] == "store_unreachable"
    assert "sk-demo" not in result.out + result.err


def test_a_file_that_is_no_database_is_left_alone(run_bare: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("shopping list\n" * 100)

    for args in (("inspect",), ("enqueue", "demo"), ("worker", "--drain"), ("db", "upgrade"), ("sweep",)):
        result = run_bare(*args, database=f"sqlite:///{path}")
        assert result.code == 5, args
        assert "Traceback" not in result.err
        assert len(result.err.splitlines()) <= 2

    assert path.read_text() == "shopping list\n" * 100


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that the ordinary user can get to."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o755)
    yield tmp_path
    for path in tmp_path.iterdir():
        path.chmod(0o755)


def test_a_read_only_file_is_one_clear_line(run_bare: CommandLine, open_folder: Path) -> None:
    run_bare("enqueue", "demo")
    (open_folder / "aijobs.db").chmod(0o444)

    with ordinary_user():
        result = run_bare("enqueue", "demo", "--json")

    assert result.code == 5
    assert "cannot be written" in result.json["error"]["message"]
    assert str(open_folder / "aijobs.db") in result.json["error"]["message"]


def test_a_store_of_another_version_is_refused_with_a_hint(run_cli: CommandLine) -> None:
    from aijobs.store.engine import open_store
    from aijobs.store.tables import schema_version

    assert run_cli.database is not None
    store = open_store(run_cli.database)
    before = _stamp(store, schema_version, "9999")
    try:
        result = run_cli("inspect", "--json")
    finally:
        _stamp(store, schema_version, before)
        store.close()

    assert result.code == 5
    assert result.json["error"]["kind"] == "schema_mismatch"
    assert result.json["error"]["hint"]


def _stamp(store: object, table: object, version: str) -> str:
    from sqlalchemy import select, update

    with store.write() as tx:  # type: ignore[attr-defined]
        before: str = tx.execute(select(table.c.version_num)).scalar_one()  # type: ignore[attr-defined]
        tx.execute(update(table).values(version_num=version))  # type: ignore[arg-type]
    return before


@pytest.mark.postgres
def test_a_wrong_password_is_one_clear_line(run_bare: CommandLine, postgres_server: object) -> None:
    url = postgres_server.url_of(user="guarded:wrong-sk-demo-0123")  # type: ignore[attr-defined]

    result = run_bare("inspect", "--json", database=url)

    assert result.code == 5
    assert "wrong-sk-demo" not in result.out + result.err


def test_a_disk_without_room_is_one_clear_line_and_takes_nothing(
    run_bare: CommandLine, tmp_path: Path
) -> None:
    line = CommandLine(database=f"sqlite:///{tmp_path / 'jobs.db'}")
    line.process("db", "upgrade")
    jobs = "".join(
        f'{{"type": "demo", "input": {{"n": {n}, "text": "{"x" * 1000}"}}}}\n' for n in range(2000)
    )
    room = (1 << 20, 1 << 20)  # bytes a file may have: less than the jobs need

    done = subprocess.run(
        command("enqueue", "--jsonl", "-", "--json"),
        input=jobs.encode(), capture_output=True, check=False,
        env=line.process_environ() | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, room),
    )  # fmt: skip

    said = done.stderr.decode()
    assert done.returncode == 5, said
    assert "Traceback" not in said
    assert len(said.splitlines()) == 2
    assert str(tmp_path / "jobs.db") in said
    assert line.process("inspect", "--json").json == {"jobs": [], "next_cursor": None}
    assert line.process("enqueue", "demo").code == 0
