"""What a caller is told has failed is not done afterwards: told to try again, it would have two jobs."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import text

from aijobs.core.errors import StoreLocked
from aijobs.core.model import Status
from aijobs.http.serve import Bounds, threads
from aijobs.http.serve.threads import Threads, may_commit
from aijobs.store.engine import Store, open_store
from tests.support.jobs import present, settings_of
from tests.support.serving import Served, serving

IMPATIENT = Bounds(store=0.2)


@contextlib.contextmanager
def impatient(store: Store) -> Iterator[Served]:
    with serving(store, settings=settings_of(), bounds=IMPATIENT) as served:
        yield served


@contextlib.contextmanager
def somebody_writes(store: Store) -> Iterator[None]:
    """All jobs are locked, and on SQLite the whole store, until the block ends."""
    with contextlib.closing(open_store(store.url)) as other, other.write() as tx:
        tx.execute(text("UPDATE jobs SET priority = priority"))
        yield


def test_a_job_that_was_refused_because_the_store_is_locked_is_not_taken_later(sqlite_store_url: str) -> None:
    with contextlib.closing(open_store(sqlite_store_url)) as store:
        with impatient(store) as served, somebody_writes(store):
            refused = served.http.post("/jobs", json={"type": "t"})

        with store.read() as tx:
            taken = tx.execute(text("SELECT count(*) FROM jobs")).scalar_one()

    assert (refused.status_code, taken) == (503, 0)


def test_a_cancel_that_was_refused_because_the_job_is_locked_does_not_happen_later(store: Store) -> None:
    with impatient(store) as served:
        job_id = served.http.post("/jobs", json={"type": "t"}).json()["id"]
        with somebody_writes(store):
            refused = served.http.post(f"/jobs/{job_id}/cancel")

    assert refused.status_code == 503
    assert present(store, job_id).status is Status.PENDING


def impatiently(count: int, run: Callable[[Threads], Any], *, patience: float) -> Any:
    """What *run* makes of so many threads."""

    async def made() -> Any:
        crew = Threads(count, patience=patience)
        try:
            return await run(crew)
        finally:
            crew.close(timeout=5)

    return asyncio.run(made())


def test_work_that_nobody_waits_for_any_more_does_not_begin() -> None:
    freed, begun = threading.Event(), []

    async def run(crew: Threads) -> None:
        for work in (lambda: freed.wait(10), lambda: begun.append(1)):
            with pytest.raises(StoreLocked):
                await crew.run(work)
        freed.set()

    impatiently(1, run, patience=0.02)

    assert begun == []


def test_a_commit_that_has_begun_when_the_patience_ends_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late, give_up = threading.Event(), threads._Request.give_up

    def gives_up(request: threads._Request) -> bool:
        late.set()
        return give_up(request)

    def commit() -> str:
        may_commit()
        return "done" if late.wait(10) else "too early"

    monkeypatch.setattr(threads._Request, "give_up", gives_up)

    assert impatiently(1, lambda crew: crew.run(commit), patience=0.3) == "done"


def test_a_commit_for_one_who_has_given_up_is_refused() -> None:
    late, refused = threading.Event(), threading.Event()

    def work() -> None:
        late.wait(10)
        try:
            may_commit()
        except StoreLocked:
            refused.set()

    async def run(crew: Threads) -> None:
        with pytest.raises(StoreLocked):
            await crew.run(work)
        late.set()

    impatiently(1, run, patience=0.02)

    assert refused.is_set()
