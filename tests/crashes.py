"""`python -m tests.crashes`: every way through the store, cut off at every point, on both databases.

Prints a table by scenario: how many points it has, and what was lost, doubled or otherwise broken after it
had been cut off at each. Ends with 1 if anything was.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from aijobs.store.engine import open_store
from tests.support.clock import ManualClock
from tests.support.crash_runs import Ground, Result, everywhere
from tests.support.crash_scenarios import SCENARIOS
from tests.support.fuse import Blow
from tests.support.postgres import running_server

_HEAD = ("database", "cut", "scenario", "points", "lost", "doubled", "broken", "paid twice")
_COUNTS = ("lost", "doubled", "broken", "paid twice")


@contextmanager
def _ground(database: str, folder: Path) -> Iterator[Ground]:
    with ExitStack() as rest:
        url = f"sqlite:///{folder / 'store.db'}"
        if database == "postgresql":
            url = rest.enter_context(rest.enter_context(running_server(None)).new_schema())
        store = open_store(url, clock=ManualClock(), create=True)
        rest.callback(store.close)
        yield Ground(store, folder)


def _line(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _show(database: str, blow: Blow, name: str, result: Result) -> None:
    counts = [result.counts[one] for one in _COUNTS]
    print(_line(database, blow.value, name, len(result.points), *counts), flush=True)
    for where, fault in result.faults:
        print(f"    {where}: {fault}", file=sys.stderr, flush=True)


def _run(databases: list[str], blows: list[Blow], names: list[str]) -> int:
    faults = 0
    print(_line(*_HEAD))
    print(_line(*("-" * len(cell) for cell in _HEAD)))
    for database in databases:
        with tempfile.TemporaryDirectory() as folder, _ground(database, Path(folder)) as ground:
            for blow in blows:
                for scenario in SCENARIOS:
                    if names and scenario.name not in names:
                        continue
                    result = everywhere(ground, scenario, blow)
                    _show(database, blow, scenario.name, result)
                    faults += len(result.faults)
    return 1 if faults else 0


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    both = ["sqlite", "postgresql"]
    every = [blow.value for blow in Blow]
    parser.add_argument("--database", choices=both, action="append", help="default: both")
    parser.add_argument("--cut", choices=every, action="append", help="default: all three")
    parser.add_argument("--scenario", action="append", help="default: all")
    given = parser.parse_args()
    blows = [Blow(one) for one in given.cut or every]
    return _run(given.database or both, blows, given.scenario or [])


if __name__ == "__main__":
    sys.exit(main())
