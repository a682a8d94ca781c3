"""Removing all that a trial left behind, and nothing else; and seeing that somebody holds a lock."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from aijobs.core.clock import Chance
from aijobs.core.durations import Rate
from aijobs.core.model import ErrorClass, Job
from aijobs.core.replaying import ReplayOptions
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.services.replay import Planner
from aijobs.store import locks, refusals, traces, workers
from aijobs.store.dead_letters import DeadLetterFilter
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import deliveries, jobs, metadata, replays
from tests.support.clock import ManualClock
from tests.support.jobs import claim_some, fail, new_job, settings_of, succeed

THEIRS, OURS = "their", "trial"


@pytest.fixture
def settings() -> Settings:
    """A type and a provider of others, and those of the trial, whose names begin alike."""
    python = {"kind": "python", "callable": "builtins:str"}
    names = (THEIRS, OURS, f"{OURS}-not")
    return settings_of(
        providers=dict.fromkeys(names, python),
        types={name: {"provider": name, "notify": ["log"]} for name in names},
        notify={"log": {"kind": "log", "on": ["succeeded", "dead_letter"]}},
    )


def act(store: Store, settings: Settings, chance: Chance, name: str) -> None:
    """A job that succeeds, one that is put off, one that dies and is planned to be replayed, two webhooks."""
    coordinator = Coordinator(store, settings, chance=chance)
    now = store.clock.now()

    def claimed() -> Job:
        (claim,) = claim_some(coordinator, types=(name,))
        return claim.job

    coordinator.enqueue(new_job(type=name, key="k"), actor="t")
    succeed(coordinator, claimed())
    coordinator.enqueue(new_job(type=name, max_attempts=1), actor="t")
    fail(coordinator, claimed(), ErrorClass.RATE_LIMITED, hint=timedelta(seconds=1))
    coordinator.enqueue(new_job(type=name, max_attempts=1), actor="t")
    store.clock.advance(timedelta(minutes=5))  # type: ignore[attr-defined]
    fail(coordinator, claimed(), ErrorClass.INVALID_REQUEST)
    Planner(store, settings, chance=chance).plan(
        DeadLetterFilter(type=name), ReplayOptions(rate=Rate(1, timedelta(seconds=1))), limit=10, actor="t",
        reason=None,
    )  # fmt: skip
    coordinator.receive(
        Delivery(
            provider=name, delivery_id="d", event_type="response.completed", provider_job_id=f"{name}-r",
            job_id=None, body_hash="h", outcome="unmatched", sent_at=now, received_at=now, handled_at=None,
        )
    )  # fmt: skip
    with store.write() as tx:
        refusals.add(tx, [(now, name, "stale", 1)])
        workers.register(
            tx, name=f"{name}-w", host="h", pid=1, version="1", concurrency=1, types=None, now=now
        )


def everything(store: Store) -> dict[str, list[Any]]:
    with store.read() as tx:
        return {table.name: sorted(map(repr, tx.execute(select(table)))) for table in metadata.sorted_tables}


def about(found: dict[str, list[Any]], name: str) -> list[str]:
    return [
        f"{table}: {row}"
        for table, rows in found.items()
        for row in rows
        if f"{name}'" in row or f'{name}"' in row
    ]


def test_all_that_a_trial_made_goes_and_nothing_of_others(
    store: Store, settings: Settings, chance: Chance, clock: ManualClock
) -> None:
    act(store, settings, chance, THEIRS)
    act(store, settings, chance, f"{OURS}-not")
    with store.read() as tx:
        last = traces.last_event(tx)
    before = everything(store)
    act(store, settings, chance, OURS)
    made = about(everything(store), OURS)

    names = traces.Names(types=[OURS], providers=[OURS], workers=[f"{OURS}-w"], after_event=last)
    with store.write() as tx:
        removed = traces.remove(tx, names)

    after = everything(store)
    assert removed == 3
    assert len({row.partition(":")[0] for row in made}) >= 8
    assert about(after, OURS) == []
    after.pop("minutes"), before.pop("minutes")  # webhooks are counted there without a name
    assert after == before


def test_nothing_is_removed_where_nothing_was_made(store: Store, settings: Settings, chance: Chance) -> None:
    act(store, settings, chance, THEIRS)
    before = everything(store)

    with store.write() as tx:
        removed = traces.remove(tx, traces.Names(types=["x"], providers=["x"], workers=[], after_event=0))

    assert removed == 0
    assert everything(store) == before


def test_a_replay_that_is_also_of_others_stays_with_their_part(
    store: Store, settings: Settings, chance: Chance
) -> None:
    act(store, settings, chance, THEIRS)
    act(store, settings, chance, OURS)
    both = Planner(store, settings, chance=chance).plan(
        DeadLetterFilter(), ReplayOptions(), limit=10, actor="t", reason=None
    )

    with store.write() as tx:
        traces.remove(tx, traces.Names(types=[OURS], providers=[OURS], workers=[], after_event=0))

    with store.read() as tx:
        assert both.id in set(tx.execute(select(replays.c.id)).scalars())
        assert set(tx.execute(select(deliveries.c.provider)).scalars()) == {THEIRS}


def test_a_lock_that_somebody_holds_is_seen(store: Store, settings: Settings, chance: Chance) -> None:
    act(store, settings, chance, THEIRS)
    with store.read() as tx:
        ids = list(tx.execute(select(jobs.c.id)).scalars())
    other = open_store(store.url)

    with other.write() as tx:
        tx.execute(jobs.update().values(priority=1))
        held = locks.are_free(store, ids, wait=0.1)
    free = locks.are_free(store, ids, wait=5)
    other.close()

    assert (held, free) == (False, True)
