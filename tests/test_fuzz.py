"""A few seeded inputs of the fuzzer for every target; `python -m tests.fuzz` tries as many as one likes."""

from pathlib import Path

import pytest

from tests.fuzz.run import TARGETS, fuzz, shares

INPUTS = 2000


@pytest.mark.parametrize("target", TARGETS)
def test_whatever_comes_in_is_taken_or_refused_in_one_clear_line(target: str, tmp_path: Path) -> None:
    count = shares(list(TARGETS), INPUTS)[target]

    tally = fuzz([target], inputs=count, seed=1, folder=tmp_path)[target]

    assert tally.escaped == {}
    assert tally.taken + tally.refused == count
    assert tally.refused or target == "redaction"
    assert tally.taken
