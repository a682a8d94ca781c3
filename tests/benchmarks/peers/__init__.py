"""Other queues, measured beside this one: each in a virtual environment of its own, outside this tree.

A peer's program is run by its own interpreter as `python peer.py URL JOBS WORKERS SIZE`: it makes its tables
in the empty database at URL, puts in JOBS jobs that do nothing one way and the other, drains them with
WORKERS processes, and prints one JSON object of rates. SIZE is its batch size or its concurrency. A rate runs
from the first job to the last, without start and end of a process, which is generous to the peer.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.places import fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One other queue: what to install, its program here, and the sizes to try; the best one counts."""

    name: str
    database: str
    packages: Sequence[str]
    sizes: Sequence[int]

    @property
    def program(self) -> Path:
        """What runs in its environment."""
        return Path(__file__).with_name(f"{self.name}_peer.py")


PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(name="pgqueuer", database="postgresql", packages=("pgqueuer", "asyncpg"), sizes=(100, 500)),
        Peer(
            name="procrastinate", database="postgresql", packages=("procrastinate", "psycopg[binary,pool]"),
            sizes=(30,),
        ),
        Peer(name="huey", database="sqlite", packages=("huey",), sizes=(1,)),
    )
}  # fmt: skip


def folder() -> Path:
    """Where the environments are kept from run to run."""
    return Path(os.environ.get("AIJOBS_PEERS") or Path(tempfile.gettempdir()) / "aijobs-peers")


def interpreter(peer: Peer) -> Path:
    """The Python of the peer's environment, built if it is not there yet."""
    home = folder() / peer.name
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        print(f"building {home}", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *peer.packages], check=True, stdout=sys.stderr)
        ready.touch()
    return python


def version_of(peer: Peer) -> str:
    """The version that is measured."""
    code = f"from importlib.metadata import version; print(version('{peer.name}'))"
    return subprocess.check_output([interpreter(peer), "-c", code], text=True).strip()


def rates(peer: Peer, *, jobs: int, workers: int) -> dict[str, float]:
    """The rates of one round, each at the best of the peer's sizes; every size on a fresh database."""
    best: dict[str, float] = {}
    for size in peer.sizes:
        with fresh(peer.database) as url:
            command = [interpreter(peer), peer.program, url, str(jobs), str(workers), str(size)]
            said = json.loads(subprocess.check_output(command, text=True))
        best = {name: max(rate, best.get(name, 0.0)) for name, rate in said.items()}
    return best
