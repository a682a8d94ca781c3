"""The check of what must hold of a store finds each thing that does not."""

import pytest
from sqlalchemy import text

from aijobs.core.clock import Chance
from aijobs.core.model import ErrorClass
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store
from tests.support.invariants import violations
from tests.support.jobs import claim_one, fail, new_job, settings_of, succeed

SETTINGS = settings_of(
    types={"t": {"provider": "p", "notify": ["people"]}},
    notify={"people": {"kind": "log", "on": ["succeeded", "dead_letter", "cancelled"]}},
)


@pytest.fixture
def ids(store: Store, chance: Chance) -> list[str]:
    """One job that succeeded, one that died, one that runs."""
    coordinator = Coordinator(store, SETTINGS, chance=chance)
    made = []
    for number in range(3):
        made.append(coordinator.enqueue(new_job({"n": number}), actor="t").job.id)
        job = claim_one(coordinator)
        if number == 0:
            succeed(coordinator, job)
        elif number == 1:
            fail(coordinator, job, ErrorClass.INVALID_REQUEST)
    return made


def found(store: Store, ids: list[str], *, settled: bool = False) -> str:
    return "\n".join(violations(store, expected_ids=ids, settled=settled, settings=SETTINGS))


def test_a_store_that_keeps_its_promises_is_left_alone(store: Store, ids: list[str]) -> None:
    assert found(store, ids) == ""


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM jobs WHERE status = 'processing'", "accepted and is lost"),
        ("DELETE FROM executions WHERE outcome = 'succeeded'", "0 attempts succeeded"),
        ("DELETE FROM executions WHERE outcome = 'failed'", "its history does not say why"),
        ("UPDATE job_results SET fence = fence + 1", "a result of fence 2"),
        ("DELETE FROM job_results", "its result is gone"),
        ("DELETE FROM job_inputs", "its input is gone"),
        (
            "UPDATE jobs SET attempts = attempts + 1 WHERE status = 'processing'",
            "2 attempts, but 0 on record",
        ),
        ("UPDATE jobs SET attempts = 9 WHERE status = 'processing'", "9 attempts of 5 allowed"),
        ("UPDATE jobs SET lock_token = 7 WHERE status = 'succeeded'", "and went on to 7"),
        ("DELETE FROM dead_letters", "dead letters of the rounds []"),
        ("UPDATE dead_letters SET round = 2", "dead letters of the rounds [2]"),
        ("UPDATE executions SET attempt = 2", "has the attempts [2]"),
        ("DELETE FROM notifications", "people is not told"),
        ("UPDATE notifications SET event = 'cancelled'", "told cancelled"),
        ("UPDATE rollups SET value = value + 1", "can be counted"),
        ("UPDATE minutes SET lost = lost + 1", "by the minute, lost"),
    ],
)
def test_each_broken_promise_is_told(store: Store, ids: list[str], damage: str, said: str) -> None:
    with store.write() as tx:
        tx.execute(text(damage))

    assert said in found(store, ids)


def test_what_is_stuck_is_told_when_everything_has_had_its_time(store: Store, ids: list[str]) -> None:
    assert "is stuck: processing" in found(store, ids, settled=True)
    assert "was never told" in found(store, ids, settled=True)
