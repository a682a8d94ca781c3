"""A store that an earlier version wrote, brought to this one: nothing in it is lost, and its jobs finish."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from aijobs.core.clock import Chance
from aijobs.core.model import Done, Status
from aijobs.services.coordinator import Coordinator
from aijobs.services.notifier import Notifier
from aijobs.services.scheduler import Scheduler
from aijobs.services.switching import Switching
from aijobs.store import effects, jobs, migrations, schema, upgrading, workers
from aijobs.store.engine import Store, open_store
from tests.support import next_version, old_stores
from tests.support.clock import ManualClock
from tests.support.invariants import violations
from tests.support.jobs import history, new_job
from tests.support.workers import ScriptedProvider, drain

LEFT_AT = timedelta(hours=1, minutes=1)
"""After its start a store was left as it is, with leases of a minute and a look due in five."""


@pytest.fixture(params=["as it is", "one version further"])
def further(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether this program is one version further than it is."""
    if request.param == "as it is":
        return False
    next_version.go_on(tmp_path, monkeypatch)
    return True


def the_job(store: Store, type_name: str) -> str:
    with store.read() as tx:
        (found,) = jobs.page(tx, jobs.Filter(type=type_name), 10)
    return found.id


@pytest.mark.parametrize("version", old_stores.versions())
def test_the_jobs_of_a_store_of_each_earlier_version_finish(
    version: str, further: bool, database_url: str, clock: ManualClock, chance: Chance
) -> None:
    old_stores.make(database_url, version)
    clock.advance(LEFT_AT)

    done = upgrading.upgrade(database_url)

    assert (done.before, done.after) == (version, schema.HEAD)
    assert upgrading.check(database_url).missing == ()
    with closing(open_store(database_url, clock=clock)) as store:
        _nothing_is_lost(store, chance)
        _everything_finishes(store, clock, chance)


def _nothing_is_lost(store: Store, chance: Chance) -> None:
    coordinator = Coordinator(store, old_stores.settings(), chance=chance)
    again = coordinator.enqueue(
        new_job({"of": "keyed"}, type="keyed", user="ana", key="the key"), actor="ana"
    )
    ticked = Scheduler(store, coordinator.settings, coordinator=lambda: coordinator).tick()
    with store.read() as tx:
        ledger = effects.effects_of(tx, the_job(store, "begun"))
        names = [one.name for one in workers.listed(tx)]

    assert violations(store, settings=coordinator.settings) == []
    assert again.duplicate
    assert ticked.created == []
    assert {(one.name, one.value, one.done_at is None) for one in ledger} == {
        ("mail", '"sent"', False),
        ("charge", None, True),
    }
    assert names == ["old"]


def _everything_finishes(store: Store, clock: ManualClock, chance: Chance) -> None:
    settings = old_stores.settings()
    coordinator = Coordinator(store, settings, chance=chance)
    provider = ScriptedProvider(
        lambda call: Done(result='"new"'), poll=lambda call: Done(result='"followed"')
    )
    clock.advance(timedelta(hours=2))
    Switching(store, settings).resume(["later"], below=False, actor="ana", reason="go")
    for name in ("held", "dead"):
        coordinator.retry(the_job(store, name), actor="ana", reason="looked into")

    report = drain(store, provider, settings=settings, coordinator=coordinator)
    Notifier(store, settings, chance=chance).run_once()

    with store.read() as tx:
        found = {job.type: job.status for job in jobs.page(tx, jobs.Filter(), 100)}
    unfinished = {name: status for name, status in found.items() if status is not Status.SUCCEEDED}
    assert unfinished == {"closed": Status.DEAD_LETTER, "cancelled": Status.CANCELLED}
    assert sorted(found) == sorted(old_stores.TYPES)
    assert report.dead_letter == report.lost == 0
    assert provider.asked.count(("poll", the_job(store, "parked"))) == 1
    assert ("submit", the_job(store, "parked")) not in provider.asked
    assert [one["outcome"] for one in history(store, the_job(store, "leased"))] == ["lost", "succeeded"]
    assert violations(store, settled=True, settings=settings) == []


def test_each_version_has_its_frozen_rows() -> None:
    frozen = sorted(path.stem for path in old_stores.FOLDER.glob("*.sql"))

    assert frozen == old_stores.versions(), "python -m tests.support.old_stores"
    assert old_stores.versions()[-1] == schema.HEAD
    assert len(old_stores.versions()) == len(list((migrations.FOLDER / "versions").glob("v*.py")))


def test_the_frozen_rows_hold_a_job_in_every_state(sqlite_url: str) -> None:
    old_stores.make(sqlite_url, schema.HEAD)
    with closing(open_store(sqlite_url)) as store, store.read() as tx:
        found = jobs.page(tx, jobs.Filter(), 100)

    assert {job.status for job in found} == set(Status)
    assert [job.type for job in found if job.parked_at] == ["parked"]
    assert [job.type for job in found if job.hold_reason] == ["held"]
