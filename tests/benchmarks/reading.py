"""Every command that looks at a store, once each: to see which indexes looking needs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

PROGRAM = [sys.executable, "-c", "from aijobs.cli.main import main; main()", "-q"]


def commands(types: Sequence[str]) -> list[list[str]]:
    """The arguments of each."""
    inspect = [
        [], ["--status", "failed"], ["--status", "succeeded"], ["--status", "dead_letter"],
        ["--status", "pending"], ["--status", "processing"], ["--user", "user-7"], ["--type", types[1]],
        ["--user", "user-7", "--type", types[0]], ["--status", "succeeded", "--user", "user-3"],
        ["--user", "nobody"],
    ]  # fmt: skip
    others = [
        ["stats"], ["metrics"], ["alerts"], ["diagnose"], ["deadletter", "list"], ["deadletter", "replays"],
        ["deadletter", "replay", "--all", "--limit", "50", "--preview"], ["prune", "--preview"],
        ["sweep", "--preview"], ["doctor"], ["schedule", "list"], ["provider", "list"], ["switch", "list"],
        ["shadow", "report", types[0]], ["tick", "--preview"], ["config", "check"],
    ]  # fmt: skip
    return [*(["inspect", *one] for one in inspect), *others]


def look_at_everything(url: str, types: Sequence[str]) -> None:
    """Run them all on the store at *url*; one that fails is told of, and the others run."""
    config = {
        "providers": {"simulator": {"kind": "simulator"}},
        "types": {name: {"provider": "simulator"} for name in types},
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(config, file)  # which is YAML too
        file.flush()
        environ = {**os.environ, "AIJOBS_DATABASE": url, "AIJOBS_CONFIG": file.name}
        for one in commands(types):
            done = subprocess.run([*PROGRAM, *one], env=environ, capture_output=True, text=True, check=False)
            if done.stderr:
                print(f"{' '.join(one)}: {done.stderr.strip()[:200]}", file=sys.stderr)
