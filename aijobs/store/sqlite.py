"""An SQLite store: one file on one machine. Checks the path before SQLite makes a new file of a mistake."""

import logging
import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from aijobs.core.clock import Clock, SystemClock
from aijobs.core.errors import StoreUnreachable
from aijobs.store.write_lock import WriteLock

log = logging.getLogger("aijobs.store")

LOCK_WAIT = 10.0
"""Seconds a writer waits for another one before it gives up."""

_MOST_LOG = 64 * 1024 * 1024
"""Bytes of `-wal` that stay when all of it is in the file: beside a long reader it may grow far beyond."""

_PRAGMAS = f"PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA journal_size_limit={_MOST_LOG}"
_SWITCH_AGAIN = 0.01
_MOUNTS = Path("/proc/self/mounts")
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "9p", "glusterfs", "lustre", "beegfs", "virtiofs"}
)
_NO_STORE_HINT = "check the path; `aijobs db upgrade` makes a new store there"
_RIGHTS_HINT = "check that this user may write to the folder, and that the disk has space"

_Sleep = Callable[[float], None]


def resolve(path: str) -> Path:
    """*path* as written in a URL: `~` expanded, absolute. Raises StoreUnreachable for an unknown `~user`."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise StoreUnreachable(f"no such home directory: {path}", hint="write the path in full") from None


def require_file(path: Path, *, empty: bool = True) -> None:
    """Check that *path* is a file a store may be in, or, unless it may be *empty*, is in. StoreUnreachable.

    Done before SQLite sees the path, because SQLite makes an empty database out of a mistyped one, and writes
    its header into an empty file that it only looks at.
    """
    _require_folder(path)
    try:
        found = path.stat()
    except FileNotFoundError:
        raise StoreUnreachable(f"no job store at {path}", hint=_NO_STORE_HINT) from None
    except OSError as error:
        raise StoreUnreachable(f"cannot open {path}: {error.strerror}", hint=_RIGHTS_HINT) from None
    if not stat.S_ISREG(found.st_mode):
        what = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise StoreUnreachable(f"{path} is {what}", hint="name the store's file")
    if found.st_size == 0 and not empty:
        raise StoreUnreachable(f"no job store in {path}: the file is empty", hint=_NO_STORE_HINT)
    _check_rights(path)


class SameFile:
    """That the path of a store still leads to the file it led to when this was first asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._first: tuple[int, int] | None = None

    def require(self) -> None:
        """Raises StoreUnreachable when there is none, and StoreReplaced when it is another one."""
        try:
            found = self.path.stat()
        except OSError as error:
            why = error.strerror
            raise StoreUnreachable(f"no job store at {self.path} ({why})", hint=_NO_STORE_HINT) from None
        file = (found.st_dev, found.st_ino)
        self._first = self._first or file
        if file != self._first:
            raise StoreReplaced(
                f"another file has taken the place of {self.path} while this program was at work",
                hint="start it again; what it was at is saved in the file that was there before",
            )

    def forget(self) -> None:
        """No connection to that file is left: the next one may be to another."""
        self._first = None


class StoreReplaced(StoreUnreachable):
    """Another file is where the store was; connections to the one that was there go on."""


def make_file(path: Path, fill: Callable[[Path], None]) -> bool:
    """Make the file *path*, readable by its owner only, unless it exists; True when this call made it.

    It is filled under another name and then linked, so that nobody ever meets half a store, and a failure
    leaves nothing behind. Raises StoreUnreachable, and what *fill* raises.
    """
    _require_folder(path)
    if path.exists():
        return False
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    except OSError as error:
        raise StoreUnreachable(
            f"cannot make a job store at {path}: {error.strerror}", hint=_RIGHTS_HINT
        ) from None
    os.close(descriptor)
    try:
        fill(Path(name))
        made = _publish(Path(name), path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(name + suffix).unlink(missing_ok=True)
    return _make_in_place(path, fill) if made is None else made


def open_engine(file: SameFile, *, lock_wait: float) -> Engine:
    """An engine over *file*, which must exist.

    A transaction begins with BEGIN IMMEDIATE: one that turns into a writer later fails at once when another
    process has written meanwhile, whatever the wait. With the execution option `aijobs_read` it is a plain
    BEGIN, and the connection refuses to write.

    All connections are to one file: what was begun in a file that was replaced is not ended in the other one.
    """

    def creator() -> sqlite3.Connection:
        file.require()
        return connect(file.path, lock_wait=lock_wait)

    engine = create_engine(
        URL.create("sqlite", database=str(file.path)),
        creator=creator,
        poolclass=QueuePool,
        pool_size=5,
        max_overflow=10,
        hide_parameters=True,
    )
    writers = WriteLock(file.path, wait=lock_wait)
    event.listen(engine, "begin", lambda connection: _begin(connection, writers))
    event.listen(engine, "engine_disposed", lambda _: file.forget())
    return engine


def connect(
    path: Path, *, lock_wait: float, clock: Clock | None = None, sleep: _Sleep = time.sleep
) -> sqlite3.Connection:
    """One connection to the existing file at *path*, with our settings; for any thread, one at a time."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=lock_wait,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _use_wal(connection, path, clock or SystemClock(), lock_wait, sleep)
        connection.executescript(_PRAGMAS)
    except BaseException:
        connection.close()
        raise
    return connection


def network_file_system(path: Path, mounts: str) -> str | None:
    """The network file system under *path*, by the text of /proc/mounts; None when it is local."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind if kind in _NETWORK or kind.startswith("fuse.") else None


def warnings_for(path: Path) -> tuple[str, ...]:
    """What the operator should know about the place of this store; empty when all is well."""
    try:
        kind = network_file_system(path.resolve(), _MOUNTS.read_text())
    except OSError:
        return ()
    if kind is None:
        return ()
    advice = "SQLite can lose or damage data there; use a local disk, or PostgreSQL for several machines"
    return (f"{path} is on a network file system ({kind}): {advice}",)


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise StoreUnreachable(f"no such directory: {path.parent}", hint="make it first, or check the path")


def _publish(made: Path, path: Path) -> bool | None:
    """Give *made* its name; False when the name is taken, None on a file system that knows no links."""
    try:
        path.hardlink_to(made)
    except FileExistsError:
        return False  # another process was faster; its store is as good as ours
    except OSError:
        return None  # to rename instead could replace another process's store
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # a job accepted by this store must not vanish with the file's name
    finally:
        os.close(folder)
    return True


def _make_in_place(path: Path, fill: Callable[[Path], None]) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    fill(path)
    return True


def _check_rights(path: Path) -> None:
    effective = os.access in os.supports_effective_ids
    for place in (path, path.parent):
        if os.access(place, os.R_OK | os.W_OK, effective_ids=effective):
            continue
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            raise StoreUnreachable(
                f"the job store cannot be written to: {path} is on a file system that is read-only",
                hint="mount it for writing; after a fault of the disk the kernel may have made it so",
            )
        raise StoreUnreachable(
            f"the job store cannot be written to: {path} (no right to write {place})",
            hint="give this user write access to the file and its folder",
        )


def _use_wal(connection: sqlite3.Connection, path: Path, clock: Clock, wait: float, sleep: _Sleep) -> None:
    """WAL is a property of the file. A copy made by VACUUM INTO does not have it yet, and its first users may
    come together: to switch takes a lock for which SQLite itself waits for nobody.
    """
    since = clock.monotonic()
    while True:
        try:
            mode = _switched(connection)
            break
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or clock.monotonic() - since >= wait:
                raise
            sleep(_SWITCH_AGAIN)
    if mode != "wal":
        log.warning(
            "%s cannot use a write-ahead log (%s); readers and writers will wait for each other", path, mode
        )


def _switched(connection: sqlite3.Connection) -> str:
    """The journal mode, made WAL where it can be; asked for only when it is not."""
    mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode != "wal":
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    return mode


def _begin(connection: Connection, writers: WriteLock) -> None:
    read = connection.get_execution_options().get("aijobs_read", False)
    dbapi: Any = connection.connection.dbapi_connection
    info = connection.info
    if read != info.get("read", False):
        dbapi.execute(f"PRAGMA query_only={'ON' if read else 'OFF'}")
        info["read"] = read
    if read:
        dbapi.execute("BEGIN")
    else:
        writers.begin(dbapi)
