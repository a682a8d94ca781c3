"""Tells an idle worker that something was committed, so that it need not wait for its next look.

Only ever a hint: a worker looks at the store at intervals whether it was woken or not, so a notification that
is lost (a listener that died, a pooler that drops LISTEN) costs latency and nothing else.

PostgreSQL: a thread listens on a connection of its own and connects again when that dies. SQLite: the
`data_version` of the file is read every few milliseconds, which costs microseconds.
"""

import contextlib
import logging
import os
import select
import sqlite3
import threading
from typing import Any

from sqlalchemy import Connection, make_url, text

from aijobs.core.clock import SystemClock
from aijobs.core.errors import StoreError
from aijobs.store import dialect, postgresql, sqlite
from aijobs.store.engine import Store

log = logging.getLogger("aijobs.store")

CHANNEL = "aijobs"

_NOTIFY = text("SELECT pg_notify(:channel, '')")
_GLANCE = 0.005  # seconds between two looks at an SQLite file
_SELF_TEST = 2.0  # seconds a notification of our own may take before LISTEN counts as useless
_RETRY_FIRST, _RETRY_LAST = 0.1, 10.0  # seconds between attempts to connect: doubled from the first on
_RETRY_USELESS = 60.0  # seconds until a server that dropped LISTEN is given another chance


def notify(tx: Connection) -> None:
    """Wake the workers when *tx* commits: sent once a transaction; on SQLite the commit is the signal.

    What is sent within a savepoint may be rolled back with it, and does not count as sent.
    """
    transaction = tx.get_transaction()
    if not dialect.is_postgresql(tx) or tx.info.get("notified") is transaction:
        return
    if not tx.in_nested_transaction():
        tx.info["notified"] = transaction
    tx.execute(_NOTIFY, {"channel": CHANNEL})


class Wake:
    """Waits for commits of other sessions. One thread waits; any thread may interrupt or close.

    *healthy* is False while nobody would tell us: on PostgreSQL until the listener has heard a message of
    its own, while it connects again, and behind a pooler that drops LISTEN.
    """

    def __init__(self, store: Store, *, channel: str = CHANNEL) -> None:
        self._source: _Listener | _File = (
            _Listener(store, channel) if store.dialect == "postgresql" else _File(store)
        )

    @property
    def healthy(self) -> bool:
        return self._source.healthy

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds; True as soon as something was committed since the last call returned.

        False after the time, after `interrupt` and after `close`. Never raises for a store that is away.
        """
        return self._source.wait(timeout)

    def interrupt(self) -> None:
        """Let a wait that is going on, or else the next one, return at once."""
        self._source.interrupt()

    def close(self) -> None:
        """Stop listening and close the connection; a wait that is going on returns."""
        self._source.close()


class _File:
    """An SQLite file, seen through a connection that never writes: every change is somebody else's commit."""

    def __init__(self, store: Store) -> None:
        assert store.path is not None
        self.healthy = True
        self._path = store.path
        self._clock = SystemClock()
        self._interrupted = threading.Event()
        self._closed = False
        self._lock = threading.Lock()  # the waiting thread looks while another one closes
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None
        self._changed()

    def wait(self, timeout: float) -> bool:
        end = self._clock.monotonic() + timeout
        while not self._closed:
            if self._changed():
                return True
            left = end - self._clock.monotonic()
            if left <= 0:
                return False
            if self._interrupted.wait(min(left, _GLANCE if self.healthy else _RETRY_FIRST)):
                self._interrupted.clear()
                return False
        return False

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        self._closed = True
        self._interrupted.set()
        with self._lock:
            self._disconnect()

    def _changed(self) -> bool:
        with self._lock:
            if self._closed:
                return False
            try:
                version = self._version()
            except sqlite3.Error:
                self._disconnect()
                self.healthy = False
                return False
            # A new connection counts from anew, so the first look after a failure says "changed".
            changed = version != self._seen
            self._seen, self.healthy = version, True
            return changed

    def _version(self) -> int:
        if self._connection is None:
            self._connection = sqlite.connect(self._path, lock_wait=sqlite.LOCK_WAIT)
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._seen = None


class _Listener:
    """LISTEN on a session of its own, in a thread of its own, so that no wait ever hangs on the network."""

    def __init__(self, store: Store, channel: str) -> None:
        self.healthy = False
        self._store = store
        self._channel = channel
        self._clock = SystemClock()
        self._condition = threading.Condition()
        self._heard = self._interrupted = self._closed = self._reported = False
        self._alarm, self._bell = os.pipe()  # ends the thread's wait for the network
        self._thread = threading.Thread(target=self._run, name="aijobs-listener", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> bool:
        with self._condition:
            self._condition.wait_for(lambda: self._heard or self._interrupted or self._closed, timeout)
            heard = self._heard and not self._closed
            self._heard = self._interrupted = False
            return heard

    def interrupt(self) -> None:
        with self._condition:
            self._interrupted = True
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._condition.notify_all()
            os.write(self._bell, b"x")
        self._thread.join(timeout=postgresql.CONNECT_TIMEOUT + _SELF_TEST)

    def _run(self) -> None:
        retry = _RETRY_FIRST
        while not self._closed:
            try:
                with contextlib.closing(self._connect()) as session:
                    retry = _RETRY_FIRST if self._listen(session) else _RETRY_USELESS
            except (self._store.driver_error, OSError, StoreError) as error:
                self._report(f"no connection to listen on ({type(error).__name__})")
            if self.healthy:
                retry = _RETRY_FIRST  # a session that had listened is a new outage, not one more of the old
            self._set_health(healthy=False)
            select.select([self._alarm], [], [], retry)
            retry = min(retry * 2, _RETRY_LAST)
        with self._condition:  # whoever closes rings the bell under it
            os.close(self._alarm)
            os.close(self._bell)

    def _listen(self, session: Any) -> bool:
        """Listen until the session dies (an exception) or we close; False when LISTEN does not work here."""
        test = f"{self._channel}_{session.info.backend_pid}"
        heard: set[str] = set()
        session.add_notify_handler(lambda notice: self._hear(notice.channel, heard))
        session.execute(f'LISTEN "{self._channel}"')
        session.execute(f'LISTEN "{test}"')
        with self._store.write() as tx:
            tx.execute(_NOTIFY, {"channel": test})
        end = self._clock.monotonic() + _SELF_TEST
        while test not in heard and not self._closed:
            left = end - self._clock.monotonic()
            if left <= 0:
                self._report("notifications do not arrive (a transaction pooler?)")
                return False
            self._receive(session, heard, left)
        self._set_health(healthy=True)
        while not self._closed:
            self._receive(session, heard, None)
        return True

    def _receive(self, session: Any, heard: set[str], timeout: float | None) -> None:
        readable, _, _ = select.select([session.fileno(), self._alarm], [], [], timeout)
        if session.fileno() not in readable:
            return
        session.pgconn.consume_input()
        while notice := session.pgconn.notifies():
            self._hear(notice.relname.decode(), heard)

    def _hear(self, channel: str, heard: set[str]) -> None:
        heard.add(channel)
        if channel == self._channel:
            self._wake_waiter()

    def _connect(self) -> Any:
        return postgresql.connect_alone(self._store.engine, make_url(self._store.url), name="aijobs listener")

    def _set_health(self, *, healthy: bool) -> None:
        if healthy:
            self._reported = False
        with self._condition:  # whoever sees the change is woken by it
            if self.healthy != healthy:
                self._rouse()  # something may have been committed while nobody listened
            self.healthy = healthy

    def _wake_waiter(self) -> None:
        with self._condition:
            self._rouse()

    def _rouse(self) -> None:
        self._heard = True
        self._condition.notify_all()

    def _report(self, what: str) -> None:
        """One warning an outage, however often we try meanwhile."""
        if not self._reported:
            self._reported = True
            log.warning("%s: %s; new jobs are looked for at intervals", self._store.location, what)
