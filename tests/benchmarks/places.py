"""Where the stores of a benchmark are, each new and empty, and losing nothing when the machine fails.

Unless `put` says otherwise they are in a PostgreSQL of their own, and on SQLite in a temporary folder.
"""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.support.postgres import _find_binaries, running_server

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

_AS_IT_COMES = {"timezone": "UTC"}  # other tests have another one on purpose, which costs each time read some

_put: dict[str, str] = {}


def put(url: str) -> str:
    """Have every store of the kind of *url* made there, and removed again: in schemas of that PostgreSQL,
    which goes by its own settings, or in files beside the one that a SQLite URL names. Which kind it is.

    Raises ValueError for a URL of neither.
    """
    kind = make_url(url).get_backend_name()
    kind = "postgresql" if kind == "postgres" else kind
    if kind not in ("sqlite", "postgresql"):
        raise ValueError(f"a store is on SQLite or PostgreSQL, not {kind}")
    _put[kind] = url
    return kind


def server() -> dict[str, str]:
    """Version and settings of the PostgreSQL that is measured."""
    if "postgresql" in _put:
        with psycopg.connect(_put["postgresql"]) as connection:
            version = str(connection.info.parameter_status("server_version"))
            shown = {name: connection.execute(f"SHOW {name}").fetchone() for name in DURABLE}
        said = ", ".join(f"{name} {row[0]}" for name, row in shown.items() if row)
        return {"postgresql": version, "postgresql settings": f"{said}, all else as given"}
    version = subprocess.check_output([_find_binaries() / "postgres", "-V"], text=True).split()[-1]
    return {"postgresql": version, "postgresql settings": f"{', '.join(DURABLE)} on, all else by default"}


@contextlib.contextmanager
def fresh(database: str) -> Iterator[str]:
    """The URL of an empty database, `sqlite` or `postgresql`."""
    if database == "sqlite":
        given = make_url(_put["sqlite"]).database if "sqlite" in _put else None
        with tempfile.TemporaryDirectory(dir=Path(given).parent if given else None) as folder:
            yield f"sqlite:///{Path(folder) / 'jobs.db'}"
    else:
        with (
            running_server(_put.get("postgresql"), settings=_AS_IT_COMES | DURABLE) as server,
            server.new_schema() as url,
        ):
            yield url
