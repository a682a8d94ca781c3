"""docs/requirements.md has every row, and names tests and documents that exist and run on both databases."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.documents import TEST, missing, text_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs/requirements.md")
ROW = re.compile(r"^\| ([A-I]\d) \| (.+?) \| (.+) \| (both|none) \| \[.+?\]\((.+?)\) \|$", re.MULTILINE)
COUNTS = {"A": 7, "B": 7, "C": 7, "D": 4, "E": 5, "F": 6, "G": 5, "H": 6, "I": 3}
ON_BOTH = frozenset({"store", "database_url"})
"""The fixtures of tests/conftest.py that are made for each database."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def rows() -> list[tuple[str, str, str, str, str]]:
    """Row, what, tests, databases, document."""
    found: list[tuple[str, str, str, str, str]] = ROW.findall(text_of(PAGE))
    return found


@cache
def _functions(path: Path) -> dict[str, frozenset[str]]:
    """Every function of a file with the names of its parameters, which are fixtures or parametrised."""
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return {
        node.name: frozenset(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }


def runs_on_both(file: str, name: str) -> bool:
    """Whether a test asks, itself or by its fixtures, for a store of each database."""
    path = ROOT / file
    files = [path, *(folder / "conftest.py" for folder in path.parents if ROOT in folder.parents)]
    seen: set[str] = set()
    left = {name}
    while left:
        wanted = left.pop()
        if wanted in ON_BOTH:
            return True
        seen.add(wanted)
        found = next((known[wanted] for known in map(_functions, files) if wanted in known), frozenset[str]())
        left |= found - seen
    return False


def test_every_row_stands_there_once() -> None:
    wanted = [f"{letter}{number + 1}" for letter, count in COUNTS.items() for number in range(count)]

    assert [row for row, *_ in rows()] == wanted
    assert len(re.findall(r"^\| [A-I]\d", text_of(PAGE), re.MULTILINE)) == len(wanted)


def test_every_test_and_document_that_is_named_exists() -> None:
    assert [name for _, _, cell, _, _ in rows() for name in missing(cell)] == []
    assert [name for *_, name in rows() if not (ROOT / "docs" / name).is_file()] == []


def test_every_row_is_shown_on_both_databases_or_has_no_store_in_it() -> None:
    shown = {
        row: any(runs_on_both(file, name) for file, name in TEST.findall(cell))
        for row, _, cell, _, _ in rows()
    }

    assert shown == {row: databases == "both" for row, _, _, databases, _ in rows()}


def test_a_test_on_one_database_is_told_from_one_on_both() -> None:
    races = "tests/services/test_worker_races.py"

    assert runs_on_both(races, "test_two_workers_that_claim_at_once_never_get_the_same_job")
    assert runs_on_both("tests/cli/test_alerts.py", "test_what_fires_is_1_each_time_and_told_once")
    assert not runs_on_both("tests/core/test_limits.py", "test_each_limit_counts_what_runs_already")
