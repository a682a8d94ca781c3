"""`python -m tests.benchmarks [NAME...] [--peers] [--rounds N] [--scale F] [--database URL] [--json]`

Measures the bars (P1, P2, ... or drain, enqueue, ...; all of them if none is named) and prints one table.
It starts what it needs; with --peers it builds the other queues' virtual environments, outside this tree.
Two bars have programs of their own: `python -m tests.benchmarks.scale` and `...lease_sweep`.
"""

import argparse
import json
import sys

from sqlalchemy.exc import ArgumentError

from tests.benchmarks import places
from tests.benchmarks.bars import BARS, BOTH, Asked
from tests.benchmarks.peers import there, version_of
from tests.benchmarks.report import Row, as_json, surroundings, table


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
    parser.add_argument(
        "--database", metavar="URL",
        help="one of the two only, by its name, or stores at this PostgreSQL, or beside this SQLite file",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.names) - set(names):
        parser.error(f"no such bar: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    asked = Asked(
        rounds=given.rounds, peers=there() if given.peers else {}, scale=given.scale,
        databases=(_kind(parser, given.database),) if given.database else BOTH,
    )  # fmt: skip
    before = surroundings(places.server() | {name: version_of(peer) for name, peer in asked.peers.items()})
    rows = measured(given.names, asked)
    if given.json:
        print(json.dumps({"surroundings": before, "rows": as_json(rows)}))
        return
    print(table(rows))
    print(*(f"{name}: {value}" for name, value in before.items()), sep="; ")


def _kind(parser: argparse.ArgumentParser, database: str) -> str:
    """Which of the two *database* is; a URL also says where the stores are to be."""
    if database in BOTH:
        return database
    try:
        return places.put(database)
    except (ArgumentError, ValueError) as error:
        parser.error(f"--database: {error}")


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


if __name__ == "__main__":
    main()
