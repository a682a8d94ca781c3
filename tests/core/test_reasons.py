"""The one rule for reasons."""

import pytest

from aijobs.core.errors import UsageError
from aijobs.core.reasons import LONGEST_REASON, checked_reason


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "this one is empty"),
        (" \n\u00a0", "this one is empty"),
        ("x" * (LONGEST_REASON + 1), "1,001 characters long; 1,000 are allowed"),
        ("a\0b", r"not text \(U\+0000\)"),
        ("a\udcff", r"not text \(U\+DCFF\)"),
    ],
)
def test_a_reason_that_says_nothing_or_cannot_be_kept_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        checked_reason(text)
    assert len(refused.value.message) < 100


def test_any_other_is_kept_as_it_is() -> None:
    for text in ("x" * LONGEST_REASON, " INC-1 ", "zwei\nZeilen"):
        assert checked_reason(text) == text
