"""SQLite stores: paths, files, locks and what can be wrong with a disk."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from aijobs.core.errors import StoreLocked, StoreUnreachable, UsageError
from aijobs.store import sqlite
from aijobs.store.engine import Store, open_store
from tests.store.test_engine import count, set_switch
from tests.support.clock import ManualClock
from tests.support.people import ordinary_user


@pytest.fixture
def sqlite_store(sqlite_store_url: str) -> Iterator[Store]:
    store = open_store(sqlite_store_url)
    yield store
    store.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def _refused(url: str, *, create: bool = False) -> StoreUnreachable:
    with pytest.raises(StoreUnreachable) as caught:
        open_store(url, create=create)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_mistyped_path_makes_no_file(tmp_path: Path) -> None:
    error = _refused(f"sqlite:///{tmp_path}/jbos.db")

    assert str(tmp_path / "jbos.db") in error.message
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_named_and_not_made(tmp_path: Path) -> None:
    error = _refused(f"sqlite:///{tmp_path}/data/jobs.db", create=True)

    assert error.message == f"no such directory: {tmp_path}/data"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_not_a_store(tmp_path: Path) -> None:
    assert "is a directory" in _refused(f"sqlite:///{tmp_path}", create=True).message


def test_a_pipe_is_not_a_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert "not a regular file" in _refused(f"sqlite:///{tmp_path}/pipe", create=True).message


@pytest.mark.parametrize("create", [True, False])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, create: bool) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("remember the milk\n" * 100)

    error = _refused(f"sqlite:///{notes}", create=create)

    assert "not an SQLite database" in error.message
    assert str(notes) in error.message
    assert notes.read_text() == "remember the milk\n" * 100


def test_an_empty_file_is_not_a_store_but_may_become_one(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()

    _refused(f"sqlite:///{path}")
    store = open_store(f"sqlite:///{path}", create=True)

    assert store.created
    store.close()


def test_a_file_without_the_right_to_write_is_refused_at_once(open_folder: Path) -> None:
    path = open_folder / "jobs.db"
    open_store(f"sqlite:///{path}", create=True).close()
    path.chmod(0o444)

    with ordinary_user():
        error = _refused(f"sqlite:///{path}")

    assert error.message == f"the job store cannot be written to: {path} (no right to write {path})"


def test_a_folder_without_the_right_to_write_is_refused_at_once(open_folder: Path) -> None:
    path = open_folder / "jobs.db"
    open_store(f"sqlite:///{path}", create=True).close()
    path.chmod(0o666)
    open_folder.chmod(0o555)

    with ordinary_user():
        error = _refused(f"sqlite:///{path}")
        new = _refused(f"sqlite:///{open_folder}/new.db", create=True)

    assert f"no right to write {open_folder}" in error.message
    assert "Permission denied" in new.message


def test_a_file_system_that_is_read_only_is_told_from_a_missing_right(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = open_folder / "jobs.db"
    open_store(f"sqlite:///{path}", create=True).close()
    path.chmod(0o444)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))

    with ordinary_user():
        error = _refused(f"sqlite:///{path}")

    assert f"{path} is on a file system that is read-only" in error.message


def test_a_disk_that_is_full_at_the_start_leaves_no_file(tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "from aijobs.core.errors import StoreUnreachable\n"
        "from aijobs.store.engine import open_store\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))\n"
        "try:\n"
        "    open_store(sys.argv[1], create=True)\n"
        "except StoreUnreachable as error:\n"
        "    print(error)\n"
    )
    # -B: half a cache of a module would outlive the limit
    command = [sys.executable, "-B", "-c", program, f"sqlite:///{tmp_path}/jobs.db"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert str(tmp_path / "jobs.db") in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_is_one_clear_error_and_work_goes_on_when_space_returns(
    sqlite_store: Store,
) -> None:
    def limit(pages: int) -> None:
        with sqlite_store.write() as tx:
            tx.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    limit(1)  # SQLite takes the present size instead

    with pytest.raises(StoreUnreachable, match="no space is left") as caught:
        set_switch(sqlite_store, "x" * 100_000)
    limit(1_000_000)
    set_switch(sqlite_store, "x" * 100_000)

    assert sqlite_store.location in caught.value.message
    assert count(sqlite_store) == 1


def test_a_damaged_file_is_told_from_a_busy_one(sqlite_store: Store, tmp_path: Path) -> None:
    set_switch(sqlite_store)
    sqlite_store.close()
    path = tmp_path / "store.db"
    content = bytearray(path.read_bytes())
    content[0:16] = b"no longer SQLite"
    path.write_bytes(content)

    with pytest.raises(StoreUnreachable, match="damaged"):
        set_switch(sqlite_store)


def test_a_lock_held_too_long_is_an_error_that_names_the_file_and_changes_nothing(
    sqlite_store_url: str, tmp_path: Path
) -> None:
    store = open_store(sqlite_store_url, lock_wait=0.05)
    holder = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StoreLocked, match=r"store\.db") as caught:
        set_switch(store)
    holder.execute("ROLLBACK")

    assert caught.value.exit_code == 5
    assert count(store) == 0
    holder.close()
    store.close()


def test_a_short_lock_is_waited_for(sqlite_store_url: str) -> None:
    patient = open_store(sqlite_store_url)
    program = (
        "import sqlite3, sys, time\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True)\n"
        "time.sleep(0.3)\n"
        "db.execute('COMMIT')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, patient.location], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"

        set_switch(patient)

    assert count(patient) == 1
    patient.close()


def test_only_the_owner_may_read_a_new_store(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/jobs.db", create=True)
    set_switch(store)

    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}

    assert modes == {"jobs.db": 0o600, "jobs.db-wal": 0o600, "jobs.db-shm": 0o600}
    store.close()


def test_a_store_is_made_on_a_file_system_without_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)

    store = open_store(f"sqlite:///{tmp_path}/jobs.db", create=True)
    set_switch(store)
    again = open_store(f"sqlite:///{tmp_path}/jobs.db", create=True)

    assert (store.created, again.created, count(again)) == (True, False, 1)
    assert stat.S_IMODE((tmp_path / "jobs.db").stat().st_mode) == 0o600
    again.close()
    store.close()
    assert [p.name for p in tmp_path.iterdir()] == ["jobs.db"]


def test_every_connection_loses_no_commit_and_minds_its_references(
    durable_sqlite: None, sqlite_store: Store
) -> None:
    with sqlite_store.write() as tx:
        seen = {
            n: tx.exec_driver_sql(f"PRAGMA {n}").scalar_one()
            for n in ("synchronous", "foreign_keys", "journal_mode", "journal_size_limit")
        }

    assert seen == {"synchronous": 2, "foreign_keys": 1, "journal_mode": "wal", "journal_size_limit": 1 << 26}


@pytest.fixture
def copied(sqlite_store: Store, tmp_path: Path) -> Path:
    """A copy as `VACUUM INTO` makes it: not in WAL mode yet."""
    path = tmp_path / "copy.db"
    with closing(sqlite3.connect(sqlite_store.location)) as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
    return path


def test_who_opens_a_copy_while_another_one_writes_to_it_waits_to_switch_it(copied: Path) -> None:
    with closing(sqlite3.connect(copied, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        connection = sqlite.connect(
            copied, lock_wait=5, clock=ManualClock(), sleep=lambda _: other.execute("ROLLBACK") and None
        )

    with closing(connection):
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_copy_that_cannot_be_switched_within_the_wait_is_locked(copied: Path) -> None:
    clock = ManualClock()
    with closing(sqlite3.connect(copied, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(sqlite3.OperationalError, match="locked"):
            sqlite.connect(
                copied, lock_wait=1, clock=clock, sleep=lambda s: clock.advance(seconds=s) and None
            )

    assert clock.monotonic() == pytest.approx(1, abs=0.1)


def test_connections_that_are_open_together_are_to_one_file(sqlite_store: Store, copied: Path) -> None:
    assert sqlite_store.path
    with sqlite_store.read():
        copied.rename(sqlite_store.path)
        with pytest.raises(StoreUnreachable, match="another file has taken the place"), sqlite_store.read():
            pass
    for suffix in ("-wal", "-shm"):
        Path(f"{sqlite_store.path}{suffix}").unlink(missing_ok=True)

    sqlite_store.close()

    assert count(sqlite_store) == 0


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    store = open_store("sqlite:///~/jobs.db", create=True)

    assert store.location == str(tmp_path / "jobs.db")
    assert (tmp_path / "jobs.db").exists()
    store.close()


def test_a_relative_path_is_shown_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    store = open_store("sqlite:///jobs.db", create=True)

    assert store.location == str(tmp_path / "jobs.db")
    store.close()


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    path = tmp_path / "my jobs 100% #1.db"

    store = open_store(f"sqlite:///{path}", create=True)

    assert store.location == str(path)
    assert path.exists()
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://jobs.db",
        "sqlite:///jobs.db?mode=ro",
        "sqlite://",
        "sqlite:///:memory:",
        "jobs.db",
        "sqlite:x",
    ],
)
def test_a_url_that_is_not_one_is_a_usage_error_with_the_right_form(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url, create=True)

    assert caught.value.hint


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /srv/share nfs4 rw 0 0
/dev/sdb1 /srv/share/local xfs rw 0 0
share /mnt/host virtiofs rw 0 0
me@host: /home/me/remote\\040disk fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/jobs.db", None),
        ("/srv/share/jobs.db", "nfs4"),
        ("/srv/shared/jobs.db", None),
        ("/srv/share/local/jobs.db", None),
        ("/mnt/host/jobs.db", "virtiofs"),
        ("/home/me/remote disk/jobs.db", "fuse.sshfs"),
    ],
)
def test_a_network_file_system_is_known_by_its_mount(path: str, kind: str | None) -> None:
    assert sqlite.network_file_system(Path(path), MOUNTS) == kind


def test_a_store_on_a_network_file_system_opens_with_a_warning(
    sqlite_store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mounts").write_text(f"server:/export {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr(sqlite, "_MOUNTS", tmp_path / "mounts")

    store = open_store(sqlite_store_url)

    assert "network file system (nfs)" in caplog.text
    assert store.warnings
    store.close()
