"""Workers killed, stopped and told to go, databases and providers failing, all at once: what becomes of jobs.

`python -m tests.chaos --minutes N [--seed S] [--database sqlite|postgresql|both] [--json]`

For N minutes a feed enqueues jobs of several kinds. Real `aijobs worker` processes carry them out against
`aijobs simulate`, whose webhooks go to `aijobs serve`; `tick` and `sweep` are called as by cron. Meanwhile a
seed deals blows to the processes, the database, the provider and the webhooks. Then there is peace,
everything is let settle, and the account is printed. Exit code 1 when a promise was broken.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from tests.chaos.run import Plan, run
from tests.chaos.table import table


def main() -> int:
    """Run, print, and say by the exit code whether every promise was kept."""
    options = _options()
    names = ("sqlite", "postgresql") if options.database == "both" else (options.database,)
    accounts = [run(_plan(options, name)) for name in names]
    if options.json:
        print(json.dumps([dataclasses.asdict(one) for one in accounts], indent=2))
    else:
        print(table(accounts))
    broken = [f"{one.database}: {line}" for one in accounts for line in one.broken]
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


def _plan(options: argparse.Namespace, database: str) -> Plan:
    return Plan(
        database=database, minutes=options.minutes, seed=options.seed, rate=options.rate,
        workers=options.workers, pace=options.pace, keep=options.keep,
    )  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="of trouble, on each database")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    parser.add_argument("--rate", type=float, default=6.0, help="jobs a second")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--pace", type=float, default=2.5, help="seconds between two blows, on average")
    parser.add_argument("--keep", type=Path, help="a folder in which everything is kept")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
