"""Why a person did something: one rule for a reason, whichever way it comes in."""

import re

from aijobs.core.errors import UsageError

LONGEST_REASON = 1000
"""Characters of a reason: it is kept with every job that it concerns, and shown on one line."""

_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # what PostgreSQL does not keep


def checked_reason(text: str) -> str:
    """*text* as it is. Raises UsageError when it says nothing, is too long, or is not text."""
    if not text.strip():
        raise UsageError(
            "a reason is needed, and this one is empty", hint="whoever looks at the record reads it"
        )
    if len(text) > LONGEST_REASON:
        raise UsageError(
            f"the reason is {len(text):,} characters long; {LONGEST_REASON:,} are allowed",
            hint="name the ticket that tells the rest",
        )
    if bad := _NO_TEXT.search(text):
        raise UsageError(f"the reason has a character that is not text (U+{ord(bad.group()):04X})")
    return text
