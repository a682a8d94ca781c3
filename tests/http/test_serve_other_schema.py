"""A store that is upgraded, put back from a backup, or bereft of a column under a server at work."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text, update

from aijobs import Jobs
from aijobs.core.errors import SchemaMismatch
from aijobs.core.log_events import LogEvent
from aijobs.store import schema, upgrading
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import schema_version
from tests.support import next_version
from tests.support.clock import ManualClock
from tests.support.invariants import violations
from tests.support.serving import CRON, Served, serving, with_webhooks

JOB = {"type": "demo", "input": {}}


@pytest.fixture
def own(database_url: str, clock: ManualClock) -> Iterator[Store]:
    """A store that no other test has."""
    with closing(open_store(database_url, clock=clock, create=True)) as one:
        yield one


@pytest.fixture
def served(own: Store) -> Iterator[Served]:
    with serving(own) as one:
        yield one


def every_answer(served: Served, job_id: str) -> dict[str, httpx.Response]:
    """What each route that needs the store answers."""
    return {
        "create": served.http.post("/jobs", json=JOB),
        "show": served.http.get(f"/jobs/{job_id}"),
        "cancel": served.http.post(f"/jobs/{job_id}/cancel"),
        "events": served.http.get(f"/jobs/{job_id}/events"),
        "tick": served.http.get("/tick", headers={"authorization": f"Bearer {CRON}"}),
        "webhook": served.deliver(),
        "metrics": served.http.get("/metrics"),
        "readyz": served.http.get("/readyz"),
    }


def alter(store: Store, *statements: Any) -> None:
    with store.write() as tx:
        for statement in statements:
            tx.execute(statement)


def warnings(served: Served) -> list[object]:
    return [one["text"] for one in served.log.fields_of(LogEvent.STORE_WARNING)]


def test_a_server_and_the_python_api_go_on_with_the_next_version_and_the_server_says_that_it_is_old(
    served: Served, own: Store, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Jobs(with_webhooks().model_copy(update={"database": database_url}), clock=own.clock) as api:
        before = api.enqueue("demo").job.id
        with monkeypatch.context() as newer:
            next_version.go_on(tmp_path, newer)
            upgrading.upgrade(database_url)
        answers = every_answer(served, before)
        served.http.get("/readyz")
        after = api.enqueue("demo", key="k").job.id

        assert {name: one.status_code for name, one in answers.items() if one.status_code != 200} == {
            "create": 202
        }
        assert api.enqueue("demo", key="k").job.id == after
    (said,) = warnings(served)
    assert f"newer schema {next_version.NUMBER}, and this server knows {schema.HEAD}" in str(said)
    alter(own, update(schema_version).values(version_num=schema.HEAD))
    assert violations(own, settings=with_webhooks()) == []


def test_what_this_server_cannot_work_with_is_503_with_the_reason_and_a_line_a_minute(
    served: Served, own: Store, clock: ManualClock
) -> None:
    created = served.http.post("/jobs", json=JOB).json()["id"]
    alter(own, text("ALTER TABLE jobs RENAME COLUMN request_id TO renamed"))

    answers = every_answer(served, created)
    clock.advance(timedelta(seconds=61))
    served.http.get("/readyz")

    refused = {name: one.json()["error"] for name, one in answers.items() if one.status_code != 200}
    said = served.log.fields_of(LogEvent.REQUEST_FAILED)
    assert set(refused) == {"create", "show", "cancel", "events", "webhook", "readyz"}
    assert {answers[name].status_code for name in refused} == {503}
    assert {one["kind"] for one in refused.values()} == {"schema_mismatch"}
    assert {one["message"] for one in refused.values()} == {"the store is not of this server's version"}
    assert not any("retry-after" in answers[name].headers for name in refused)
    assert [one["route"] for one in said] == ["/jobs", "/readyz"]
    assert "lacks a table or column" in str(said[0]["error"])
    settings = with_webhooks().model_copy(update={"database": own.url})
    with Jobs(settings, clock=clock) as api, pytest.raises(SchemaMismatch):
        api.enqueue("demo")


def test_over_a_backup_of_an_older_version_a_server_is_not_ready(served: Served, own: Store) -> None:
    alter(own, update(schema_version).values(version_num="0000"))

    answer = served.http.get("/readyz")

    (said,) = served.log.fields_of(LogEvent.REQUEST_FAILED)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "schema_mismatch")
    assert "has the older schema 0000" in str(said["error"])
    assert warnings(served) == []
