"""A PostgreSQL store: how we connect, and the server's clock, by which all machines agree on the time."""

import logging
import select
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc

from aijobs.core.clock import Clock, SystemClock
from aijobs.core.errors import StoreUnreachable, UsageError

# What the driver says of a lost connection our errors say better. An application's own log still hears it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

CONNECT_TIMEOUT = 10
"""Seconds one attempt to connect may take."""

LONGEST_PAUSE = "30s"
"""How long a transaction that writes may be silent between two statements before the server ends it."""

_IDLE_CHECK = 30.0  # seconds after which an idle connection is tried before it is used
_REFRESH = 60.0  # seconds after which the server's clock is read again
_JUMP = 1.0  # seconds by which wall and monotonic clock may part before the measurement is distrusted
_SLOW = 1.0  # seconds an answer may take: it is wrong by up to half of that
_AGAIN = 5.0  # seconds until the clock is read again after a slow answer
_REPEATABLE_READ = 3  # of psycopg.IsolationLevel
_DEFAULTS: dict[str, object] = {
    "application_name": "aijobs",
    "connect_timeout": CONNECT_TIMEOUT,
    # A half-open connection is noticed within a minute, not after the system's two hours.
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


@dataclass(frozen=True, slots=True)
class _Measurement:
    """What the three clocks showed at one instant, and how long the server's answer had been on its way."""

    server: datetime
    monotonic: float
    wall: datetime
    trip: float


class ServerClock:
    """The server's time, told between measurements by this machine's monotonic clock.

    A wall clock that is wrong, or is set while we run, changes nothing; nor does an answer that was slow,
    when there is a better one.
    """

    def __init__(self, host: Clock | None = None) -> None:
        self._host = host or SystemClock()
        self._lock = threading.Lock()
        self._base: _Measurement | None = None
        self._again = 0.0  # monotonic time before which an old measurement is not replaced

    def now(self) -> datetime:
        base = self._base
        if base is None:
            return self._host.now()
        return base.server + timedelta(seconds=self._host.monotonic() - base.monotonic)

    def monotonic(self) -> float:
        return self._host.monotonic()

    def skew(self) -> timedelta:
        """How far the server's clock is ahead of this machine's."""
        return self.now() - self._host.now()

    def is_stale(self) -> bool:
        """Whether to measure again: a minute has passed, or this machine slept or had its clock set."""
        base = self._base
        if base is None or self._has_jumped(base):
            return True
        now = self._host.monotonic()
        return now >= self._again and (base.trip > _SLOW or now - base.monotonic > _REFRESH)

    def measured(self, server: datetime, *, before: float, after: float) -> None:
        """Take over *server*, read between the two monotonic times, unless it was slow and we know better."""
        trip = after - before
        found = _Measurement(
            server=server.astimezone(UTC), monotonic=(before + after) / 2,
            wall=self._host.now() - timedelta(seconds=trip / 2), trip=trip,
        )  # fmt: skip
        with self._lock:
            if trip > _SLOW:
                self._again = after + _AGAIN
            base = self._base
            if base is None or trip <= max(_SLOW, base.trip) or self._has_jumped(base):
                self._base = found

    def _has_jumped(self, base: _Measurement) -> bool:
        passed = self._host.monotonic() - base.monotonic
        return abs((self._host.now() - base.wall).total_seconds() - passed) > _JUMP


def open_engine(url: URL, clock: ServerClock) -> Engine:
    """An engine over the server at *url* (as `parse_url` gives it).

    Nothing depends on session state, so a transaction pooler may stand between: every setting is made inside
    a transaction, and with `prepare_threshold=none` in the URL no statement is prepared on the server.
    """
    bare, settings = _arguments(url)
    engine = create_engine(
        bare,
        connect_args=settings,
        pool_size=5,
        max_overflow=5,
        pool_timeout=30,
        hide_parameters=True,
        use_native_hstore=False,
    )
    event.listen(engine, "connect", lambda connection, record: _connected(connection, record, clock))
    event.listen(engine, "checkout", lambda connection, record, _: _checked_out(connection, record, clock))
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", lambda _, record: record.info.__setitem__("used", clock.monotonic()))
    return engine


def connect_alone(engine: Engine, url: URL, *, name: str) -> Any:
    """A psycopg connection outside the pool, in autocommit; *name* is its name in the server's list."""
    import psycopg

    bare, settings = _arguments(url)
    args, found = engine.dialect.create_connect_args(bare)
    return psycopg.connect(*args, **{**found, **settings, "application_name": name}, autocommit=True)


def read_clock(execute: Any, clock: ServerClock) -> None:
    """Measure the server's clock; *execute* runs one statement and returns its cursor or result."""
    before = clock.monotonic()
    (server,) = execute("SELECT clock_timestamp()").fetchone()
    clock.measured(server, before=before, after=clock.monotonic())


def location_of(url: URL) -> str:
    """Where the store is, for people: no password, no options."""
    host = url.host or url.normalized_query.get("host", ("",))[0]
    port = f":{url.port}" if url.port else ""
    user = f"{url.username}@" if url.username else ""
    return f"postgresql://{user}{host}{port}/{url.database or ''}"


def refused(error: Exception, *, location: str) -> StoreUnreachable:
    """A failed attempt to connect, in the server's or the resolver's words, which never have the password."""
    orig = getattr(error, "orig", None) or error
    connection = getattr(orig, "pgconn", None)
    if connection is not None and connection.needs_password:
        hint = "the server asks for a password: put it in the URL, in PGPASSWORD or in ~/.pgpass"
    else:
        hint = "check host, port, user, password and database name in the URL, and that the server runs"
    lines = [line.strip(" \t-") for line in str(orig).splitlines() if line.strip()]
    return StoreUnreachable(f"cannot connect to {location}: {lines[0] if lines else 'no answer'}", hint=hint)


def _arguments(url: URL) -> tuple[URL, dict[str, object]]:
    """*url* for SQLAlchemy, and what psycopg is told besides: our defaults where the URL says nothing."""
    query = dict(url.query)
    prepare = _prepare_threshold(query.pop("prepare_threshold", None))
    settings = {name: value for name, value in _DEFAULTS.items() if name not in query}
    return url.set(drivername="postgresql+psycopg", query=query), settings | prepare


def _prepare_threshold(value: str | tuple[str, ...] | None) -> dict[str, object]:
    if value is None:
        return {}
    if value == "none":
        return {"prepare_threshold": None}
    if isinstance(value, str) and value.isdigit():
        return {"prepare_threshold": int(value)}
    raise UsageError("prepare_threshold in the database URL must be a whole number or `none`")


def _connected(connection: Any, record: Any, clock: ServerClock) -> None:
    record.info["used"] = clock.monotonic()
    if connection.info.parameter_status("TimeZone") != "UTC":
        _read_times_as_utc(connection)
    connection.autocommit = True  # where a transaction begins, `_begin` says so
    read_clock(connection.execute, clock)


def _read_times_as_utc(connection: Any) -> None:
    # Setting the session's zone instead would be session state, which a pooler hands to somebody else.
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    oid = connection.adapters.types["timestamptz"].oid
    # In C where psycopg has it, and then no base class.
    fast = connection.adapters.get_loader(oid, Format.TEXT)

    class UtcLoader(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = fast(oid, context).load

        def load(self, data: Any) -> datetime:
            return self._load(data).astimezone(UTC)  # type: ignore[no-any-return]

    connection.adapters.register_loader("timestamptz", UtcLoader)


def _checked_out(connection: Any, record: Any, clock: ServerClock) -> None:
    """Replace a connection the server has closed meanwhile; a healthy one costs no round trip."""
    idle = clock.monotonic() - record.info["used"]
    if idle < _IDLE_CHECK and not _has_news(connection):
        return
    try:
        begins = connection.autocommit
        connection.autocommit = True
        connection.execute("")
        connection.autocommit = begins
    except (
        Exception
    ) as error:  # whatever it is: the pool opens another one, and that error is the one to show
        raise exc.DisconnectionError from error


def _begin(connection: Connection) -> None:
    """Begin as the execution options ask; psycopg is told only of a change, because most follow their like.

    `aijobs_read`: the transaction sees one moment of the store and cannot write. `aijobs_at_once`: there is
    none, each statement commits itself. Otherwise it writes, and is bounded unless `aijobs_unbounded`: what a
    process locks that was stopped, or whose machine is gone, would stay locked, and sooner or later every
    claim waits for it. The bound is set by the message that begins, so it costs no round trip, and no session
    keeps it.
    """
    options = connection.get_execution_options()
    read = options.get("aijobs_read", False)
    info = connection.info
    dbapi: Any = connection.connection.dbapi_connection
    if read != info.get("read", False):
        dbapi.autocommit = not read
        dbapi.isolation_level = _REPEATABLE_READ if read else None
        dbapi.read_only = True if read else None
        info["read"] = read
    if read or options.get("aijobs_at_once", False):
        return
    try:
        # Two commands cannot be prepared, which `prepare_threshold=0` asks for.
        dbapi.execute("BEGIN" if options.get("aijobs_unbounded", False) else _begin_bounded(), prepare=False)
    except connection.dialect.loaded_dbapi.Error as error:
        connection.invalidate(error)  # as SQLAlchemy does when it hears of it; here it does not
        raise


def _begin_bounded() -> str:
    return f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = '{LONGEST_PAUSE}'"


def _has_news(connection: Any) -> bool:
    """Whether the server said something unasked: to a connection at rest it only says that it hangs up."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
