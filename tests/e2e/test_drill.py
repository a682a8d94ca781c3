"""The drills as a person runs them: they pass, leave nothing, and fail where a promise is broken."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from aijobs.core.model import Status
from aijobs.services.drill import NAMES
from aijobs.services.drill.leftovers import SILENCE, clear
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import metadata, minutes
from tests.support.breaking import NOTICED, broken, drop_key
from tests.support.clock import ManualClock
from tests.support.command_line import command
from tests.support.drills import Run, noticed, run_side_by_side
from tests.support.processes import Site, site
from tests.support.wait import eventually

pytestmark = pytest.mark.e2e

_LIVELY = {"schema_version", "workers"}


def rows(store: Store) -> dict[str, list[Any]]:
    """Everything in the store; of workers, whose heart beats, the names."""
    with store.read() as tx:
        found: dict[str, list[Any]] = {
            table.name: sorted(map(repr, tx.execute(select(table))))
            for table in metadata.sorted_tables
            if table.name not in _LIVELY
        }
        unnamed = select(minutes).where(minutes.c.type != "")  # webhooks are counted there without a name
        found["minutes"] = sorted(map(repr, tx.execute(unnamed)))
        found["workers"] = sorted(tx.execute(text("SELECT name FROM workers")).scalars())
    return found


@pytest.fixture
def staging(tmp_path: Path, database_url: str) -> Iterator[Site]:
    """A store with other people's jobs, one of them at work."""
    with site(tmp_path, database_url) as place:
        place.enqueue("quick")
        place.worker("--type", "quick", "--drain").ended(90)
        place.enqueue("held")
        place.enqueue("demo")
        place.enqueue("unheard-of")
        yield place


def test_every_drill_passes_on_a_staging_store_and_leaves_it_as_it_was(staging: Site) -> None:
    theirs = staging.worker("--type", "held", "--lease", "5m")
    staging.until_ran("held")
    before = rows(staging.store)

    results = run_side_by_side([Run(name, staging.cli.database) for name in NAMES])

    failed = [result.out + result.err for result in results if result.code]
    assert not failed, "\n".join(failed)
    assert [result.json["drills"][0]["name"] for result in results] == list(NAMES)
    assert all(result.json["passed"] for result in results)
    after = rows(staging.store)
    after["jobs"], before["jobs"] = _without_leases(after["jobs"]), _without_leases(before["jobs"])
    assert after == before
    assert theirs.process.poll() is None


def _without_leases(jobs: Sequence[str]) -> list[str]:
    """The job that runs is renewed all the time."""
    return [one for one in jobs if f"'{Status.PROCESSING.value}'" not in one]


def test_each_drill_fails_where_its_promise_is_broken(tmp_path: Path) -> None:
    """Those not run here are run by `python -m tests.drills`."""
    without_key = f"sqlite:///{tmp_path / 'jobs.db'}"
    with contextlib.closing(open_store(without_key, create=True)) as store:
        drop_key(store)
    names = [name for name, one in NOTICED.items() if one.in_suite]
    stores = {"no_key": without_key}

    results = run_side_by_side([Run(NOTICED[name].drill, stores.get(name), broken(name)) for name in names])

    for name, result in zip(names, results, strict=True):
        assert noticed(NOTICED[name], result), (name, result)


def test_it_can_be_stopped_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with site(tmp_path, f"sqlite:///{tmp_path / 'jobs.db'}") as place:
        before = rows(place.store)
        assert place.cli.database
        environ = place.cli.process_environ({"TMPDIR": str(tmp_path)})
        words = command("--database", place.cli.database, "drill", "lease-recovery")
        with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True) as process:
            eventually(lambda: len(rows(place.store)["jobs"]) == 3, 60)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)

        assert process.returncode == 130
        assert "Traceback" not in err
        assert rows(place.store) == before
        assert not list(tmp_path.glob("aijobs-drill-*"))
        assert not _alive(str(tmp_path))


def test_one_that_is_killed_takes_its_workers_along_and_the_next_one_clears_up(tmp_path: Path) -> None:
    with site(tmp_path, f"sqlite:///{tmp_path / 'jobs.db'}") as place:
        place.enqueue("unheard-of")
        before = rows(place.store)
        assert place.cli.database
        environ = place.cli.process_environ({"TMPDIR": str(tmp_path)})
        words = command("--database", place.cli.database, "drill", "idempotency")
        with subprocess.Popen(words, env=environ, stderr=subprocess.DEVNULL) as process:
            eventually(lambda: len(rows(place.store)["jobs"]) == 2, 60)
            process.kill()
        eventually(lambda: not _alive(str(tmp_path)), 30)
        later = ManualClock(place.store.clock.now() + SILENCE)

        with contextlib.closing(open_store(place.cli.database, clock=later)) as store:
            removed, running = clear(store)

        assert ([one.jobs for one in removed], running) == ([1], [])
        assert rows(place.store) == before


def _alive(what: str) -> list[str]:
    """The command lines of processes that name *what*."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        found += [words] if what in words else []
    return found
