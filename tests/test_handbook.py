"""What docs/operations.md tells people to type is typed here; its units and roles are tried."""

import configparser
import re
import shlex
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from aijobs.core.alerts import DEFINITIONS, prometheus_rules
from aijobs.core.settings import Settings
from tests.support.command_line import CommandLine, parse
from tests.support.documents import blocks, text_of, typed
from tests.support.postgres import Server
from tests.support.staged_store import Staged, stage

TEXT = text_of(Path("docs/operations.md"))
PROGRAM = "/opt/aijobs/bin/aijobs"
# They run for ever, or wait for a worker beside them; test_readme.py and cli/test_replay.py do that.
NOT_TYPED = (("worker",), ("deadletter", "replay", "--resume"), ("deadletter", "replay", "--plan"))


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("a handbook")
        patch.chdir(folder)
        yield stage(folder)


@pytest.mark.parametrize("block", blocks(TEXT, "bash"), ids=lambda block: block.splitlines()[0][:40])
def test_every_shell_block_runs_line_by_line(block: str, staged: Staged) -> None:
    for line in block.splitlines():
        for words in typed(line):
            if not any(tuple(words[: len(one)]) == one for one in NOT_TYPED):
                asked = [staged.dead if word == "JOB" else word for word in words]
                done = staged.run(*asked, terminal=True, stdin="y\n")
                assert done.code in (0, 1), (line, done.err)
        if line.startswith("sqlite3 "):
            _, file, statement = shlex.split(line)
            with sqlite3.connect(file) as connection:
                connection.execute(statement)
            connection.close()


def test_the_copy_of_the_store_is_whole_and_has_the_jobs(staged: Staged) -> None:
    Path("aijobs-backup.db").unlink(missing_ok=True)
    backup = next(block for block in blocks(TEXT, "bash") if "VACUUM" in block)

    test_every_shell_block_runs_line_by_line(backup, staged)

    found = staged.run("inspect", staged.dead, "--json", database="sqlite:///aijobs-backup.db")
    assert found.json["job"]["id"] == staged.dead


def test_no_program_stands_in_a_shell_block_that_the_tests_do_not_type() -> None:
    lines = [line for block in blocks(TEXT, "bash") for line in block.splitlines()]

    programs = {next(word for word in shlex.split(line) if "=" not in word) for line in lines}
    assert programs == {"aijobs", "sqlite3", "umask"}


def _units() -> dict[str, configparser.ConfigParser]:
    found = {}
    for body in blocks(TEXT, "ini"):
        name = re.match(r"# /etc/systemd/system/(\S+)", body)
        assert name, body
        found[name[1]] = configparser.ConfigParser(interpolation=None)
        found[name[1]].optionxform = str  # type: ignore[assignment,method-assign]
        found[name[1]].read_string(body)
    return found


def test_the_units_call_commands_that_exist_and_belong_together() -> None:
    units = _units()

    calls = [unit["Service"]["ExecStart"] for unit in units.values() if "Service" in unit]
    assert len(calls) == 3
    for call in calls:
        parse(call.replace(PROGRAM, "aijobs").replace("%H-%i", "host-1"))
    assert "aijobs-metrics.service" in units  # what the timer of that name starts
    assert units["aijobs-metrics.timer"]["Timer"]["OnCalendar"] == "minutely"
    assert int(units["aijobs-worker@.service"]["Service"]["TimeoutStopSec"]) > 30  # the grace


def test_the_lines_of_cron_call_commands_that_exist() -> None:
    (table,) = blocks(TEXT, "cron")

    calls = [line for line in table.splitlines() if PROGRAM in line]
    assert len(calls) == 4
    for line in calls:
        fields = line.split(None, 6)
        assert fields[5:6] == ["aijobs"]  # the user
        parse("aijobs " + fields[6].removeprefix(PROGRAM).split("2>&1")[0])


def test_every_alert_has_a_row_with_its_two_names_and_what_to_type() -> None:
    names = [rule["alert"] for rule in prometheus_rules(Settings.model_validate({}))["groups"][0]["rules"]]  # type: ignore[index]
    wanted = {f"`{one.name}`<br>`{name}`" for one, name in zip(DEFINITIONS, names, strict=True)}

    rows = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if "<br>`Aijobs" in line]
    assert {row[0] for row in rows} == wanted
    assert all(len(row) == 5 and "`aijobs " in row[2] for row in rows)


@pytest.fixture
def roles(own_server: Server) -> Iterator[tuple[Server, str]]:
    """A server with the two roles of the handbook, under names of this test's own."""
    mark = uuid.uuid4().hex[:8]
    statements = next(block for block in blocks(TEXT, "sql") if "CREATE ROLE" in block)
    statements = re.sub(r"\baijobs(?=_owner\b|\b)", f"aijobs_{mark}", statements)
    own_server.execute(*(one for one in statements.split(";") if one.strip()))
    yield own_server, f"aijobs_{mark}"
    for name in (f"aijobs_{mark}_owner", f"aijobs_{mark}"):
        own_server.execute(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@pytest.mark.postgres
def test_a_role_that_owns_no_table_can_do_all_but_upgrade(
    roles: tuple[Server, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server, name = roles
    owner, user = server.url_of(user=f"{name}_owner"), server.url_of(user=name)
    run = CommandLine(database=user)
    tuning = next(block for block in blocks(TEXT, "sql") if "autovacuum" in block)

    made = run("db", "upgrade", database=owner)
    enqueued = run("enqueue", "demo", "--json")
    drained = run("worker", "--drain", "-q")
    pruned = run("prune", "--yes")
    server.execute(f"SET search_path = {name}; {tuning}")

    done = (made, enqueued, drained, pruned)
    assert [one.code for one in done] == [0, 0, 0, 0], [one.err for one in done]
    assert run("inspect", enqueued.json["id"], "--json").json["job"]["status"] == "succeeded"
    assert run("db", "check").code == 0
