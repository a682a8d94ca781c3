"""`aijobs result`, and the stale result that `enqueue` may carry."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, text

from aijobs.core.clock import Chance
from aijobs.services.coordinator import Coordinator
from aijobs.store import last_results
from aijobs.store.engine import Store
from aijobs.store.tables import job_results
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, fail, new_job, settings_of, succeed

CONFIG = """\
providers: {p: {kind: python, callable: "builtins:str"}}
types:
  t: {provider: p, stale_results: {allowed: true, max_age: 1h}}
  strict: {provider: p}
"""


@pytest.fixture
def cli(run_cli: CommandLine) -> CommandLine:
    Path("aijobs.yaml").write_text(CONFIG)
    return run_cli


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    types = {"t": {"provider": "p"}, "strict": {"provider": "p"}}
    return Coordinator(store, settings_of(types=types), chance=chance)


def done(coordinator: Coordinator, result: str, *, user: str = "ana", kind: str = "t") -> str:
    """A job that has succeeded."""
    coordinator.enqueue(new_job(user=user, type=kind), actor="t")
    job = claim_one(coordinator)
    succeed(coordinator, job, result)
    return job.id


def test_the_last_result_is_printed_with_its_age(
    cli: CommandLine, coordinator: Coordinator, clock: ManualClock
) -> None:
    done(coordinator, '"old"')
    clock.advance(seconds=5)
    job_id = done(coordinator, '{"n": 2}')
    clock.advance(seconds=90)

    result = cli("result", "--type", "t", "--user", "ana", "--json")

    assert result.code == 0
    assert result.json == {
        "type": "t", "user": "ana", "job_id": job_id, "finished_at": "2026-01-01T00:00:05Z",
        "age_seconds": 90.0, "stale": False, "result": {"n": 2},
    }  # fmt: skip
    assert "90 s old" in cli("result", "--type", "t", "--user", "ana").err


def test_the_result_of_a_job_is_printed_by_its_id_however_many_came_after_it(
    cli: CommandLine, coordinator: Coordinator, clock: ManualClock
) -> None:
    job_id = done(coordinator, '"old"', kind="strict")
    clock.advance(seconds=5)
    done(coordinator, '"new"', kind="strict")

    words, told = cli("result", job_id), cli("result", job_id, "--json")

    assert (words.code, words.out, words.err) == (0, '"old"\n', f"from job {job_id}, 5 s old\n")
    assert told.json == {
        "type": "strict", "user": "ana", "job_id": job_id, "finished_at": "2026-01-01T00:00:00Z",
        "age_seconds": 5.0, "stale": True, "result": "old",
    }  # fmt: skip


def test_a_job_without_a_result_says_why_and_one_that_is_not_there_says_so(
    cli: CommandLine, coordinator: Coordinator
) -> None:
    waits = coordinator.enqueue(new_job(user="ana"), actor="t").job.id

    none, unknown = cli("result", waits), cli("result", waits[:8])

    assert (none.code, unknown.code) == (3, 3)
    assert none.err == (
        f"error: job {waits} has no result: it is pending\nhint: `aijobs diagnose {waits}` says more\n"
    )
    assert f"no job {waits[:8]}" in unknown.err


def test_a_result_that_retention_has_dropped_is_told_as_such(
    cli: CommandLine, coordinator: Coordinator, store: Store
) -> None:
    job_id = done(coordinator, '"old"')
    with store.write() as tx:
        tx.execute(delete(job_results))

    result = cli("result", job_id)

    assert (result.code, result.out) == (3, "")
    assert f"job {job_id} has no result: retention has dropped it" in result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "aijobs result JOB, or aijobs result --type TYPE --user USER"),
        (("JOB", "--type", "t"), "--type does not go with a job's id"),
        (("JOB", "--user", "ana"), "--user does not go with a job's id"),
        (("JOB", "--stale-ok"), "--stale-ok does not go with a job's id"),
    ],
)
def test_a_job_is_named_or_the_last_of_a_type_is_asked_for(
    arguments: tuple[str, ...], said: str, cli: CommandLine
) -> None:
    result = cli("result", *arguments)

    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_the_result_of_the_newest_job_is_the_last_although_an_older_one_finished_after_it(
    cli: CommandLine, coordinator: Coordinator, clock: ManualClock
) -> None:
    coordinator.enqueue(new_job(user="ana"), actor="t")
    older = claim_one(coordinator)
    clock.advance(seconds=1)
    newer = done(coordinator, '"new"')
    clock.advance(seconds=1)
    succeed(coordinator, older, '"old"')

    result = cli("result", "--type", "t", "--user", "ana", "--json")

    assert result.code == 0
    assert (result.json["job_id"], result.json["stale"]) == (newer, False)


def test_another_users_result_is_never_given(cli: CommandLine, coordinator: Coordinator) -> None:
    done(coordinator, '"hers"', user="ana")

    assert cli("result", "--type", "t", "--user", "bo", "--stale-ok").code == 3
    assert cli("result", "--type", "t", "--stale-ok").code == 3


def test_a_stale_result_needs_to_be_asked_for_and_is_marked(
    cli: CommandLine, coordinator: Coordinator, clock: ManualClock
) -> None:
    done(coordinator, '"old"')
    clock.advance(seconds=10)
    coordinator.enqueue(new_job(user="ana"), actor="t")
    fail(coordinator, claim_one(coordinator))

    plain = cli("result", "--type", "t", "--user", "ana")
    asked = cli("result", "--type", "t", "--user", "ana", "--stale-ok", "--json")

    assert (plain.code, plain.out) == (3, "")
    assert "--stale-ok" in plain.err
    assert (asked.code, asked.json["result"], asked.json["stale"]) == (0, "old", True)
    assert "stale" in cli("result", "--type", "t", "--user", "ana", "--stale-ok").err


def test_a_stale_result_is_good_up_to_its_age_and_no_longer(
    cli: CommandLine, coordinator: Coordinator, clock: ManualClock
) -> None:
    done(coordinator, '"old"')
    clock.advance(seconds=1)
    coordinator.enqueue(new_job(user="ana"), actor="t")
    clock.advance(timedelta(hours=1) - timedelta(seconds=1))
    ask = ("result", "--type", "t", "--user", "ana", "--stale-ok")

    in_time = cli(*ask)
    clock.advance(seconds=1)
    late = cli(*ask)

    assert (in_time.code, late.code) == (0, 3)


def test_a_type_that_does_not_allow_it_refuses(cli: CommandLine, coordinator: Coordinator) -> None:
    done(coordinator, '"old"', kind="strict")

    assert cli("result", "--type", "strict", "--user", "ana", "--stale-ok").code == 4
    assert cli("result", "--type", "strict", "--user", "ana").code == 0
    assert cli("result", "--type", "nope").code == 3


def test_enqueue_carries_it_marked_only_while_the_switch_is_on(
    cli: CommandLine, coordinator: Coordinator, clock: ManualClock
) -> None:
    job_id = done(coordinator, '"old"')
    clock.advance(seconds=30)
    ask = ("enqueue", "t", "--user", "ana", "--json")

    before = cli(*ask).json
    on = cli("switch", "set", "stale-results", "t", "on", "--for", "10m", "--reason", "outage")
    during = cli(*ask).json
    other = cli("enqueue", "t", "--user", "bo", "--json").json
    clock.advance(seconds=600)
    after = cli(*ask).json

    assert on.code == 0
    assert [one["stale_result"] for one in (before, other, after)] == [None, None, None]
    assert during["result"] is None
    assert during["stale_result"] == {
        "job_id": job_id, "finished_at": "2026-01-01T00:00:00Z", "age_seconds": 30.0, "stale": True,
        "result": "old",
    }  # fmt: skip


def test_lines_enqueued_in_bulk_carry_it_too(
    cli: CommandLine, coordinator: Coordinator, clock: ManualClock
) -> None:
    job_id = done(coordinator, '"old"')
    clock.advance(seconds=30)
    wanted = (("t", "ana"), ("t", "bo"), ("strict", "ana"), ("t", "ana"))
    lines = "".join(json.dumps({"type": kind, "user": user}) + "\n" for kind, user in wanted)
    ask = ("enqueue", "--jsonl", "-", "--json")

    before = cli(*ask, stdin=lines).records
    cli("switch", "set", "stale-results", "t", "on", "--for", "10m", "--reason", "outage")
    during = cli(*ask, stdin=lines).records
    kept_going = cli(*ask, "--keep-going", stdin=lines).records

    assert [one["stale_result"] for one in before[:4]] == [None] * 4
    for records in (during, kept_going):
        ids = [one["stale_result"] and one["stale_result"]["job_id"] for one in records[:4]]
        assert ids == [job_id, None, None, job_id]
        assert records[0]["stale_result"]["age_seconds"] == 30.0


def test_the_look_uses_the_index_of_successes(store: Store) -> None:
    query = str(last_results._LAST.compile(store.engine, compile_kwargs={"render_postcompile": True}))
    if store.dialect == "postgresql":
        query = query.replace("%(user)s", "'a'").replace("%(type)s", "'t'").replace("%(param_1)s", "1")
        query = query.replace("::VARCHAR", "").replace("::INTEGER", "")
    with store.read() as tx:
        if store.dialect == "sqlite":
            explained = tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", ("a", "t", 1, 0)).all()
        else:
            tx.execute(text("SET LOCAL enable_seqscan = off"))
            tx.execute(text("SET LOCAL enable_sort = off"))
            explained = tx.execute(text(f"EXPLAIN {query}")).all()

    assert "ix_jobs_last_success" in str(explained)
