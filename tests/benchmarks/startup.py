"""Start-up: how long a command takes that has next to nothing to do, beside what its libraries take to load.

`python -m tests.benchmarks.startup [--json] [--rounds N]` runs whole processes, bytecode compiled, and prints
the best and the median of the rounds, in milliseconds, with the ratio to the reference.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIBRARIES = "import typer, sqlalchemy, yaml"
REFERENCES = {"typer": "import typer", "libraries": LIBRARIES}
COMMANDS = {
    "--help": ("typer", ["--help"]),
    "tick": ("libraries", ["-q", "tick"]),
    "enqueue": ("libraries", ["-q", "enqueue", "demo"]),
    "inspect": ("libraries", ["-q", "inspect"]),
}


def milliseconds(command: list[str], environ: dict[str, str], rounds: int) -> tuple[float, float]:
    """The best and the median time of *command* from start to end."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - began) * 1000)
    times = times[1:]  # the first one compiles
    return min(times), statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    program = [sys.executable, "-c", "from aijobs.cli.main import main; main()"]
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "AIJOBS_DATABASE": f"sqlite:///{Path(folder) / 'jobs.db'}"}
        subprocess.run([*program, "-q", "db", "upgrade"], env=environ, check=True, stdout=subprocess.DEVNULL)
        base = {
            name: milliseconds([sys.executable, "-c", code], environ, options.rounds)
            for name, code in REFERENCES.items()
        }
        rows = []
        for name, (reference, args) in COMMANDS.items():
            best, median = milliseconds([*program, *args], environ, options.rounds)
            ratio = round(median / base[reference][1], 2)
            rows.append(
                {
                    "command": name,
                    "best": round(best),
                    "median": round(median),
                    "of": reference,
                    "ratio": ratio,
                }
            )
    references = {
        name: {"best": round(best), "median": round(median)} for name, (best, median) in base.items()
    }
    if options.json:
        print(json.dumps({"references": references, "commands": rows}))
        return
    for name, times in references.items():
        print(f"{name:<10} {times['best']:>5} ms best {times['median']:>5} ms median")
    for row in rows:
        print(
            f"{row['command']:<10} {row['best']:>5} ms best {row['median']:>5} ms median"
            f" = {row['ratio']} x {row['of']}"
        )


if __name__ == "__main__":
    main()
