"""`python -m tests.model --examples N`: random lives of a store against a small model, on both databases.

The same seed lives the same lives. A life that goes wrong is shortened and printed as a program.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from aijobs.store.engine import Store, open_store
from tests.support.clock import ManualClock
from tests.support.model_machine import Lives
from tests.support.postgres import running_server


def run(store: Store, *, examples: int, steps: int, number: int = 1) -> None:
    """Live *examples* lives of at most *steps* steps in *store*. Raises what the first bad one raises."""
    machine = seed(number)(type("Lives", (Lives,), {"store_of": store}))
    how = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, database=None, print_blob=False,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=how)


def main() -> int:
    """Read the arguments and live."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--examples", type=int, default=200, help="lives on each database")
    parser.add_argument("--steps", type=int, default=60, help="steps of a life at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], action="append")
    given = parser.parse_args()
    for database in given.database or ["sqlite", "postgresql"]:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as rest:
            url = f"sqlite:///{Path(folder) / 'store.db'}"
            if database == "postgresql":
                url = rest.enter_context(rest.enter_context(running_server(None)).new_schema())
            store = open_store(url, clock=ManualClock(), create=True)
            rest.callback(store.close)
            run(store, examples=given.examples, steps=given.steps, number=given.seed)
            print(f"{database}: {given.examples} lives of up to {given.steps} steps, no fault", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
