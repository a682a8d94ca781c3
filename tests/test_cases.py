"""The table of cases names tests that exist."""

import re
from pathlib import Path

from tests.support.documents import TEST, missing

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "cases.md"
ROW = re.compile(r"^\| ([A-J]\d\d) \| (.+?) \| (.+) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    """Case, what happens, tests."""
    found: list[tuple[str, str, str]] = ROW.findall(TABLE.read_text(encoding="utf-8"))
    return found


def test_every_test_the_table_names_exists() -> None:
    assert [name for _, _, cell in rows() for name in missing(cell)] == []


def test_every_case_stands_once_with_a_test_or_says_why_not() -> None:
    cases = [case for case, _, _ in rows()]

    assert cases == sorted(set(cases))
    lines = re.findall(r"^\| (?!Case \|)", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(cases) == len(lines)  # no row is spelled so that it escapes the check
    for case, _, cell in rows():
        assert TEST.search(cell) or cell.startswith("not done: "), case


def test_a_test_that_is_not_there_is_found() -> None:
    gone = "`tests/test_cases.py::test_nobody_wrote`<br>`tests/test_nowhere.py::test_x`"

    assert missing(gone) == ["tests/test_cases.py::test_nobody_wrote", "tests/test_nowhere.py::test_x"]
    assert missing("`tests/test_cases.py::test_a_test_that_is_not_there_is_found`") == []
