"""Transactions that the database gives up on are run again; everything else is not."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreError, StoreLocked
from aijobs.store import attempts
from aijobs.store.engine import Store, open_store
from tests.store.test_engine import count

pytestmark = pytest.mark.postgres


@pytest.fixture
def postgres_store(postgres_store_url: str) -> Iterator[Store]:
    store = open_store(postgres_store_url)
    yield store
    store.close()


class Work:
    """Writes one row, then fails with *sqlstate* as often as told."""

    def __init__(self, sqlstate: str, failures: int) -> None:
        self.sqlstate, self.failures, self.runs = sqlstate, failures, 0

    def __call__(self, tx: Connection) -> int:
        self.runs += 1
        row = "('pause', 'x', 'v', 'ann', 'r', now())"
        tx.execute(text(f"INSERT INTO switches (kind, scope, value, actor, reason, set_at) VALUES {row}"))
        if self.runs <= self.failures:
            tx.execute(text(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{self.sqlstate}'; END $$"))
        return self.runs


@pytest.mark.parametrize("sqlstate", ["40P01", "40001"])
def test_a_deadlock_or_conflict_is_run_again_and_happens_once(
    postgres_store: Store, chance: Chance, sqlstate: str
) -> None:
    pauses: list[float] = []

    answer = attempts.write(postgres_store, Work(sqlstate, 2), chance=chance, sleep=pauses.append)

    assert answer == 3
    assert count(postgres_store) == 1
    assert len(pauses) == 2
    assert all(0 <= pause <= 0.1 for pause in pauses)


def test_after_the_last_attempt_the_error_is_the_stores(postgres_store: Store, chance: Chance) -> None:
    work = Work("40P01", 100)

    with pytest.raises(StoreLocked):
        attempts.write(postgres_store, work, chance=chance, sleep=lambda _: None)

    assert work.runs == attempts.ATTEMPTS
    assert count(postgres_store) == 0


@pytest.mark.parametrize("sqlstate", ["23505", "55P03", "57P01", "22012"])
def test_no_other_error_is_tried_again(postgres_store: Store, chance: Chance, sqlstate: str) -> None:
    work = Work(sqlstate, 100)

    with pytest.raises(StoreError):
        attempts.write(postgres_store, work, chance=chance)

    assert work.runs == 1


def test_a_failure_of_the_work_itself_is_not_tried_again(postgres_store: Store, chance: Chance) -> None:
    runs: list[None] = []

    def fail(_: Connection) -> None:
        runs.append(None)
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        attempts.write(postgres_store, fail, chance=chance)

    assert len(runs) == 1
