"""`python -m tests.fuzz [TARGET...] --inputs N --seed S`: hostile input for every place where input comes in.

Prints a table of what became of the inputs, and an example of each exception that got away; exit code 1 then.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from aijobs.services.surroundings import allow_many_files
from tests.fuzz.run import TARGETS, Tally, fuzz


def main() -> int:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of: {', '.join(TARGETS)}")
    parser.add_argument("--inputs", type=int, default=10_000, help="in all, shared out among the targets")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    allow_many_files()
    print(f"{'target':12} {'inputs':>8} {'refused':>8} {'taken':>8} {'escaped':>8} {'seconds':>8}")
    with tempfile.TemporaryDirectory() as folder:
        found = fuzz(
            options.targets or list(TARGETS),
            inputs=options.inputs,
            seed=options.seed,
            folder=Path(folder),
            heard=_print,
        )
    counts = (sum(getattr(tally, part) for tally in found.values()) for part in Tally.__slots__[:5])
    _print("all", Tally(*counts))
    return int(any(tally.escapes for tally in found.values()))


def _print(name: str, tally: Tally) -> None:
    print(_row(name, tally))
    for kind, example in tally.escaped.items():
        print(f"  {kind}: {example}")
    sys.stdout.flush()


def _row(name: str, tally: Tally) -> str:
    return (
        f"{name:12} {tally.inputs:8} {tally.refused:8} {tally.taken:8} {tally.escapes:8} {tally.seconds:8.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
