"""Stores as earlier schema versions left them: the tables that their migrations make, and frozen rows.

`python -m tests.support.old_stores` writes `tests/data/stores/NNNN.sql` for the present version: a store with
a job in every state. Each version gets its file before its release, and after it the file is never changed.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import select

from aijobs.core.clock import seeded_chance
from aijobs.core.lifecycle import Parked
from aijobs.core.model import ErrorClass
from aijobs.core.replaying import ReplayOptions
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator
from aijobs.services.replay import Planner
from aijobs.services.scheduler import Scheduler
from aijobs.services.switching import Switching
from aijobs.store import effects, engine, migrations, refusals, schema, workers
from aijobs.store.dead_letters import DeadLetterFilter
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import metadata
from tests.support.clock import ManualClock
from tests.support.jobs import LEASE, ended, fail, new_job, settings_of, succeed

FOLDER = Path(__file__).parent.parent / "data" / "stores"
TYPES = (
    "due", "later", "keyed", "leased", "parked", "retried", "held", "dead", "closed", "cancelled", "done",
    "begun", "ticked", "told",
)  # fmt: skip
"""Each type stands for what became of its one job."""


def settings() -> Settings:
    """The configuration that all these stores go with."""
    kinds: dict[str, dict[str, object]] = {name: {"provider": "p"} for name in TYPES}
    kinds["held"]["on_unknown_outcome"] = "hold"
    kinds["told"]["notify"] = ["log"]
    return settings_of(
        types=kinds,
        notify={"log": {"kind": "log", "on": ["succeeded", "dead_letter"]}},
        retry={"worker_lost": {"retries": 5, "first": "immediate", "backoff": "fixed", "delay": "0s"}},
        schedules={"hourly": {"type": "ticked", "cron": "0 * * * *"}},
    )


def versions() -> list[str]:
    """Every schema version there is a migration to."""
    return sorted(path.name[1:5] for path in (migrations.FOLDER / "versions").glob("v[0-9]*.py"))


def make(url: str, version: str) -> None:
    """A store as *version* left it: its own tables, its own rows."""
    if url.startswith("sqlite:///"):
        Path(url.removeprefix("sqlite:///")).touch()
    with closing(engine.open_any(url)) as store, store.write() as tx:
        migrations.run(tx, to=version)
        for line in (FOLDER / f"{version}.sql").read_text().splitlines():
            if line.startswith("INSERT"):
                tx.exec_driver_sql(line.removesuffix(";"))


def populate(store: Store, clock: ManualClock) -> None:
    """One job in every state, and a row in every table that a store at work has rows in."""
    configured = settings()
    coordinator = Coordinator(store, configured, chance=seeded_chance(1))
    for name in TYPES:
        if name not in ("later", "ticked"):
            key = "the key" if name == "keyed" else None
            coordinator.enqueue(new_job({"of": name}, type=name, user="ana", key=key), actor="ana")
    later = new_job({"of": "later"}, type="later", run_at=clock.now() + timedelta(hours=1))
    coordinator.enqueue(later, actor="ana")
    _end(coordinator, clock)
    Scheduler(store, configured, coordinator=lambda: coordinator).tick()
    clock.advance(timedelta(hours=1))
    Scheduler(store, configured, coordinator=lambda: coordinator).tick()
    _at_work(store, coordinator, clock)
    _around(store, configured, clock)


def _claim(coordinator: Coordinator, name: str) -> Claim:
    (claim,) = coordinator.claim(ClaimRequest(worker="old", slots=1, lease=LEASE, types=(name,)))
    return claim


def _end(coordinator: Coordinator, clock: ManualClock) -> None:
    succeed(coordinator, _claim(coordinator, "done").job, '{"text": "it\'s done"}')
    succeed(coordinator, _claim(coordinator, "told").job)
    fail(coordinator, _claim(coordinator, "dead").job, ErrorClass.INVALID_REQUEST)
    closed = _claim(coordinator, "closed").job
    fail(coordinator, closed, ErrorClass.CONTENT_POLICY)
    coordinator.close(closed.id, actor="ana", reason="refused for good")
    fail(coordinator, _claim(coordinator, "retried").job, ErrorClass.UNAVAILABLE)
    fail(coordinator, _claim(coordinator, "held").job, ErrorClass.NETWORK_TIMEOUT, maybe_billed=True)
    job = _claim(coordinator, "cancelled").job
    coordinator.cancel(job.id, actor="ana", reason="not needed")
    fail(coordinator, job, ErrorClass.CANCELLED)
    clock.advance(timedelta(minutes=1))


def _at_work(store: Store, coordinator: Coordinator, clock: ManualClock) -> None:
    parked = _claim(coordinator, "parked").job
    end = Parked(provider_job_id="resp_1", poll_at=clock.now() + timedelta(minutes=5))
    coordinator.finish([ended(parked, end)])
    begun = _claim(coordinator, "begun").job
    with store.write() as tx:
        effects.begin(tx, begun.id, name="mail", fence=begun.lock_token, now=clock.now())
        effects.done(tx, begun.id, name="mail", fence=begun.lock_token, value='"sent"', now=clock.now())
        effects.begin(tx, begun.id, name="charge", fence=begun.lock_token, now=clock.now())
    _claim(coordinator, "leased")


def _around(store: Store, configured: Settings, clock: ManualClock) -> None:
    now = clock.now()
    delivery = Delivery(
        provider="p", delivery_id="wh_1", event_type="response.completed", provider_job_id="resp_9",
        job_id=None, body_hash="0" * 64, outcome="unmatched", sent_at=now, received_at=now, handled_at=None,
    )  # fmt: skip
    Coordinator(store, configured, chance=seeded_chance(2)).receive(delivery)
    Planner(store, configured, chance=seeded_chance(3)).plan(
        DeadLetterFilter(), ReplayOptions(), limit=100, actor="ana", reason="mended"
    )
    Switching(store, configured).pause(
        ["later"], below=None, actor="ana", reason="not yet", lasting=timedelta(days=1)
    )
    with store.write() as tx:
        refusals.add(tx, [(now, "p", "bad_signature", 2)])
        workers.register(tx, name="old", host="host", pid=1, version="0", concurrency=10, types=None, now=now)


def dump(store: Store) -> Iterator[str]:
    """Every row but the version's, as a statement that both databases read."""
    with store.read() as tx:
        for table in metadata.sorted_tables:
            if table.name == "schema_version":
                continue
            columns = [c for c in table.columns if (table.name, c.name) != ("events", "id")]
            names = ", ".join(f'"{c.name}"' for c in columns)
            for row in tx.execute(select(*columns).order_by(*table.primary_key.columns)):
                values = ", ".join(map(_literal, row))
                yield f'INSERT INTO "{table.name}" ({names}) VALUES ({values});'


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case datetime():
            return f"'{value.isoformat(timespec='microseconds')[:26]}Z'"
        case _:
            text = str(value)
            assert not set(text) & set("%\n\\"), text
            return "'" + text.replace("'", "''") + "'"


def main() -> None:
    """Freeze the present version."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobs.db"
        with closing(open_store(url, clock=clock, create=True)) as store:
            populate(store, clock)
            lines = list(dump(store))
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{schema.HEAD}.sql"
    target.write_text("\n".join([f"-- Rows of a store of version {schema.HEAD}.", *lines, ""]))
    print(f"{target}: {len(lines)} rows")


if __name__ == "__main__":
    main()
