"""PostgreSQL stores: connecting, losing the server, its clock, and a pooler in between."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from aijobs.core.errors import SchemaMismatch, StoreError, StoreLocked, StoreUnreachable, UsageError
from aijobs.store import dialect, postgresql
from aijobs.store.engine import Store, open_store
from tests.store.test_engine import count, set_switch
from tests.support.clock import ManualClock
from tests.support.pooler import Pooler, running_pooler
from tests.support.postgres import Server

pytestmark = pytest.mark.postgres
SECRET = "open-sesame"


@pytest.fixture
def postgres_store(postgres_store_url: str) -> Iterator[Store]:
    store = open_store(postgres_store_url)
    yield store
    store.close()


@pytest.fixture
def pooler(own_server: Server) -> Iterator[Pooler]:
    with tempfile.TemporaryDirectory(prefix="pooler-") as folder, own_server.new_schema() as url:
        open_store(url, create=True).close()
        with running_pooler(Path(folder), url=url) as running:
            yield running


def _refused(url: str) -> StoreUnreachable:
    with pytest.raises(StoreUnreachable) as caught:
        open_store(url, create=True)
    error = caught.value
    assert "\n" not in error.message
    assert error.message.startswith("cannot connect to postgresql://")
    assert SECRET not in error.message + str(error.hint)
    return error


def _end_sessions(server: Server) -> None:
    server.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'aijobs'"
    )


# --- Connecting -----------------------------------------------------------------------------------


def test_a_wrong_password_is_one_clear_line_without_the_password(own_server: Server) -> None:
    error = _refused(own_server.url_of(user=f"guarded:{SECRET}"))

    assert "guarded" in error.message
    assert error.exit_code == 5


def test_a_missing_password_is_asked_for(own_server: Server) -> None:
    error = _refused(own_server.url_of(user="guarded"))

    assert error.hint is not None
    assert "PGPASSWORD" in error.hint


def test_an_unknown_database_is_named(postgres_server: Server) -> None:
    assert "nosuch" in _refused(postgres_server.url_of(database="nosuch")).message


def test_an_unknown_host_is_named() -> None:
    assert "nosuch.invalid" in _refused(f"postgresql://ann:{SECRET}@nosuch.invalid/jobs").message


def test_a_server_that_does_not_listen_is_named() -> None:
    assert "127.0.0.1:9" in _refused(f"postgresql://ann:{SECRET}@127.0.0.1:9/jobs").message


def test_an_unknown_option_is_named(postgres_server: Server) -> None:
    assert "frobnicate" in _refused(f"{postgres_server.url_of()}&frobnicate=1").message


@pytest.mark.parametrize(
    "url",
    [
        f"postgres:/ann:{SECRET}@host/jobs",
        f"postgresql://ann:{SECRET}@host:port/jobs",
        f"postgresql://ann:a@{SECRET}@host/jobs",
        f"postgresql://ann:pass@host/jobs?prepare_threshold={SECRET}",
        f"mysql://ann:{SECRET}@host/jobs",
        f"ann:{SECRET}@host",
    ],
)
def test_a_mistyped_url_is_a_usage_error_that_does_not_repeat_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)

    assert SECRET not in caught.value.message + str(caught.value.hint)
    assert caught.value.__cause__ is None


def test_the_short_scheme_works_and_no_password_is_shown(postgres_server: Server, postgres_url: str) -> None:
    url = postgres_url.replace("postgresql://aijobs@", f"postgres://aijobs:{SECRET}@")

    store = open_store(url, create=True)

    assert store.created
    assert SECRET not in f"{store!r} {store.location}"
    store.close()


def test_our_sessions_can_be_told_by_their_name(postgres_store: Store) -> None:
    with postgres_store.read() as tx:
        name = tx.execute(text("SELECT current_setting('application_name')")).scalar_one()

    assert name == "aijobs"


def test_a_search_path_that_names_nothing_is_explained(postgres_server: Server) -> None:
    with pytest.raises(StoreUnreachable, match="search path"):
        open_store(postgres_server.url_of(schema="nosuch"), create=True)


def test_tables_of_another_program_are_not_touched(postgres_server: Server, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE jobs (title text)")

    with pytest.raises(SchemaMismatch, match="not ours: jobs"):
        open_store(postgres_url, create=True)


# --- Losing the server ----------------------------------------------------------------------------


def test_sessions_ended_between_transactions_are_replaced_unnoticed(
    postgres_store: Store, postgres_server: Server
) -> None:
    set_switch(postgres_store)
    _end_sessions(postgres_server)

    assert count(postgres_store) == 1


def test_a_session_that_ends_inside_a_transaction_is_an_error_and_the_next_one_works(
    postgres_store: Store, postgres_server: Server
) -> None:
    def write_and_be_cut_off() -> None:
        with postgres_store.write() as tx:
            tx.execute(text("SELECT 1"))
            _end_sessions(postgres_server)
            tx.execute(text("SELECT 1"))

    with pytest.raises(StoreUnreachable, match="connection to the job store was lost"):
        write_and_be_cut_off()
    set_switch(postgres_store)

    assert count(postgres_store) == 1


@pytest.mark.parametrize(
    ("sqlstate", "error", "words"),
    [
        ("40001", StoreLocked, "gave up on a lock"),
        ("40P01", StoreLocked, "gave up on a lock"),
        ("55P03", StoreLocked, "another process held the lock"),
        ("53100", StoreUnreachable, "no space is left"),
        ("53300", StoreUnreachable, "out of connections"),
        ("42501", StoreUnreachable, "lacks a right"),
        ("25006", StoreUnreachable, "read-only"),
        ("42P01", SchemaMismatch, "lacks a table"),
        ("23505", StoreError, "contradict its rules"),
        ("22012", StoreError, "answered with an error"),
    ],
)
def test_an_error_is_known_by_its_code(
    postgres_store: Store, sqlstate: str, error: type[StoreError], words: str
) -> None:
    statement = f"DO $$ BEGIN RAISE EXCEPTION '{SECRET}' USING ERRCODE = '{sqlstate}'; END $$"

    with pytest.raises(error, match=words) as caught, postgres_store.write() as tx:
        tx.execute(text(statement))

    assert type(caught.value) is error
    assert sqlstate in caught.value.message
    assert SECRET not in caught.value.message


def test_a_named_lock_is_waited_for_only_so_long(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "LOCK_WAIT", "20ms")

    with postgres_store.write() as holder:
        dialect.take_lock(holder, 7)
        with postgres_store.write() as other:
            dialect.take_lock(other, 8)
        with pytest.raises(StoreLocked), postgres_store.write() as third:
            dialect.take_lock(third, 7)


def test_a_session_that_ends_as_a_transaction_begins_is_an_error_and_the_next_one_works(
    postgres_server: Server, postgres_store: Store, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(postgresql, "_has_news", lambda _: False)  # it ends after the look
    _end_sessions(postgres_server)

    with pytest.raises(StoreUnreachable), postgres_store.write():
        pytest.fail("nothing can have begun")
    with postgres_store.write() as tx:
        assert tx.scalar(text("SELECT 1")) == 1
    assert caplog.records == []


def test_transactions_begin_where_every_statement_is_prepared(postgres_store_url: str) -> None:
    with closing(open_store(f"{postgres_store_url}&prepare_threshold=0")) as store:
        for door in (store.write, store.read, store.at_once):
            with door() as tx:
                assert tx.scalar(text("SELECT 1")) == 1


def test_the_wait_for_a_lock_is_not_left_behind_in_the_session(postgres_store: Store) -> None:
    with postgres_store.write() as tx:
        dialect.take_lock(tx, 7)
        inside = tx.execute(text("SELECT current_setting('lock_timeout')")).scalar_one()
    with postgres_store.write() as tx:
        after = tx.execute(text("SELECT current_setting('lock_timeout')")).scalar_one()

    assert (inside, after) == (dialect.LOCK_WAIT, "0")


# --- The server's clock ---------------------------------------------------------------------------


def test_a_machine_with_a_wrong_clock_goes_by_the_servers() -> None:
    host = ManualClock(datetime(2031, 5, 5, tzinfo=UTC))
    clock = postgresql.ServerClock(host)

    clock.measured(datetime(2026, 1, 1, tzinfo=UTC), before=host.monotonic(), after=host.monotonic())
    host.advance(seconds=30)

    assert clock.now() == datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    assert clock.skew() == datetime(2026, 1, 1, tzinfo=UTC) - datetime(2031, 5, 5, tzinfo=UTC)


def test_half_of_the_round_trip_is_taken_off() -> None:
    host = ManualClock()
    clock = postgresql.ServerClock(host)
    before = host.monotonic()
    host.advance(seconds=4)

    clock.measured(datetime(2026, 1, 1, tzinfo=UTC), before=before, after=host.monotonic())

    assert clock.now() == datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)


def measure(clock: postgresql.ServerClock, host: ManualClock, *, seconds: float) -> None:
    """Read the clock of a server whose wall clock is the host's; the answer is *seconds* on its way."""

    def execute(statement: str) -> Any:
        found = (host.now(),)
        host.advance(seconds=seconds)
        return SimpleNamespace(fetchone=lambda: found)

    postgresql.read_clock(execute, clock)


def test_a_slow_answer_does_not_replace_a_good_one() -> None:
    host = ManualClock()
    clock = postgresql.ServerClock(host)
    measure(clock, host, seconds=0.01)
    host.advance(seconds=61)

    measure(clock, host, seconds=10)

    assert abs(clock.skew()) < timedelta(seconds=0.1)
    assert not clock.is_stale()  # not with each transaction that follows
    host.advance(seconds=5)
    assert clock.is_stale()


def test_a_slow_answer_serves_until_there_is_a_better_one() -> None:
    host = ManualClock()
    clock = postgresql.ServerClock(host)
    measure(clock, host, seconds=10)
    off, asked_at_once = abs(clock.skew()), clock.is_stale()
    host.advance(seconds=5)

    asked_again = clock.is_stale()
    measure(clock, host, seconds=2)

    assert (off, asked_at_once, asked_again) == (timedelta(seconds=5), False, True)
    assert abs(clock.skew()) == timedelta(seconds=1)


def test_after_a_sleep_a_slow_answer_is_better_than_what_was_known() -> None:
    host = ManualClock()
    clock = postgresql.ServerClock(host)
    measure(clock, host, seconds=0.01)
    host.set(host.now() + timedelta(days=1))

    measure(clock, host, seconds=4)

    assert abs(clock.skew()) == timedelta(seconds=2)


def test_a_wall_clock_that_is_set_changes_nothing_and_asks_for_a_measurement() -> None:
    host = ManualClock()
    clock = postgresql.ServerClock(host)
    clock.measured(datetime(2026, 1, 1, tzinfo=UTC), before=0, after=0)

    host.set(host.now() + timedelta(hours=1))

    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    assert clock.is_stale()


def test_a_measurement_is_good_for_a_minute() -> None:
    host = ManualClock()
    clock = postgresql.ServerClock(host)
    assert clock.is_stale()
    clock.measured(datetime(2026, 1, 1, tzinfo=UTC), before=0, after=0)

    fresh = clock.is_stale()
    host.advance(seconds=61)

    assert (fresh, clock.is_stale()) == (False, True)


def test_a_store_tells_the_servers_time_and_measures_again_when_that_is_old(postgres_store: Store) -> None:
    clock = postgres_store.clock
    assert isinstance(clock, postgresql.ServerClock)
    clock.measured(datetime(2000, 1, 1, tzinfo=UTC), before=-1000, after=-1000)
    assert clock.now().year < 2002

    with postgres_store.read() as tx:
        server = tx.execute(text("SELECT clock_timestamp()")).scalar_one()

    assert abs(clock.now() - server) < timedelta(seconds=10)


# --- A pooler in between --------------------------------------------------------------------------


def test_everything_works_behind_a_transaction_pooler(pooler: Pooler) -> None:
    url = f"postgresql://aijobs@/aijobs?host={pooler.folder}&prepare_threshold=none"
    first, second = open_store(url), open_store(url)

    for number in range(12):
        set_switch(first, f"a{number}")
        assert count(second) == number + 1

    assert pooler.prepared == []
    assert pooler.settings == []
    first.close()
    second.close()


def test_without_the_option_statements_are_prepared_on_the_server(pooler: Pooler) -> None:
    store = open_store(f"postgresql://aijobs@/aijobs?host={pooler.folder}&prepare_threshold=2")

    with store.read() as tx:
        for _ in range(4):
            tx.execute(text("SELECT 1"))

    assert pooler.prepared != []
    store.close()
