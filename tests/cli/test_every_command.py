"""Walks over every command there is: what each of them does the same way, and a new one has to do as well."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from aijobs.cli.app import build
from aijobs.cli.plain import width
from aijobs.cli.printer import Printer
from aijobs.store.engine import open_store
from aijobs.store.tables import metadata
from tests.support.command_line import CommandLine
from tests.support.documents import missing
from tests.support.every_command import ASKED, ELSEWHERE, PREVIEWED, Typist, commands
from tests.support.staged_store import Staged, stage

NO_JSON: Mapping[str, str] = {"top": "draws a picture again and again; aijobs stats is the same as data"}
"""Commands without JSON, and why."""

EMPTY = (
    "inspect", "deadletter list", "deadletter replays", "switch list", "provider list", "schedule list",
    "stats", "stats --by user", "metrics", "alerts", "diagnose", "shadow report demo", "sweep", "tick",
    "prune --yes", "deadletter replay --all --preview", "deadletter close --all --yes --reason x",
    "worker --drain", "pause demo --preview --reason x",
)  # fmt: skip
"""What is asked of a store in which there is nothing."""

ONE_AT_A_TIME = frozenset({
    "enqueue",  # makes jobs and changes none; a file of them is checked as a whole before any is made
    "worker", "serve", "simulate", "demo", "drill",  # what they are for is to act
    "retry", "schedule pause", "schedule resume", "deadletter abort", "webhook ingest",  # one thing, by name
    "db upgrade",  # `db check` is what would be upgraded
    "alerts",  # tells people; of the store it changes what was told
    "config init",  # a new file
})  # fmt: skip
"""Commands that change something, but not many things at once."""

READING = frozenset({
    "inspect", "diagnose", "stats", "metrics", "top", "dashboard", "doctor", "result", "alerts rules",
    "schedule preview", "schedule list", "switch list", "provider list", "provider show", "shadow report",
    "deadletter list", "deadletter show", "deadletter replays", "config check", "config show",
    "config schema", "db check",
})  # fmt: skip
"""Commands that change nothing."""

LONG = (
    "供应商的服务中断，等待恢复🎉，" * 4
    + "until somebody who knows has looked at it and said that it is well again"
)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    """The staged store, with jobs, switches and reasons in Chinese beside, on 80 columns and no terminal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("staged"))
        patch.setenv("NO_COLOR", "1")
        made = stage(Path(), columns=80)
        run = made.run
        dead = run("enqueue", "summarize", "--user", "安娜🎉" * 5, "--key", "k", "--json").json["id"]
        run("worker", "--drain", "-q")
        run("provider", "hold", "openai", "--reason", LONG)
        run("enqueue", "translate", "--user", "安娜🎉", "--priority", "-9")
        run("pause", "--below-priority", "-5", "--reason", LONG, "--actor", "安娜🎉")
        run("switch", "set", "stale-results", "translate", "on", "--reason", LONG)
        run("deadletter", "close", dead, "--reason", LONG)
        plan = run("deadletter", "replay", "--all", "--preview", "--json").json["plan"]
        run("deadletter", "abort", plan, "--reason", LONG)
        yield made


def test_every_command_is_walked_over() -> None:
    assert set(commands()) - ASKED.keys() - ELSEWHERE.keys() - NO_JSON.keys() == set()
    assert missing(" ".join(f"`{test}`" for test in ELSEWHERE.values())) == []


@pytest.mark.parametrize("name", NO_JSON)
def test_a_command_without_json_says_so_in_json(name: str, run_bare: CommandLine) -> None:
    done = run_bare(*name.split(), "--json")

    assert (done.code, done.json["error"]["kind"]) == (2, "usage")


def test_of_an_empty_store_each_says_nothing_in_one_document(run_cli: CommandLine) -> None:
    done = {line: run_cli(*line.split(), "--json") for line in EMPTY}

    assert {line: one.err for line, one in done.items() if one.code} == {}
    for one in done.values():
        assert isinstance(one.json, dict)
        assert one.out.count("\n") == 1


# --- Previews -------------------------------------------------------------------------------------


def _options(name: str) -> set[str]:
    group: Any = build()
    for word in name.split():
        group = group.commands[word]
    return {option for param in group.params for option in param.opts}


def test_every_command_that_changes_many_things_has_a_preview() -> None:
    previewed = {name for name in commands() if "--preview" in _options(name)}

    assert previewed == PREVIEWED.keys()
    assert set(commands()) - previewed - READING - ONE_AT_A_TIME == set()
    assert previewed & (READING | ONE_AT_A_TIME) == set()


def _tables(line: CommandLine) -> dict[str, list[Any]]:
    """Everything in the store, by table; but plans, which a preview of a replay stores."""
    store = open_store("sqlite:///aijobs.db")
    with store.read() as tx:
        found = {
            table.name: list(tx.execute(select(table)).all())
            for table in metadata.sorted_tables
            if table.name not in ("replays", "replay_items")
        }
    store.close()
    return found


def test_a_preview_changes_nothing(staged: Staged) -> None:
    ask = Typist(staged)
    before = _tables(staged.run)

    done = {line: ask(line) for line in PREVIEWED.values()}

    assert {line: one.err for line, one in done.items() if one.code not in (0, 1)} == {}
    assert all(one.out for one in done.values())
    assert _tables(staged.run) == before


# --- 80 columns -----------------------------------------------------------------------------------


def test_on_80_columns_no_table_is_wider_and_no_id_is_cut(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    for writes in ("line", "raw", "body"):  # sentences and texts of another format, which are no tables
        monkeypatch.setattr(Printer, writes, lambda *_, **__: None)
    ask = Typist(staged)

    shown = {line: ask(line).out for line in (*PREVIEWED.values(), *ASKED.values())}

    rows = {line: [row for row in out.splitlines() if width(row) > 80] for line, out in shown.items()}
    assert {line: wide for line, wide in rows.items() if wide} == {}
    assert "\x1b" not in "".join(shown.values())
    for line in ("inspect", "inspect DEAD", "deadletter list", "deadletter close --all --preview --reason x"):
        assert staged.dead in shown[line]
    for plan in staged.run("deadletter", "replays", "--json").json["replays"]:
        assert plan["replay"] in shown["deadletter replays"]
