"""The Python API: what an application does with jobs, and jobs inside its own transactions."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, func, insert, select
from sqlalchemy.orm import Session

from aijobs import Jobs
from aijobs.core.clock import Chance
from aijobs.core.errors import (
    AlreadyFinished,
    InvalidInput,
    KeyConflict,
    NotFound,
    StoreUnreachable,
    UsageError,
)
from aijobs.core.model import Status
from aijobs.core.settings import Settings
from aijobs.core.switches import SwitchKind
from aijobs.services.coordinator import Coordinator, Enqueued
from aijobs.services.submission import Request
from aijobs.services.switching import Switching
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import claim_one, settings_of, succeed

_orders = Table("orders", MetaData(), Column("id", Integer, primary_key=True))


@pytest.fixture
def api(store: Store, clock: ManualClock, chance: Chance) -> Iterator[Jobs]:
    with Jobs(Settings(database=store.url), clock=clock, chance=chance, actor="app") as jobs:
        yield jobs


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, Settings(), chance=chance)


def _count(api: Jobs) -> int:
    from aijobs.store.jobs import Filter, page

    with api.store.read() as tx:
        return len(page(tx, Filter(), 1000))


# --- Put in, ask, read, stop ------------------------------------------------------------------------


def test_a_job_is_put_in_carried_out_and_read(api: Jobs, coordinator: Coordinator) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    accepted = api.enqueue(
        "demo", {"text": "hello"}, key="K", user="ana", priority=2, request_id="r-1", traceparent=trace
    )
    before = api.result(accepted.job.id)
    succeed(coordinator, claim_one(coordinator), result='{"text":"done"}')

    assert before is None
    job = api.get(accepted.job.id)
    assert (job.status, job.request_id, job.traceparent) == (Status.SUCCEEDED, "r-1", trace)
    assert api.result(accepted.job.id) == {"text": "done"}
    assert api.wait(accepted.job.id).status is Status.SUCCEEDED
    assert (accepted.job.user, accepted.job.priority, accepted.job.created_by) == ("ana", 2, "app")


def test_the_last_result_comes_with_its_age_and_stands_in_only_while_switched_on(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    types = {"t": {"provider": "p", "stale_results": {"allowed": True, "max_age": "1h"}}}
    settings = settings_of(types=types, database=store.url)
    with Jobs(settings, clock=clock, chance=chance, actor="app") as api:
        first = api.enqueue("t", user="ana").job
        succeed(Coordinator(store, settings, chance=chance), claim_one(api._coordinator), result='{"n":1}')
        clock.advance(seconds=90)
        current = api.last_result("t", "ana")
        second = api.enqueue("t", user="ana").job
        off = api.stand_in(second)
        Switching(store, settings).turn_on(
            SwitchKind.STALE_RESULTS, "t", actor="ana", reason="outage", lasting=timedelta(hours=2)
        )
        on = api.stand_in(second)
        stale = api.last_result("t", "ana", stale_ok=True)
        with pytest.raises(NotFound, match="no current result"):
            api.last_result("t", "ana")
        with pytest.raises(NotFound):
            api.last_result("t", "bo")
        clock.advance(timedelta(hours=1))
        with pytest.raises(NotFound, match="old"):
            api.last_result("t", "ana", stale_ok=True)
        too_old = api.stand_in(second)

    assert (current.job_id, current.value, current.age, current.stale) == (
        first.id, {"n": 1}, timedelta(seconds=90), False,
    )  # fmt: skip
    assert (off, too_old) == (None, None)
    assert on == stale
    assert (stale.value, stale.stale) == ({"n": 1}, True)


def test_durations_may_be_text_or_timedelta(api: Jobs, clock: ManualClock) -> None:
    one = api.enqueue("demo", delay="1h30m", deadline="2h").job
    other = api.enqueue("demo", delay=timedelta(minutes=90), deadline=timedelta(hours=2)).job

    assert one.next_run_at == other.next_run_at == clock.now() + timedelta(minutes=90)
    assert one.deadline == other.deadline == clock.now() + timedelta(hours=2)


def test_the_same_key_gives_the_job_and_its_result(api: Jobs, coordinator: Coordinator) -> None:
    first = api.enqueue("demo", {"n": 1}, key="K")
    succeed(coordinator, claim_one(coordinator), result='"done"')

    again = api.enqueue("demo", {"n": 1}, key="K")

    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.job.id == first.job.id
    assert again.result == '"done"'


def test_the_same_key_with_another_input_is_a_conflict(api: Jobs) -> None:
    api.enqueue("demo", {"n": 1}, key="K")

    with pytest.raises(KeyConflict):
        api.enqueue("demo", {"n": 2}, key="K")


@pytest.mark.parametrize(
    ("type_name", "value", "options", "error"),
    [
        ("dmeo", {}, {}, NotFound),
        ("demo", [1], {}, InvalidInput),
        ("demo", {"n": float("nan")}, {}, InvalidInput),
        ("demo", {"n": object()}, {}, InvalidInput),
        ("demo", {"n": "\ud800"}, {}, InvalidInput),
        ("demo", {}, {"key": ""}, UsageError),
        ("demo", {}, {"user": "a\0b"}, UsageError),
        ("demo", {}, {"delay": "5"}, UsageError),
        ("demo", {}, {"delay": "5m", "at": ManualClock().now()}, UsageError),
        ("demo", {}, {"at": ManualClock().now().replace(tzinfo=None)}, UsageError),
        ("demo", {}, {"max_attempts": True}, UsageError),
    ],
)
def test_what_makes_no_sense_is_refused(
    type_name: str, value: Any, options: Any, error: type[Exception], api: Jobs
) -> None:
    with pytest.raises(error):
        api.enqueue(type_name, value, **options)

    assert _count(api) == 0


def test_an_unknown_option_is_a_type_error(api: Jobs) -> None:
    with pytest.raises(TypeError, match="kye"):
        api.enqueue("demo", {}, kye="K")  # type: ignore[call-arg]


def test_an_input_beyond_the_limits_is_refused(store: Store, clock: ManualClock) -> None:
    settings = Settings.model_validate(
        {"database": store.url, "limits": {"input_bytes": 100, "input_depth": 5}}
    )
    deep: Any = 1
    for _ in range(10):
        deep = [deep]

    with Jobs(settings, clock=clock) as api:
        with pytest.raises(InvalidInput, match="larger"):
            api.enqueue("demo", {"text": "安" * 40})
        with pytest.raises(InvalidInput, match="deeper"):
            api.enqueue("demo", {"deep": deep})
        api.enqueue("demo", {"wide": [{} for _ in range(10)]})


def test_many_are_one_transaction(api: Jobs) -> None:
    api.enqueue("demo", {"n": 1}, key="1")
    requests = [Request(type="demo", key=str(n), input={"n": 2}) for n in range(3)]

    with pytest.raises(KeyConflict):
        api.enqueue_many(requests)
    none = _count(api)
    answers = api.enqueue_many(requests, keep_going=True)

    assert none == 1
    assert [isinstance(answer, Enqueued) for answer in answers] == [True, False, True]
    assert _count(api) == 3


def test_cancelling_stops_and_a_second_time_says_so(api: Jobs) -> None:
    job_id = api.enqueue("demo").job.id

    with pytest.raises(UsageError, match="a reason is needed"):
        api.cancel(job_id, reason="  ")
    assert api.cancel(job_id).status is Status.CANCELLED
    with pytest.raises(AlreadyFinished):
        api.cancel(job_id)


def test_a_job_that_is_not_there_is_not_found(api: Jobs) -> None:
    for ask in (api.get, api.result, api.cancel, api.wait):
        with pytest.raises(NotFound):
            ask("nonsense")


def test_a_wait_that_is_over_raises(api: Jobs) -> None:
    job_id = api.enqueue("demo").job.id

    with pytest.raises(TimeoutError, match="still pending"):
        api.wait(job_id, timeout=0)


# --- Inside the caller's transaction ----------------------------------------------------------------


@pytest.fixture
def own(store: Store) -> Iterator[Any]:
    """An engine of the application's own on the same database, with a table of its own."""
    url = store.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    _orders.metadata.create_all(engine)
    yield engine
    _orders.metadata.drop_all(engine)
    engine.dispose()


def _own_rows(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(_orders)).scalar_one()


def test_a_job_exists_exactly_when_the_callers_rows_do(api: Jobs, own: Any) -> None:
    with own.begin() as connection:
        connection.execute(insert(_orders).values(id=1))
        job_id = api.enqueue("demo", {"order": 1}, key="order-1", connection=connection).job.id
    with pytest.raises(RuntimeError), own.begin() as connection:  # noqa: PT012
        connection.execute(insert(_orders).values(id=2))
        api.enqueue("demo", {"order": 2}, key="order-2", connection=connection)
        raise RuntimeError("the order is refused")

    with own.connect() as connection:
        assert _own_rows(connection) == 1
    assert _count(api) == 1
    assert api.get(job_id).key == "order-1"


def test_nothing_is_visible_before_the_callers_commit(api: Jobs, own: Any) -> None:
    with own.begin() as connection:
        api.enqueue("demo", connection=connection)
        seen = _count(api)

    assert seen == 0
    assert _count(api) == 1


def test_an_orm_session_does_as_well(api: Jobs, own: Any) -> None:
    with Session(own) as session, session.begin():
        session.execute(insert(_orders).values(id=1))
        api.enqueue("demo", connection=session)

    assert _count(api) == 1


def test_a_conflict_inside_is_raised_for_the_caller_to_roll_back(api: Jobs, own: Any) -> None:
    api.enqueue("demo", {"n": 1}, key="K")

    with pytest.raises(KeyConflict), own.begin() as connection:  # noqa: PT012
        connection.execute(insert(_orders).values(id=1))
        api.enqueue("demo", {"n": 2}, key="K", connection=connection)

    with own.connect() as connection:
        assert _own_rows(connection) == 0


def test_many_may_be_put_into_one_transaction(api: Jobs, own: Any) -> None:
    with own.begin() as connection:
        answers = api.enqueue_in(connection, [Request(type="demo", key=str(n)) for n in range(3)])

    assert len({answer.job.id for answer in answers}) == 3
    assert _count(api) == 3


# --- Where it looks ---------------------------------------------------------------------------------


def test_a_url_makes_a_store_and_without_create_does_not(database_url: str) -> None:
    with pytest.raises(StoreUnreachable):
        Jobs(database_url, create=False)

    with Jobs(database_url) as api:
        job_id = api.enqueue("demo").job.id
    with Jobs(database_url, create=False) as api:
        assert api.get(job_id).type == "demo"


def test_a_file_names_types_and_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.yaml").write_text("database: sqlite:///other.db\ntypes: {mine: {provider: simulator}}\n")
    Path("aijobs.yaml").write_text("database: sqlite:///here.db\n")

    with Jobs("other.yaml") as api:
        api.enqueue("mine")
    with Jobs() as api:
        api.enqueue("demo")
    with Jobs("sqlite:///url.db") as api:
        api.enqueue("demo")

    assert {path.name for path in tmp_path.glob("*.db")} == {"other.db", "here.db", "url.db"}


def test_the_environment_decides_when_nothing_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIJOBS_DATABASE", "sqlite:///environment.db")
    monkeypatch.setenv("AIJOBS_ACTOR", "cron")

    with Jobs() as api:
        job = api.enqueue("demo").job

    assert job.created_by == "cron"
    assert (tmp_path / "environment.db").exists()
