"""Dead letters from the command line: chosen without accident, closed with a reason, retried in bounds."""

from datetime import timedelta

import pytest

from aijobs.core.model import ErrorClass, Status
from aijobs.services.coordinator import Coordinator
from tests.support.jobs import claim_one, fail, history, new_job, present, settings_of, succeed

CONFIG = """
providers:
  p: {kind: python, callable: "builtins:str"}
types:
  t: {provider: p, max_replays: 2}
  u: {provider: p, on_unknown_outcome: hold}
"""


@pytest.fixture
def coordinator(store, chance):
    types = {"t": {"provider": "p"}, "u": {"provider": "p", "on_unknown_outcome": "hold"}}
    return Coordinator(store, settings_of(types=types), chance=chance)


@pytest.fixture
def run(run_cli, tmp_path):
    (tmp_path / "aijobs.yaml").write_text(CONFIG)
    return run_cli


def die(coordinator, value=1, error_class=ErrorClass.INVALID_REQUEST, **changes) -> str:
    job = coordinator.enqueue(new_job(value, **changes), actor="t").job
    fail(coordinator, claim_one(coordinator), error_class)
    return job.id


def listed(result) -> list[str]:
    return [one["job_id"] for one in result.json["dead_letters"]]


def test_the_list_is_newest_first_and_holds_references_only(run, coordinator, clock):
    first = die(coordinator, {"text": "secret prompt"}, user="ana")
    clock.advance(timedelta(minutes=1))
    second = die(coordinator, 2, ErrorClass.CONTEXT_LENGTH)

    shown = run("deadletter", "list", "--json")

    assert listed(shown) == [second, first]
    assert shown.json["dead_letters"][1] == {
        "job_id": first, "type": "t", "user": "ana", "error_class": "invalid_request", "error_code": "test",
        "attempts": 1, "at": "2026-01-01T00:00:00Z", "state": "open", "round": 1,
        "reason": "invalid_request: trying again changes nothing", "actor": None, "settled_at": None,
    }  # fmt: skip
    assert "secret prompt" not in shown.out


def test_filters_compare_text_as_it_stands(run, coordinator, clock):
    ana = die(coordinator, 1, user="ana")
    die(coordinator, 2, user="anabel", error_class=ErrorClass.PERMISSION)

    assert listed(run("deadletter", "list", "--user", "ana", "--json")) == [ana]
    assert listed(run("deadletter", "list", "--user", "ana%", "--json")) == []
    assert listed(run("deadletter", "list", "--error-class", "invalid_request", "--json")) == [ana]
    assert listed(run("deadletter", "list", "--until", "2026-01-01T00:00:00Z", "--json")) == []
    assert run("deadletter", "list", "--error-class", "Quota*").code == 2


def test_groups_say_how_many_there_are_of_each_kind(run, coordinator):
    for number in range(3):
        die(coordinator, number)
    die(coordinator, 9, ErrorClass.PERMISSION)

    groups = run("deadletter", "list", "--limit", "1", "--json").json["groups"]

    assert [(one["error_class"], one["count"]) for one in groups] == [
        ("invalid_request", 3),
        ("permission", 1),
    ]


def test_one_is_closed_with_a_reason_and_stays_a_dead_letter(run, store, coordinator):
    job_id = die(coordinator)

    closed = run("deadletter", "close", job_id, "--reason", "bad input")
    again = run("deadletter", "close", job_id, "--reason", "twice")

    assert (closed.code, again.code) == (0, 4)
    assert present(store, job_id).status is Status.DEAD_LETTER
    assert listed(run("deadletter", "list", "--json")) == []
    (one,) = run("deadletter", "list", "--state", "closed", "--json").json["dead_letters"]
    assert (one["reason"], one["actor"]) == ("bad input", "tester")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ([], 2, "--all"),
        (["--type", ""], 2, "--type is empty"),
        (["--tpye", "t"], 2, "--type"),
        (["--type", "t"], 2, "--yes"),
        (["--all"], 2, "--yes"),
        (["no-such-job"], 3, "no-such-job"),
        (["--since", "1h", "--until", "2h"], 2, "--since"),
    ],
)
def test_closing_many_needs_a_filter_and_a_yes(run, coordinator, args, code, says):
    job_id = die(coordinator)

    refused = run("deadletter", "close", *args, "--reason", "x")

    assert refused.code == code
    assert says in refused.err
    assert listed(run("deadletter", "list", "--json")) == [job_id]


def test_one_unknown_id_among_several_closes_none(run, coordinator):
    job_id = die(coordinator)

    refused = run("deadletter", "close", job_id, "nobody", "--reason", "x", "--yes")

    assert (refused.code, listed(run("deadletter", "list", "--json"))) == (3, [job_id])


def test_many_are_previewed_then_closed(run, coordinator):
    made = {die(coordinator, number) for number in range(3)}

    preview = run("deadletter", "close", "--type", "t", "--reason", "x", "--preview", "--json")
    untouched = set(listed(run("deadletter", "list", "--json")))
    closed = run("deadletter", "close", "--type", "t", "--reason", "x", "--yes", "--json")

    assert {one["job_id"] for one in preview.json["would_close"]} == untouched == made
    assert set(closed.json["closed"]) == made
    assert listed(run("deadletter", "list", "--json")) == []


def test_ctrl_c_while_many_are_closed_leaves_word_of_what_was_done(run, coordinator, monkeypatch):
    for n in range(2):
        die(coordinator, n)
    closed = []

    def close(self, job_id, **_):
        if closed:
            raise KeyboardInterrupt
        closed.append(job_id)

    monkeypatch.setattr(Coordinator, "close", close)
    result = run("deadletter", "close", "--all", "--reason", "x", "--yes", "--json")

    assert (result.code, result.json["error"]["kind"]) == (130, "interrupted")
    assert result.json["closed"] == closed
    assert "until then 1 of 2 closed" in result.err


def test_a_retry_runs_the_job_again_and_keeps_its_history(run, store, coordinator):
    job_id = die(coordinator)

    again = run("retry", job_id, "--reason", "fixed", "--json")
    succeed(coordinator, claim_one(coordinator))

    assert (again.code, again.json["job"]["status"], again.json["job"]["round"]) == (0, "pending", 2)
    assert [one["outcome"] for one in history(store, job_id)] == ["failed", "succeeded"]


def test_a_job_can_be_retried_as_often_as_its_type_allows(run, coordinator):
    job_id = die(coordinator)
    for _ in range(2):
        assert run("retry", job_id, "--reason", "again").code == 0
        fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)

    refused = run("retry", job_id, "--reason", "once more")

    assert refused.code == 4
    assert "max_replays" in refused.err


def test_only_what_died_or_is_held_can_be_retried(run, coordinator):
    job = coordinator.enqueue(new_job(), actor="t").job

    assert run("retry", job.id, "--reason", "x").code == 4
    assert run("retry", "nobody", "--reason", "x").code == 3
    assert run("retry", job.id).code == 2
    assert run("retry", job.id, "--reason", " ").code == 2


def test_a_held_job_waits_for_a_person_and_goes_on_when_released(run, store, coordinator):
    job = coordinator.enqueue(new_job(type="u"), actor="t").job
    fail(coordinator, claim_one(coordinator), ErrorClass.NETWORK_TIMEOUT, maybe_billed=True)
    held = present(store, job.id)

    released = run("retry", job.id, "--reason", "the provider has no trace of it")

    assert held.hold_reason is not None
    assert (held.status, held.next_run_at) == (Status.FAILED, None)
    assert released.code == 0
    assert claim_one(coordinator).id == job.id


def test_a_dead_job_whose_key_went_to_a_newer_one_is_not_run_twice(run, coordinator, clock):
    expires = clock.now() + timedelta(hours=1)
    job_id = die(coordinator, 1, key="k", key_expires_at=expires)
    clock.set(expires)
    newer = coordinator.enqueue(new_job(1, key="k"), actor="t").job

    refused = run("retry", job_id, "--reason", "x")

    assert refused.code == 4
    assert newer.id in refused.err
