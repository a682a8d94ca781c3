"""The entry point of the `aijobs` command."""

import gc
import sys
from typing import NoReturn

_ALLOCATIONS = 200_000
"""Between two collections of the youngest objects. With Python's 700, a good part of a start-up goes into
searching freshly imported modules for garbage."""


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    gc.set_threshold(_ALLOCATIONS, 20, 20)
    from aijobs.cli.program import run  # after that, because it loads typer

    code = run(sys.argv[1:])
    gc.freeze()  # the interpreter's last collection need not look through everything once more
    sys.exit(code)
