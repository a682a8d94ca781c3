"""Start-up: how long a command takes that has next to nothing to do, beside what its libraries take to load.

`python -m tests.benchmarks.startup [--json] [--rounds N]` runs whole processes, the bytecode of everything
compiled before, and takes turns. Milliseconds from start to end, medians of the rounds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.report import Row, as_json, in_turns, table

REFERENCES = {"import typer": "import typer", "import its libraries": "import typer, sqlalchemy, yaml"}
PROGRAM = [sys.executable, "-c", "from aijobs.cli.main import main; main()"]
COMMANDS: Mapping[str, tuple[str, float, Sequence[str]]] = {
    "--help": ("import typer", 1.7, ["--help"]),
    "tick": ("import its libraries", 1.5, ["-q", "tick"]),
    "enqueue": ("import its libraries", 1.5, ["-q", "enqueue", "demo"]),
}
"""By name: what it is measured by, how much longer it may take, and its arguments."""


def milliseconds(command: Sequence[str], environ: Mapping[str, str]) -> float:
    """How long one process takes from start to end."""
    began = time.perf_counter()
    subprocess.run(command, env=dict(environ), check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def measure(rounds: int) -> list[Row]:
    """A row a command."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            **os.environ,
            "AIJOBS_DATABASE": f"sqlite:///{Path(folder) / 'jobs.db'}",
            "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled"),
        }
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        milliseconds([*PROGRAM, "-q", "db", "upgrade"], environ)
        commands = {name: [sys.executable, "-c", code] for name, code in REFERENCES.items()}
        commands |= {name: [*PROGRAM, *args] for name, (_, _, args) in COMMANDS.items()}
        for command in commands.values():
            milliseconds(command, environ)  # this one compiles
        found = in_turns(
            rounds, {name: lambda c=one: milliseconds(c, environ) for name, one in commands.items()}
        )
    return [
        Row(
            bar="P8", what=f"start and end of {name}", database="sqlite", ours=found[name], beside=reference,
            theirs=found[reference], unit="ms", at_most=most,
        )
        for name, (reference, most, _) in COMMANDS.items()
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = measure(asked.rounds)
    print(json.dumps(as_json(rows)) if asked.json else table(rows))


if __name__ == "__main__":
    main()
