"""`python -m tests.benchmarks [NAME...] [--peers] [--rounds N] [--scale F] [--database NAME] [--json]`

Measures the bars (P1, P2, ... or drain, enqueue, ...; all of them if none is named) and prints one table.
It starts what it needs; with --peers it builds the other queues' virtual environments, outside this tree.
Two bars have programs of their own: `python -m tests.benchmarks.scale` and `...lease_sweep`.
"""

import argparse
import json
import subprocess
import sys

from tests.benchmarks.bars import BARS, BOTH, Asked
from tests.benchmarks.peers import PEERS, version_of
from tests.benchmarks.report import Row, as_json, surroundings, table
from tests.support.postgres import _find_binaries


def main() -> None:
    """Measure and print."""
    names = [*BARS, *dict.fromkeys(other for other, _, _ in BARS.values())]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--peers", action="store_true", help="measure other queues beside it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="make everything smaller by this factor")
    parser.add_argument("--database", choices=BOTH, help="one of the two only")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.names) - set(names):
        parser.error(f"no such bar: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    asked = Asked(
        rounds=given.rounds, peers=given.peers, scale=given.scale,
        databases=(given.database,) if given.database else BOTH,
    )  # fmt: skip
    before = surroundings(_versions(peers=given.peers))
    rows = measured(given.names, asked)
    if given.json:
        print(json.dumps({"surroundings": before, "rows": as_json(rows)}))
        return
    print(table(rows))
    print(*(f"{name}: {value}" for name, value in before.items()), sep="; ")


def measured(names: list[str], asked: Asked) -> list[Row]:
    """The rows of the bars that are named, of all if none is."""
    rows: list[Row] = []
    for bar, (other, measure, databases) in BARS.items():
        if names and bar not in names and other not in names:
            continue
        for database in databases:
            if database in asked.databases:
                print(f"{bar} on {database}", file=sys.stderr)
                rows += measure(asked, database)
    return rows


def _versions(*, peers: bool) -> dict[str, str]:
    server = subprocess.check_output([_find_binaries() / "postgres", "-V"], text=True).split()[-1]
    return {"postgresql": server} | (
        {name: version_of(peer) for name, peer in PEERS.items()} if peers else {}
    )


if __name__ == "__main__":
    main()
