"""Fixtures for everybody: a store on each database, a clock that stands still, chance that repeats itself."""

import gc
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from aijobs.core.clock import Chance, seeded_chance
from aijobs.services.surroundings import allow_many_files
from aijobs.store import sqlite
from aijobs.store.engine import Store, open_store
from tests.support import quick_sqlite, quick_uvicorn
from tests.support.clock import ManualClock
from tests.support.emptying import empty
from tests.support.postgres import Server, running_server

hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")  # how long an example takes says something of the machine only

# Read, then removed with the rest: no setting of the person who runs the tests may reach them. Those of libpq
# stay when a server was given, for its password may be among them. COLUMNS comes from pytest-xdist.
_GIVEN_SERVER = os.environ.get("AIJOBS_TEST_POSTGRES")
_FOREIGN = ("AIJOBS_", "OTEL_", "COLUMNS", *(() if _GIVEN_SERVER else ("PG",)))
for _name in [name for name in os.environ if name.startswith(_FOREIGN)]:
    del os.environ[_name]

_WORKER_THREADS = ("aijobs-store", "aijobs-wake", "aijobs-leases", "aijobs-listener", "aijobs-messenger")
allow_many_files()  # as the commands do: some tests hold a thousand connections
quick_sqlite.be_quick()
quick_uvicorn.be_quick()

_THRESHOLD = gc.get_threshold()
gc.set_threshold(1_000_000)  # to look for garbage among the tests is half the time of collecting them

_BOTH = [pytest.param("sqlite"), pytest.param("postgresql", marks=pytest.mark.postgres)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the database in the report, so that a run without PostgreSQL can be told from a good one."""
    for item in items:
        if item.get_closest_marker("postgres"):
            item.user_properties.append(("database", "postgresql"))


def pytest_collection_finish() -> None:
    """From now on garbage is looked for as ever, and not among what was collected."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLD)


@pytest.fixture
def clock() -> ManualClock:
    """Stands at 2026-01-01T00:00:00Z."""
    return ManualClock()


@pytest.fixture
def chance() -> Chance:
    """The same numbers in every run."""
    return seeded_chance(20260101)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """The PostgreSQL of this test run; started when the first test asks for it."""
    with running_server(_GIVEN_SERVER) as server:
        yield server


@pytest.fixture(scope="session")
def own_server(postgres_server: Server) -> Iterator[Server]:
    """A PostgreSQL that is ours to configure, even when the tests were given somebody's."""
    if postgres_server.socket_dir is not None:
        yield postgres_server
        return
    with running_server(None) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The URL of an empty PostgreSQL schema of this test's own."""
    with postgres_server.new_schema() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def durable_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test of how connections keep their commits: those made from now on do it as in earnest."""
    monkeypatch.setattr(sqlite, "_PRAGMAS", quick_sqlite.DURABLE)


@pytest.fixture(params=_BOTH)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database (no tables), for programs that open their own store; on each database."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    url = request.getfixturevalue(name)
    assert isinstance(url, str)
    return url


@pytest.fixture(params=_BOTH)
def store(request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[Store]:
    """An empty store that tells the time by `clock`; on each database."""
    name = "sqlite_store_url" if request.param == "sqlite" else "postgres_store_url"
    opened = open_store(request.getfixturevalue(name), clock=clock)
    yield opened
    _let_go()
    opened.close()


@pytest.fixture
def sqlite_store_url(tmp_path: Path, sqlite_template: Path) -> str:
    """The URL of an SQLite store with empty tables."""
    path = tmp_path / "store.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_store_url(postgres_shared: Store) -> str:
    """The URL of a PostgreSQL store with empty tables: emptied, which is quicker than to make them anew."""
    empty(postgres_shared)
    return postgres_shared.url


def _let_go() -> None:
    """Wait for the threads of workers that were told to stop: one may still hold a connection."""
    for thread in threading.enumerate():
        if thread.name.startswith(_WORKER_THREADS):
            thread.join(10)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with empty tables, to be copied."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    open_store(f"sqlite:///{path}", create=True).close()
    return path


@pytest.fixture(scope="session")
def postgres_shared(postgres_server: Server) -> Iterator[Store]:
    """A PostgreSQL schema whose tables are made once for all tests that use `store`."""
    with postgres_server.new_schema() as url:
        shared = open_store(url, create=True)
        yield shared
        shared.close()
