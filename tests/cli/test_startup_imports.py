"""What the shortest commands may load: each name more is time that every call takes.

`python -m tests.benchmarks startup` says how long they take.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support.command_line import ROOT

OURS = {
    "--help": {
        "cli": {
            "app", "command", "completion", "context", "options", "plain", "printer", "program", "progress"
        },
        "core": {"clock", "errors"},
        "services": {"surroundings"},
    },
    "tick": {
        "cli": {"tick_command", "words"},
        "core": {
            "config", "cron", "crontab", "durations", "model", "payload", "settings", "signing_key",
            "strict_json", "ticking", "wallclock",
        },
        "services": {"scheduler", "tick_report"},
        "store": {
            "dialect", "engine", "postgresql", "schedules", "schema", "sqlite", "tables", "translate",
            "write_lock",
        },
    },
    "enqueue": {
        "cli": {"enqueue_command", "inputs", "words"},
        "core": {
            "config", "durations", "ids", "lifecycle", "limits", "model", "payload", "settings",
            "signing_key", "strict_json", "trace_context",
        },
        "services": {"coordinator", "shapes", "submission"},
        "services.coordinator": {"admission", "backlog", "coordinator", "machinery", "steps", "values"},
        "store": {
            "arrays", "attempts", "bulk", "claims", "dialect", "engine", "history", "intake", "jobs", "line",
            "moves", "postgresql", "schema", "sqlite", "tables", "translate", "wake", "write_lock",
        },
    },
}  # fmt: skip
"""By command, the modules of each room it may load; what the first one may, all may."""

TYPER = {"typer", "annotated_doc", "shellingham"}
PYDANTIC = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
THEIRS = {
    "--help": TYPER,
    "tick": TYPER | PYDANTIC | {"sqlalchemy", "yaml"},
    "enqueue": TYPER | PYDANTIC | {"sqlalchemy", "yaml"},
}
"""By command, the packages it may load."""

HEAVY = {
    "http.client", "pydantic.v1", "sqlalchemy.dialects.postgresql", "sqlalchemy.ext.asyncio",
    "sqlalchemy.orm", "typer._adapters",
}  # fmt: skip
"""What of the standard library and of those packages nobody may load."""

OF_THE_INTERPRETER = {"__main__", "_distutils_hack", "_virtualenv", "sitecustomize", "usercustomize"}

COMMANDS = {"--help": ["--help"], "tick": ["-q", "tick"], "enqueue": ["-q", "enqueue", "demo"]}

PROGRAM = """
import sys
from aijobs.cli.program import run
code = run(sys.argv[1:])
print(*sys.modules, sep="\\n", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_short_command_loads_nothing_that_is_not_on_its_list(command: str, sqlite_store_url: str) -> None:
    loaded = _loaded(COMMANDS[command], sqlite_store_url)

    assert _of_ours(loaded) - _allowed(command) == set()
    assert _of_others(loaded) - THEIRS[command] == set()
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_a_short_command_names_nothing_in_vain(command: str, sqlite_store_url: str) -> None:
    loaded = _loaded(COMMANDS[command], sqlite_store_url)

    assert _allowed(command) - _of_ours(loaded) == set()


def _loaded(args: Sequence[str], url: str) -> set[str]:
    """The modules in a process that ran *args*."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "AIJOBS_DATABASE": url}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *args], env=environ, capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def _allowed(command: str) -> set[str]:
    rooms = [*OURS["--help"].items(), *OURS[command].items()]
    return {f"{room}.{name}" for room, names in rooms for name in names}


def _of_ours(loaded: set[str]) -> set[str]:
    """Our modules, by room and name; a package by its name alone, unless its modules are on the lists."""
    listed = {f"aijobs.{room}" for rooms in OURS.values() for room in rooms}
    rooms = {".".join(name.split(".")[: 4 if name.rpartition(".")[0] in listed else 3]) for name in loaded}
    return {name.partition(".")[2] for name in rooms if name.count(".") > 1 and name.startswith("aijobs.")}


def _of_others(loaded: set[str]) -> set[str]:
    """Packages neither ours nor Python's own; what compiled modules bring along begins with an underscore."""
    packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - OF_THE_INTERPRETER
    return {name for name in packages if not name.startswith("_")} - {"aijobs", "cython_runtime"}
