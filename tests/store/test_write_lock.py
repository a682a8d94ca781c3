"""Waiting for SQLite's write lock: who waits gets in, who dies or stops while waiting holds nobody up."""

import multiprocessing
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.store import sqlite, write_lock
from aijobs.store.engine import Store, open_store
from aijobs.store.write_lock import STAND_BACK, Sign, WriteLock, somebody_waits
from tests.support.clock import ManualClock
from tests.support.wait import eventually

_SPAWN = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
_WAITS = 10
_WAITER = """
import sys
from aijobs.store.engine import open_store
store = open_store(sys.argv[1])
print("waits", flush=True)
with store.write():
    print("writes", flush=True)
"""


class StoodBackError(Exception):
    """Raised instead of standing back."""


@pytest.fixture
def path(sqlite_store_url: str) -> Path:
    return Path(sqlite_store_url.removeprefix("sqlite:///"))


@pytest.fixture
def holder(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that has the write lock."""
    with connected(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def connected(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite.connect(path, lock_wait=5))


def lock_on(path: Path, sleep: Callable[[float], None], **changes: Any) -> WriteLock:
    return WriteLock(path, **{"wait": 10, "chance": seeded_chance(1), "sleep": sleep} | changes)


def sign_of(path: Path) -> Path:
    return path.with_name(path.name + write_lock.SUFFIX)


def refuse_to_wait(seconds: float) -> None:
    raise AssertionError(f"waited {seconds} s for nobody")


def pass_time(clock: ManualClock, seconds: float) -> None:
    clock.advance(seconds=max(seconds, 1e-6))  # the least it can move


def stand_back(seconds: float) -> None:
    assert seconds == STAND_BACK
    raise StoodBackError


# --- In good order --------------------------------------------------------------------------------


def write_on_and_on(url: str, turns: Any, stop: Any) -> None:
    """Count turns, each of some milliseconds with the lock, and none in between."""
    store = open_store(url)
    while not stop.is_set():
        with store.write():
            stop.wait(0.01)
            turns.value += 1
    store.close()


@contextmanager
def busy_writers(store: Store, how: Any, count: int) -> Iterator[list[Any]]:
    """So many threads or processes write as often as they can; their numbers of turns."""
    stop, turns = _SPAWN.Event(), [_SPAWN.Value("i", 0) for _ in range(count)]
    running = [how(target=write_on_and_on, args=(store.url, one, stop), daemon=True) for one in turns]
    for one in running:
        one.start()
    try:
        eventually(lambda: any(one.value for one in turns))
        yield turns
    finally:
        stop.set()
        for one in running:
            one.join()


@pytest.mark.parametrize(("how", "busy"), [(threading.Thread, 1), (_SPAWN.Process, 2)])
def test_a_writer_that_begins_again_at_once_keeps_nobody_out(
    sqlite_store_url: str, how: Any, busy: int
) -> None:
    store = open_store(sqlite_store_url)

    with busy_writers(store, how, busy) as turns:
        waited = [turns_until_we_write(store, turns) for _ in range(_WAITS)]

    assert sum(waited) < 10 * busy * _WAITS
    store.close()


def turns_until_we_write(store: Store, turns: list[Any]) -> int:
    """How often others write between our wish to do so and its fulfilment."""

    def taken() -> int:
        return sum(one.value for one in turns)

    before = taken()
    eventually(lambda: taken() > before, every=0.001)
    before = taken()
    with store.write():
        return taken() - before


def test_who_has_just_written_stands_back_for_who_waits(path: Path, holder: sqlite3.Connection) -> None:
    order: list[str] = []

    def let_go(_: float) -> None:
        if not somebody_waits(path):
            return  # the sign is given after the first try
        holder.execute("COMMIT")
        with pytest.raises(StoodBackError):
            lock_on(path, stand_back).begin(holder)
        order.append("stood back")

    with connected(path) as waiting:
        lock_on(path, let_go).begin(waiting)
        order.append("got in")
        waiting.execute("COMMIT")
        lock_on(path, refuse_to_wait).begin(holder)

    assert order == ["stood back", "got in"]
    assert not sign_of(path).exists()


def test_nobody_waits_for_an_empty_queue(path: Path) -> None:
    with connected(path) as connection:
        lock_on(path, refuse_to_wait).begin(connection)

        assert connection.in_transaction


def test_the_sign_stands_until_the_last_has_stopped_waiting(path: Path) -> None:
    with Sign(path) as first:
        with Sign(path) as second:
            first.give()
            second.give()
            both = somebody_waits(path)
        one = somebody_waits(path)

    assert (both, one, somebody_waits(path)) == (True, True, False)
    assert not sign_of(path).exists()


def test_who_waits_longer_tries_more_often(
    path: Path, holder: sqlite3.Connection, clock: ManualClock
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        pass_time(clock, seconds)

    with connected(path) as waiting, pytest.raises(sqlite3.OperationalError):
        lock_on(path, sleep, clock=clock).begin(waiting)

    assert sum(pauses[1:101]) > 3 * sum(pauses[-101:-1])
    assert min(pauses[1:-1]) > 0.0002  # seldom enough to cost nothing


# --- When nobody lets go --------------------------------------------------------------------------


def test_a_lock_that_is_never_let_go_is_waited_for_exactly_as_long_as_was_said(
    path: Path, holder: sqlite3.Connection, clock: ManualClock
) -> None:
    with connected(path) as waiting:
        with pytest.raises(sqlite3.OperationalError) as caught:
            lock_on(path, partial(pass_time, clock), clock=clock).begin(waiting)
        left = waiting.execute("PRAGMA busy_timeout").fetchone()

    assert caught.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
    assert clock.monotonic() == pytest.approx(10)
    assert not sign_of(path).exists()
    assert left == (10_000,)  # for what SQLite itself has to wait for


def test_what_is_no_matter_of_waiting_is_told_at_once(path: Path) -> None:
    with connected(path) as connection:
        connection.execute("BEGIN")

        with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
            lock_on(path, refuse_to_wait).begin(connection)


# --- Those who die, stop or may not ---------------------------------------------------------------


@contextmanager
def waiting_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for the lock and has said so."""
    words = [sys.executable, "-c", _WAITER, f"sqlite:///{path}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: somebody_waits(path))
            yield process
        finally:
            process.kill()


def test_a_process_killed_while_it_waits_leaves_nothing_behind(
    path: Path, holder: sqlite3.Connection
) -> None:
    with waiting_process(path) as process:
        process.kill()
        process.wait()
        left = sign_of(path).exists()
        holder.execute("COMMIT")
        lock_on(path, refuse_to_wait).begin(holder)

    assert left
    assert not sign_of(path).exists()


def test_a_process_killed_while_it_writes_lets_the_next_one_in(path: Path, sqlite_store_url: str) -> None:
    program = _WAITER + "    sys.stdin.read()\n"
    words = [sys.executable, "-c", program, sqlite_store_url]
    store = open_store(sqlite_store_url)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["waits\n", "writes\n"]
        with waiting_process(path) as other:
            process.kill()
            assert other.stdout is not None
            assert other.stdout.read() == "waits\nwrites\n"

    with store.write():
        assert not sign_of(path).exists()
    store.close()


def test_a_process_stopped_while_it_waits_costs_the_others_no_more_than_manners(
    path: Path, holder: sqlite3.Connection
) -> None:
    pauses: list[float] = []
    with waiting_process(path) as process:
        process.send_signal(signal.SIGSTOP)
        holder.execute("COMMIT")
        lock_on(path, pauses.append).begin(holder)
        process.send_signal(signal.SIGCONT)

    assert pauses == [STAND_BACK]


def test_where_no_sign_can_be_given_one_waits_all_the_same(path: Path, holder: sqlite3.Connection) -> None:
    sign_of(path).mkdir()
    pauses: list[float] = []

    def let_go(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            holder.execute("COMMIT")

    with connected(path) as waiting:
        lock_on(path, let_go).begin(waiting)

        assert waiting.in_transaction
    assert len(pauses) == 3


def test_a_sign_that_was_removed_by_another_hand_is_no_sign(path: Path) -> None:
    with Sign(path) as sign:
        sign.give()
        sign_of(path).unlink()

        assert not somebody_waits(path)
    assert not sign_of(path).exists()


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    sign_of(path).symlink_to(tmp_path / "other")

    with Sign(path) as sign:
        sign.give()

        assert not somebody_waits(path)
    assert (tmp_path / "other").exists()


def test_the_sign_may_be_seen_by_those_who_may_use_the_store_and_by_nobody_else(path: Path) -> None:
    path.chmod(0o640)

    with Sign(path) as sign:
        sign.give()
        mode = stat.S_IMODE(sign_of(path).stat().st_mode)

    assert mode == 0o640


def test_two_names_of_one_file_share_the_sign(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)

    with Sign(path) as sign, connected(path) as connection:
        sign.give()
        with pytest.raises(StoodBackError):
            lock_on(tmp_path / "link.db", stand_back).begin(connection)
