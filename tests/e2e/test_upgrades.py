"""`aijobs db upgrade` beside workers at work, as processes of two versions; killed and blocked half-way."""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from aijobs.core.errors import StoreLocked
from aijobs.core.model import Status
from aijobs.store import dialect, engine, schema, upgrading
from aijobs.store.engine import open_store
from tests.support import next_version
from tests.support.forked import Forked
from tests.support.invariants import violations
from tests.support.next_version import NUMBER
from tests.support.processes import Process, Site
from tests.support.wait import eventually

pytestmark = pytest.mark.e2e


class Upgrading(Site):
    """A site with two versions of the program."""

    def newer(self, *args: str, migration: str = next_version.MIGRATION) -> Process:
        """A command of the next version; *migration* is what leads to it."""
        folder = self.folder / f"migrations {len(list(self.folder.glob('migrations*')))}"
        next_version.write(folder, migration)
        config = str(self.folder / "aijobs.yaml")
        words = [sys.executable, "-m", "tests.support.next_version", str(folder), "--config", config, *args]
        return self.worker_of(words)

    def version(self) -> str | None:
        """What is stamped on the store."""
        with closing(engine.open_any(self.store.url)) as store, store.read() as tx:
            return schema.version_of(tx)


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Iterator[Upgrading]:
    """Where both versions run."""
    one = Upgrading(tmp_path, database_url)
    yield one
    one.close()


def heard(worker: Process, word: str) -> None:
    """Wait until *worker* has said *word*."""
    process = worker.process
    assert isinstance(process, Forked)
    eventually(lambda: word in process.complained(), 20)


def test_workers_end_what_they_hold_and_leave_the_rest_to_the_next_version(place: Upgrading) -> None:
    held = [place.enqueue("held", n) for n in range(2)]
    old = place.worker("--log-format", "json")
    place.until_ran("held", 2)
    early = place.newer("worker", "--drain").ended()

    done = place.newer("db", "upgrade").ended()
    heard(old, "worker_stopping")
    late = [place.enqueue("quick", n) for n in range(3)]
    place.go()
    old_report = old.ended()
    left = [place.job(job_id).status for job_id in late]
    refused = place.worker("--drain").ended()
    new_report = place.newer("worker", "--drain", "--json").ended()

    assert (early.code, done.code, old_report.code, refused.code) == (5, 0, 5, 5)
    assert f"older schema {schema.HEAD}; this version needs {NUMBER}" in early.err
    for said in (old_report.err, refused.err):
        assert f"newer schema {NUMBER}; this version knows {schema.HEAD}" in said
        assert "Traceback" not in said
    assert set(left) == {Status.PENDING}
    assert [place.outcomes(job_id) for job_id in held] == [["succeeded"]] * 2
    assert len(place.ran("held")) == 2
    assert (new_report.code, new_report.json["succeeded"]) == (0, 3)
    assert violations(place.store, expected_ids=[*held, *late], settled=True) == []


def test_an_upgrade_beside_busy_workers_loses_and_doubles_nothing(place: Upgrading) -> None:
    ids = [place.enqueue("quick", n) for n in range(300)]
    workers = [place.worker("--concurrency", "4") for _ in range(2)]
    place.until_ran("quick", 30)

    done = place.newer("db", "upgrade").ended()
    codes = {worker.ended(30).code for worker in workers}
    new_report = place.newer("worker", "--drain", "--json").ended(30)

    assert (done.code, codes, new_report.code) == (0, {5}, 0)
    assert Counter(n for _, n, _ in place.ran("quick")) == Counter(str(n) for n in range(300))
    assert {place.job(job_id).status for job_id in ids} == {Status.SUCCEEDED}
    assert violations(place.store, expected_ids=ids, settled=True) == []


def test_killed_in_the_middle_an_upgrade_leaves_the_old_store_whole(place: Upgrading) -> None:
    job_id = place.enqueue("quick")

    killed = place.newer("db", "upgrade", migration=next_version.KILLED).ended()
    eventually(lambda: place.version() == schema.HEAD)
    before = place.aijobs("worker", "--drain")
    done = place.newer("db", "upgrade").ended()

    assert killed.code == -signal.SIGKILL
    assert (before.code, place.outcomes(job_id)) == (0, ["succeeded"])
    assert done.code == 0
    assert place.version() == NUMBER


@pytest.mark.postgres
def test_an_upgrade_that_cannot_have_the_tables_gives_up_and_changes_nothing(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(postgres_url, create=True).close()
    next_version.go_on(tmp_path, monkeypatch)
    monkeypatch.setattr(dialect, "LOCK_WAIT", "200ms")

    with psycopg.connect(postgres_url) as somebody:
        somebody.execute("SELECT count(*) FROM jobs")  # and no end of the transaction
        with pytest.raises(StoreLocked) as caught:
            upgrading.upgrade(postgres_url)
    done = upgrading.upgrade(postgres_url)

    assert "again is safe" in str(caught.value.hint)
    assert (done.before, done.after) == (f"{int(NUMBER) - 1:04d}", NUMBER)
