"""What a worker or a server makes of signals while it starts, from its first moment on.

As PID 1 of a container it has no default action: a SIGTERM that comes before the handlers would be lost, and
it would start and claim. Anywhere else SIGHUP would end it, which asks only to read the configuration: a
worker does so in a moment, and `serve` reads it once. This is done first, so it loads nothing of ours.
"""

import os
import signal
from collections.abc import Sequence

COMMANDS = frozenset({"worker", "serve"})
"""Those that run on until they are told to stop."""

WITH_VALUE = frozenset({"--config", "--database"})
"""The options before the command that are followed by a value."""


def heed(argv: Sequence[str]) -> None:
    """Catch both signals if *argv* is one of these commands. Nothing is claimed yet, so to stop is to go."""
    if command_of(argv) in COMMANDS:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _go)


def over() -> None:
    """It has run and is about to end, with a code that matters: a SIGTERM has its default action again."""
    if signal.getsignal(signal.SIGTERM) is _go:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def command_of(argv: Sequence[str]) -> str | None:
    """The first word of *argv* that is neither an option nor its value."""
    words = iter(argv)
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _go(*_: object) -> None:
    os._exit(0)
