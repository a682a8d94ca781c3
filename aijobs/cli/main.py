"""The entry point of the `aijobs` command."""

import gc
import sys
from typing import NoReturn

_ALLOCATIONS = 100_000
"""Between two collections of the youngest objects. Python's 700 make a tenth of a start-up out of looking at
freshly imported modules, in which nothing can be garbage."""


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    gc.set_threshold(_ALLOCATIONS, 20, 20)
    from aijobs.cli.program import run  # after that, because it loads typer

    sys.exit(run(sys.argv[1:]))
