"""Cutting a process off at a chosen point: before a statement, before or after a commit, around a call.

The points are found by running: a fuse counts them as they come, so a statement that somebody adds is one
more point and needs no entry anywhere. Between two statements nothing reaches the store, so a cut before
each of them and before the commit is a cut at every place inside a transaction.
"""

import os
import re
import signal
import socket
import sqlite3
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from aijobs.store import bulk
from aijobs.store.engine import Store

_BULK = dict(bulk._WAYS)
_TABLE = re.compile(r"(?:INTO|FROM|UPDATE|TABLE)\s+\"?(\w+)", re.IGNORECASE)


class Blow(StrEnum):
    """What happens at the point."""

    KILLED = "killed"  # the process ends there: its connections drop, nothing is tidied up, nothing runs on
    SIGKILL = "kill -9"  # the same by the operating system, for processes of their own
    CUT = "cut off"  # the store is lost for a moment; the process lives and is told so


class Killed(BaseException):
    """The end of a process, in a process that plays several: no handler of the product may catch it."""


class Fuse:
    """Blows at the point number *at*; without one it only counts. *passed* says what the points were."""

    def __init__(self, at: int | None = None, blow: Blow = Blow.KILLED) -> None:
        self.at = at
        self.blow = blow
        self.passed: list[str] = []
        self.blown: str | None = None

    def attach(self, store: Store) -> None:
        """Watch every statement and every commit of *store*, reading ones included."""
        dialect: Any = store.engine.dialect
        for name in ("do_execute", "do_executemany", "do_execute_no_params"):
            setattr(dialect, name, self._statement(_original(dialect, name)))
        dialect.do_commit = self._commit(_original(dialect, "do_commit"))
        dialect.do_rollback = self._rollback(_original(dialect, "do_rollback"))
        for name, way in _BULK.items():  # rows in bulk go past SQLAlchemy
            bulk._WAYS[name] = self._bulk(way)

    def point(self, what: str) -> None:
        """A point outside the store, which only an end of the process can hit."""
        if self.blow is not Blow.CUT:
            self._reach(what, None)

    @property
    def dead(self) -> bool:
        """Whether the process has ended: then not a word more may reach anybody."""
        return self.blown is not None and self.blow is Blow.KILLED

    def _reach(self, what: str, connection: Any) -> bool:
        """Pass a point. True: this is the one, and the connection is to be lost."""
        if self.dead:
            raise Killed(self.blown)
        self.passed.append(what)
        if len(self.passed) != self.at:
            return False
        self.blown = what
        if self.blow is Blow.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.blow is Blow.KILLED:
            if connection is not None:
                _drop(connection)
            raise Killed(what)
        return True

    def _statement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(cursor: Any, statement: str, *given: Any) -> Any:
            if self._reach(summary(statement), cursor.connection):
                _lose(cursor.connection)
            return original(cursor, statement, *given)

        return execute

    def _bulk(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def write(connection: Any, names: str, rows: Any) -> None:
            if self._reach(f"rows of {names.split()[0]}", connection):
                _lose(connection)
            original(connection, names, rows)

        return write

    def _commit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def commit(connection: Any) -> None:
            raw = getattr(connection, "dbapi_connection", connection)
            if self._reach("COMMIT", raw):
                _lose(raw)
            original(connection)
            if self._reach("committed", raw):
                _lose(raw)

        return commit

    def _rollback(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def rollback(connection: Any) -> None:
            if self.dead:
                raise Killed(self.blown)
            original(connection)

        return rollback


def _original(dialect: Any, name: str) -> Callable[..., Any]:
    """The method as its class has it: an earlier fuse is taken out."""
    vars(dialect).pop(name, None)
    found: Callable[..., Any] = getattr(dialect, name)
    return found


def summary(statement: str) -> str:
    """A statement in two words: what it does, and to which table."""
    verb = statement.split(None, 1)[0].upper()
    table = _TABLE.search(statement)
    return f"{verb} {table[1]}" if table else verb


def _drop(connection: Any) -> None:
    """What the operating system does with the connection of a process that has ended."""
    if isinstance(connection, sqlite3.Connection):
        connection.close()
    elif not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


def _lose(connection: Any) -> None:
    """Lose the store under a process that lives: raises what the driver does when that happens."""
    if isinstance(connection, sqlite3.Connection):
        fault = sqlite3.OperationalError("disk I/O error")
        fault.sqlite_errorcode, fault.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR"
        raise fault
    _drop(connection)
    connection.execute("SELECT 1")
