"""Waking an idle worker, and what happens when the messenger is lost."""

import itertools
import select
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, insert

from aijobs.store import wake
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import switches
from aijobs.store.wake import Wake, notify
from tests.store.test_engine import switch
from tests.support.pooler import running_pooler
from tests.support.postgres import Server
from tests.support.wait import eventually
from tests.support.waking import listening

_numbers = itertools.count(1)

LONG = 30.0
"""Seconds no test waits for unless it fails."""


@pytest.fixture
def waking(store: Store) -> Iterator[Wake]:
    with listening(store) as opened:
        yield opened


def commit(store: Store) -> None:
    """What enqueueing does, as far as waking is concerned."""
    with store.write() as tx:
        tx.execute(insert(switches), switch(store, str(next(_numbers))))
        notify(tx)


def _end_listener(server: Server) -> None:
    listeners = "FROM pg_stat_activity WHERE application_name = 'aijobs listener'"
    server.execute(f"SELECT pg_terminate_backend(pid, 5000) {listeners}")


def test_a_commit_wakes_the_one_who_waits(waking: Wake, store: Store) -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(waking.wait(LONG)), daemon=True)
    thread.start()

    commit(store)
    thread.join()

    assert answers == [True]


def test_a_commit_before_the_wait_is_not_missed(waking: Wake, store: Store) -> None:
    commit(store)

    assert waking.wait(LONG)


def test_one_commit_wakes_once(waking: Wake, store: Store) -> None:
    commit(store)
    assert waking.wait(LONG)

    assert not waking.wait(0.02)


def test_a_transaction_that_is_undone_wakes_nobody(waking: Wake, store: Store) -> None:
    def fail() -> None:
        with store.write() as tx:
            notify(tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert not waking.wait(0.02)


def test_an_interrupted_wait_returns_without_news(waking: Wake) -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(waking.wait(LONG)), daemon=True)
    thread.start()

    waking.interrupt()
    thread.join()

    assert answers == [False]
    assert waking.healthy


def test_an_interruption_before_the_wait_counts_once(waking: Wake, store: Store) -> None:
    waking.interrupt()

    assert not waking.wait(LONG)
    commit(store)
    assert waking.wait(LONG)


def test_closing_ends_a_wait_and_may_be_repeated(waking: Wake) -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(waking.wait(LONG)), daemon=True)
    thread.start()

    waking.close()
    thread.join()
    waking.close()

    assert answers == [False]
    assert not waking.wait(LONG)


def test_one_transaction_notifies_once_and_the_next_one_again(store: Store) -> None:
    sent: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *arguments: sent.append(arguments[2]))

    for _ in range(2):
        with store.write() as tx:
            notify(tx)
            notify(tx)

    assert len([s for s in sent if "pg_notify" in s]) == (2 if store.dialect == "postgresql" else 0)


# --- PostgreSQL: a listener that is lost ----------------------------------------------------------


@pytest.fixture
def postgres_store(postgres_store_url: str) -> Iterator[Store]:
    store = open_store(postgres_store_url)
    yield store
    store.close()


@pytest.mark.postgres
def test_a_listener_that_was_ended_wakes_the_worker_and_listens_again(
    postgres_store: Store, postgres_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    waking = Wake(postgres_store)
    eventually(lambda: waking.healthy)
    while waking.wait(0):
        pass

    _end_listener(postgres_server)

    assert waking.wait(LONG)  # something may have been missed, so look now
    eventually(lambda: waking.healthy)
    while waking.wait(0):
        pass
    commit(postgres_store)
    assert waking.wait(LONG)
    assert caplog.text.count("no connection to listen on") == 1
    waking.close()


@pytest.mark.postgres
def test_a_listener_that_is_lost_time_and_again_is_back_as_soon_as_the_first_time(
    postgres_store: Store, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float | None] = []
    real = select.select

    def noted(readers: list[int], *more: object) -> object:
        if len(readers) == 1:  # the alarm alone: the pause before it connects again
            pauses.append(more[-1])  # type: ignore[arg-type]  # seconds
        return real(readers, *more)  # type: ignore[call-overload]  # as it was called

    monkeypatch.setattr(wake.select, "select", noted)
    waking = Wake(postgres_store)
    for _ in range(3):
        eventually(lambda: waking.healthy)
        known = len(pauses)
        _end_listener(postgres_server)
        eventually(lambda known=known: len(pauses) > known)
    eventually(lambda: waking.healthy)
    waking.close()

    assert pauses[0] == pauses[-1]


@pytest.mark.postgres
def test_while_no_listener_can_connect_waits_end_on_time_and_one_warning_is_given(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[None] = []

    def fail(*_: object, **__: object) -> None:
        tries.append(None)
        raise OSError

    monkeypatch.setattr(wake, "_RETRY_FIRST", 0.001)
    monkeypatch.setattr(wake.postgresql, "connect_alone", fail)
    waking = Wake(postgres_store)

    eventually(lambda: len(tries) > 3)

    assert not waking.wait(0.01)
    assert not waking.healthy
    assert caplog.text.count("looked for at intervals") == 1
    waking.close()


@pytest.mark.postgres
def test_a_pooler_that_drops_listen_is_found_out_and_waits_end_on_time(
    own_server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wake, "_SELF_TEST", 0.2)
    with tempfile.TemporaryDirectory(prefix="pooler-") as folder, own_server.new_schema() as url:
        open_store(url, create=True).close()
        with running_pooler(Path(folder), url=url):
            store = open_store(f"postgresql://aijobs@/aijobs?host={folder}&prepare_threshold=none")
            waking = Wake(store)

            eventually(lambda: "transaction pooler?" in caplog.text)
            commit(store)

            assert not waking.wait(0.05)
            assert not waking.healthy
            waking.close()
            store.close()


@pytest.mark.postgres
def test_the_listener_does_not_use_up_the_pool(postgres_store: Store) -> None:
    waking = Wake(postgres_store)
    eventually(lambda: waking.healthy)

    assert postgres_store.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    waking.close()


def test_an_sqlite_file_that_cannot_be_read_only_costs_time(sqlite_store_url: str, tmp_path: Path) -> None:
    store = open_store(sqlite_store_url)
    waking = Wake(store)
    waking._source._disconnect()  # type: ignore[union-attr]
    (tmp_path / "store.db").rename(tmp_path / "away.db")
    assert not waking.wait(0.02)
    assert not waking.healthy
    (tmp_path / "away.db").rename(tmp_path / "store.db")

    assert waking.wait(LONG)
    assert waking.healthy
    waking.close()
    store.close()
