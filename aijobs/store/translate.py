"""What the databases' errors mean to an operator: told apart by class or code, never by their text."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import exc

from aijobs.core.errors import SchemaMismatch, StoreError, StoreLocked, StoreUnreachable


@dataclass(frozen=True, slots=True)
class _Meaning:
    """*text* is put before the store's location; *hint* says what to do."""

    error: type[StoreError]
    text: str
    hint: str


_LOCKED: Final = _Meaning(
    StoreLocked,
    "another process held the lock for longer than we wait",
    "look for a program that keeps a transaction open on it; running the command again is safe",
)
_BUSY_SERVER: Final = _Meaning(
    StoreLocked, "the database gave up on a lock or a conflict", "running the command again is safe"
)
_GONE: Final = _Meaning(
    StoreUnreachable, "the connection to the job store was lost", "check that the server runs; then try again"
)
_NO_SPACE: Final = _Meaning(
    StoreUnreachable, "no space is left for the job store", "free disk space, then run the command again"
)
_READ_ONLY: Final = _Meaning(
    StoreUnreachable,
    "the job store cannot be written to",
    "give this user write access to the file and its folder",
)
_CANNOT_OPEN: Final = _Meaning(
    StoreUnreachable,
    "the job store cannot be opened",
    "check that this user may read and write the file, its folder and the -wal and -shm files beside it",
)
_NOT_A_STORE: Final = _Meaning(
    StoreUnreachable,
    "the file is not an SQLite database, or it is damaged",
    "check the path, or restore a backup",
)
_DISK: Final = _Meaning(
    StoreUnreachable, "the disk failed under the job store", "check the disk, its space and its mount"
)
_OTHER_SCHEMA: Final = _Meaning(
    SchemaMismatch, "the job store lacks a table or column that this version needs", "run `aijobs db check`"
)
_NO_NAMESPACE: Final = _Meaning(
    StoreUnreachable, "the search path names no schema that exists", "make the PostgreSQL schema first"
)
_REFUSED: Final = _Meaning(
    StoreUnreachable, "the server refused the login", "check user, password and database name in the URL"
)
_FORBIDDEN: Final = _Meaning(
    StoreUnreachable, "this database user lacks a right on the job store", "grant it the rights on its tables"
)
_STANDBY: Final = _Meaning(
    StoreUnreachable, "the server is read-only (a standby?)", "point the URL at the primary server"
)
_TOO_MANY: Final = _Meaning(
    StoreUnreachable,
    "the server is out of connections or memory",
    "run fewer workers, or raise the server's limits",
)
_CONSTRAINT: Final = _Meaning(
    StoreError,
    "the job store refused a change that would contradict its rules",
    "this is a defect: please report it",
)
_UNKNOWN: Final = _Meaning(StoreError, "the job store answered with an error", "see `aijobs doctor`")

_SQLITE: Final = (
    # Prefixes of sqlite_errorname, the longer first where one begins with another.
    ("SQLITE_BUSY", _LOCKED),
    ("SQLITE_LOCKED", _LOCKED),
    ("SQLITE_FULL", _NO_SPACE),
    ("SQLITE_READONLY", _READ_ONLY),
    ("SQLITE_PERM", _READ_ONLY),
    ("SQLITE_CANTOPEN", _CANNOT_OPEN),
    ("SQLITE_NOTADB", _NOT_A_STORE),
    ("SQLITE_CORRUPT", _NOT_A_STORE),
    ("SQLITE_IOERR_SHMSIZE", _NO_SPACE),
    ("SQLITE_IOERR", _DISK),
    ("SQLITE_CONSTRAINT", _CONSTRAINT),
)
_POSTGRESQL: Final = (
    # Prefixes of SQLSTATE.
    ("40", _BUSY_SERVER),
    ("55P03", _LOCKED),
    ("57014", _BUSY_SERVER),
    ("57P04", _REFUSED),
    ("57P", _GONE),
    ("08", _GONE),
    ("53100", _NO_SPACE),
    ("53", _TOO_MANY),
    ("28", _REFUSED),
    ("3D000", _REFUSED),
    ("3F000", _NO_NAMESPACE),
    ("42P01", _OTHER_SCHEMA),
    ("42703", _OTHER_SCHEMA),
    ("42501", _FORBIDDEN),
    ("25006", _STANDBY),
    ("23", _CONSTRAINT),
)


def translate(error: Exception, *, location: str) -> StoreError:
    """*error*, raised by SQLAlchemy or a driver at work on the store at *location*, as one of ours.

    The text names the location and, where there is one, the database's own code; never a statement, its
    values, or the database's message, which may quote them.
    """
    meaning, code = _meaning(error)
    suffix = f" [{code}]" if code else ""
    return meaning.error(f"{meaning.text}: {location}{suffix}", hint=meaning.hint)


def code_of(error: BaseException) -> str | None:
    """The SQLSTATE or SQLite error name of *error* (SQLAlchemy's or a driver's); None when it has none."""
    orig = getattr(error, "orig", None) or error
    code = getattr(orig, "sqlstate", None) or getattr(orig, "sqlite_errorname", None)
    return code if isinstance(code, str) else None


def _meaning(error: Exception) -> tuple[_Meaning, str | None]:
    code = code_of(error)
    if code is not None:
        if code == "SQLITE_ERROR" and _lacks_something(error):
            return _OTHER_SCHEMA, code
        for prefix, meaning in (*_SQLITE, *_POSTGRESQL):
            if code.startswith(prefix):
                return meaning, code
    if isinstance(error, exc.TimeoutError):
        return _Meaning(StoreLocked, "all connections to the job store are in use", "try again"), None
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return _GONE, code
    if code is None and _is_operational(error):
        return _GONE, code
    return _UNKNOWN, code


def _lacks_something(error: Exception) -> bool:
    # SQLite has no code of its own for it, and its message is only looked at: it is not passed on.
    text = str(getattr(error, "orig", None) or error)
    return text.startswith(("no such table: ", "no such column: ")) or " has no column named " in text


def _is_operational(error: Exception) -> bool:
    # psycopg reports a broken connection as an OperationalError without SQLSTATE. Its classes are not
    # imported here: the command line opens SQLite stores without loading psycopg.
    orig = getattr(error, "orig", None) or error
    return any(c.__name__ == "OperationalError" for c in type(orig).__mro__)
