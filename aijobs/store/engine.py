"""The door to the store: a URL becomes a `Store`, whose transactions are the only way to the tables."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import URL, Connection, Engine, exc, make_url

from aijobs.core.clock import Clock, SystemClock
from aijobs.core.errors import StoreUnreachable, UsageError
from aijobs.store import postgresql, schema, sqlite
from aijobs.store.translate import translate

log = logging.getLogger("aijobs.store")

Tx = Connection
"""A transaction: what every function in this package works with."""

_FORMS = "sqlite:///file.db, sqlite:////absolute/file.db or postgresql://user@host/database"
_POSTGRESQL = ("postgres", "postgresql", "postgresql+psycopg")


class Store:
    """One job store. Threads may share it; each transaction belongs to one thread.

    *location* is for people and never holds a password; *created* tells whether opening it made the tables;
    *warnings* are sentences for the operator. *driver_error* is the base of the database driver's exceptions.
    *before_commit* is called in each transaction that writes, where nothing can keep it from being committed
    any more but the database; what it raises rolls it back.
    """

    def __init__(
        self, url: str, engine: Engine, *, location: str, clock: Clock, file: sqlite.SameFile | None = None
    ) -> None:
        self.url = url
        self.engine = engine
        self.location = location
        self.clock = clock
        self.file = file
        self.path = path = file.path if file else None
        self.dialect: Literal["sqlite", "postgresql"] = "postgresql" if path is None else "sqlite"
        self.created = False
        self.before_commit: Callable[[], object] = _go_on
        self.warnings = sqlite.warnings_for(path) if path else ()
        self._reader = engine.execution_options(aijobs_read=True)
        self._at_once = engine.execution_options(aijobs_at_once=True)
        self._unbounded = engine.execution_options(aijobs_unbounded=True)
        self.driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error

    def __repr__(self) -> str:
        return f"<Store {self.location}>"

    def read(self) -> AbstractContextManager[Tx]:
        """A transaction that sees one moment of the store and cannot write."""
        return self._transaction(self._reader)

    def write(self) -> AbstractContextManager[Tx]:
        """A transaction that commits at the end of the block and rolls back when an exception leaves it.

        PostgreSQL ends one in which nothing is said for half a minute.
        """
        return self._transaction(self.engine)

    def write_unbounded(self) -> AbstractContextManager[Tx]:
        """As `write`, for what may compute for longer than that between two statements; it must lock nothing
        that a claim waits for.
        """
        return self._transaction(self._unbounded)

    def at_once(self) -> AbstractContextManager[Tx]:
        """As `write`, for what is one statement on PostgreSQL: it commits by itself, in one round trip."""
        return self._transaction(self._at_once, commits_by_itself=self.dialect == "postgresql")

    def close(self) -> None:
        """Close the connections at rest. The store may be used again; it connects anew."""
        self.engine.dispose()

    @contextmanager
    def _transaction(self, engine: Engine, *, commits_by_itself: bool = False) -> Iterator[Tx]:
        try:
            with self._connected(engine) as tx, tx.begin():
                self._refresh_clock(tx)
                if commits_by_itself:
                    self.before_commit()
                yield tx
                if engine is not self._reader and not commits_by_itself:
                    self.before_commit()
        except (exc.DBAPIError, exc.TimeoutError, self.driver_error) as error:
            raise translate(error, location=self.location) from error

    def _connected(self, engine: Engine) -> Connection:
        try:
            return engine.connect()
        except (exc.DBAPIError, exc.DisconnectionError) as error:
            if self.dialect == "sqlite":
                raise
            raise postgresql.refused(error, location=self.location) from error

    def _refresh_clock(self, tx: Tx) -> None:
        if isinstance(self.clock, postgresql.ServerClock) and self.clock.is_stale():
            postgresql.read_clock(tx.exec_driver_sql, self.clock)


def _go_on() -> None:
    """Nobody has anything against a commit."""


def open_store(
    url: str, *, clock: Clock | None = None, create: bool = False, lock_wait: float = sqlite.LOCK_WAIT
) -> Store:
    """Open the store at *url*; with *create*, one that does not exist or is empty is made.

    *clock* replaces the store's own (the server's on PostgreSQL, the machine's on SQLite). *lock_wait* is how
    many seconds a writer waits for another one on SQLite. Raises UsageError for a URL that makes no sense,
    SchemaMismatch, and StoreUnreachable, also when there is no store and *create* is False (no file is made).
    """
    target = parse_url(url)
    made = create and _make_file(target)
    store = attach(target, clock=clock, lock_wait=lock_wait, empty=create)
    try:
        store.created = schema.ensure(store, create=create) or made
    except BaseException:
        store.close()
        raise
    for warning in store.warnings:
        log.warning("%s", warning)
    return store


def open_any(url: str) -> Store:
    """The store at *url* whatever its schema version; a missing SQLite file is made, with its tables."""
    target = parse_url(url)
    made = _make_file(target)
    store = attach(target)
    store.created = made
    return store


def attach(
    target: URL, *, clock: Clock | None = None, lock_wait: float = sqlite.LOCK_WAIT, empty: bool = True
) -> Store:
    """The store at *target*, whatever its schema version. Raises StoreUnreachable for a file that is none, or
    that is *empty* and must not be.
    """
    text = target.render_as_string(hide_password=False)
    if target.drivername == "sqlite":
        path = _path(target)
        sqlite.require_file(path, empty=empty)
        file = sqlite.SameFile(path)
        engine = sqlite.open_engine(file, lock_wait=lock_wait)
        return Store(text, engine, location=str(path), clock=clock or SystemClock(), file=file)
    server_clock = postgresql.ServerClock()
    location = postgresql.location_of(target)
    try:
        engine = postgresql.open_engine(target, server_clock)
    except ImportError as error:
        raise StoreUnreachable(f"psycopg, the PostgreSQL driver, cannot be loaded: {error}") from error
    return Store(text, engine, location=location, clock=clock or server_clock)


def _make_file(target: URL) -> bool:
    """Make the SQLite file with its tables unless there is one; True when this call made it."""
    if target.drivername != "sqlite":
        return False
    return sqlite.make_file(_path(target), lambda path: _make_tables(path, target))


def _make_tables(path: Path, target: URL) -> None:
    store = attach(target.set(database=str(path)))
    store.location = str(_path(target))  # an error should name the file that was asked for
    try:
        schema.ensure(store, create=True)
    finally:
        store.close()


def parse_url(text: str) -> URL:
    """*text* as a URL of a store. Raises UsageError, which never repeats *text*: it may hold a password."""
    try:
        url = make_url(text)
        scheme = url.drivername
    except (exc.ArgumentError, ValueError):
        raise _no_url(text) from None
    if scheme == "sqlite":
        return _sqlite_url(url)
    if scheme in _POSTGRESQL:
        if "@" in (url.host or ""):
            raise UsageError("the database URL has more than one @", hint="write @ in a password as %40")
        return url.set(drivername="postgresql")
    raise UsageError(f"a job store is SQLite or PostgreSQL, not {scheme!r}", hint=f"write {_FORMS}")


def _sqlite_url(url: URL) -> URL:
    if url.host or url.username or url.port:
        raise UsageError("a SQLite URL has three slashes before the file name", hint=f"write {_FORMS}")
    if url.query:
        raise UsageError("a SQLite URL takes no options", hint="write the file name only")
    if not url.database or url.database == ":memory:":
        raise UsageError(
            "a job store must be a file: jobs in memory are lost with the process", hint=f"write {_FORMS}"
        )
    return url


def _no_url(text: str) -> UsageError:
    if text and ":" not in text and "@" not in text:
        return UsageError(f"not a database URL: {text}", hint=f"for a file write sqlite:///{text}")
    return UsageError("the database URL cannot be understood", hint=f"write {_FORMS}")


def _path(target: URL) -> Path:
    return sqlite.resolve(target.database or "")
