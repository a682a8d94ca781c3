"""The entry point of the `aijobs` command."""

import atexit
import contextlib
import gc
import os
import sys
from typing import NoReturn

from aijobs.cli import early_signals

_ALLOCATIONS = 200_000
"""Between two collections of the youngest objects. With Python's 700, a good part of a start-up goes into
searching freshly imported modules for garbage."""


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    early_signals.heed(sys.argv[1:])
    gc.set_threshold(_ALLOCATIONS, 20, 20)
    from aijobs.cli.program import run  # after that, because it loads typer

    _leave(run(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """End the process now that all is saved and said.

    The interpreter's own end would wait for every thread of a pool, also for one that waits for a receiver
    that hangs or for a name server: for minutes, when whoever told a worker to stop kills it after some
    seconds. What was registered for the end is done all the same.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  # there is no other way to have them run before `os._exit`
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more; `run` has said so
            stream.flush()
    os._exit(code)
