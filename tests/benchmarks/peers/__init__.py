"""Other queues, measured beside this one: each in a virtual environment of its own, outside this tree.

What a peer needs and this machine lacks (a newer Python, a Redis) leaves it out, with a line on stderr.

A peer's program is run by its own interpreter as `python peer.py URL JOBS WORKERS SIZE`: it makes its tables
in the empty database at URL, puts in JOBS jobs that do nothing one way and the other, drains them with
WORKERS processes, and prints one JSON object of rates. SIZE is its batch size or its concurrency. A rate runs
from the first job to the last, without start and end of a process, which is generous to the peer.
"""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.places import fresh
from tests.support.wait import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One other queue: what to install, its program here, and the sizes to try; the best one counts.

    It is measured beside ours on *database*, on which it stands itself unless it is a queue of *redis*.
    """

    name: str
    database: str
    packages: Sequence[str]
    sizes: Sequence[int]
    least_python: tuple[int, int] = (3, 11)
    redis: bool = False

    @property
    def program(self) -> Path:
        """What runs in its environment."""
        return Path(__file__).with_name(f"{self.name}_peer.py")

    @property
    def lacks(self) -> str | None:
        """What it needs that is not on PATH; None when all is there."""
        if python_of(self.least_python) is None:
            return f"a Python of {'.'.join(map(str, self.least_python))} or newer"
        return "redis-server" if self.redis and shutil.which("redis-server") is None else None


PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(name="pgqueuer", database="postgresql", packages=("pgqueuer", "asyncpg"), sizes=(100, 500)),
        Peer(
            name="procrastinate", database="postgresql", packages=("procrastinate", "psycopg[binary,pool]"),
            sizes=(30,),
        ),
        Peer(
            name="oban", database="postgresql", packages=("oban", "psycopg[binary,pool]"), sizes=(100,),
            least_python=(3, 12),
        ),
        Peer(name="rq", database="postgresql", packages=("rq",), sizes=(1,), redis=True),
        Peer(name="huey", database="sqlite", packages=("huey",), sizes=(1,)),
    )
}  # fmt: skip


def folder() -> Path:
    """Where the environments are kept from run to run."""
    return Path(os.environ.get("AIJOBS_PEERS") or Path(tempfile.gettempdir()) / "aijobs-peers")


def there() -> dict[str, Peer]:
    """The peers that can be measured on this machine; of the others it is said why not."""
    for peer in PEERS.values():
        if peer.lacks:
            print(f"{peer.name} is left out: it needs {peer.lacks} on PATH", file=sys.stderr)
    return {name: peer for name, peer in PEERS.items() if not peer.lacks}


@functools.cache
def python_of(least: tuple[int, int]) -> Path | None:
    """A Python of that version or newer: the one at work, or else the first on PATH."""
    names = [f"python3.{minor}" for minor in range(least[1], least[1] + 5)]
    on_path = [Path(where, name) for name in names for where in os.get_exec_path()]
    return next((one for one in (Path(sys.executable), *on_path) if _is_new(one, least)), None)


def _is_new(python: Path, least: tuple[int, int]) -> bool:
    asks = f"import sys; sys.exit(sys.version_info < {least})"
    return python.is_file() and subprocess.run([python, "-c", asks], capture_output=True).returncode == 0


@contextlib.contextmanager
def _place(peer: Peer) -> Iterator[str]:
    """The URL of an empty database for it."""
    if not peer.redis:
        with fresh(peer.database) as url:
            yield url
        return
    with tempfile.TemporaryDirectory() as home:
        socket = Path(home) / "s"
        command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", home]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            eventually(socket.exists)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait()


def interpreter(peer: Peer) -> Path:
    """The Python of the peer's environment, built if it is not there yet."""
    home = folder() / peer.name
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        print(f"building {home}", file=sys.stderr)
        base = python_of(peer.least_python)
        assert base is not None
        subprocess.run([base, "-m", "venv", "--clear", home], check=True)
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
        with _place(peer) as url:
            command = [interpreter(peer), peer.program, url, str(jobs), str(workers), str(size)]
            said = json.loads(subprocess.check_output(command, text=True))
        best = {name: max(rate, best.get(name, 0.0)) for name, rate in said.items()}
    return best
