"""The account of a chaos run finds what it is there to find."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from aijobs.core.model import Execution, Outcome
from tests.chaos import payments
from tests.chaos.accounts import Account, Facts, _doubled, _lost, _wrong
from tests.chaos.feed import Fed
from tests.chaos.outside import Outside
from tests.chaos.watch import overlap
from tests.support.clock import START

ATTEMPT = Execution(
    job_id="j", fence=1, round=1, attempt=1, outcome=Outcome.SUCCEEDED, client_request_id="aijobs-j-1",
    started_at=START, finished_at=START + timedelta(seconds=2),
)  # fmt: skip


def call(seconds: float = 1.0, *, attempt: int = 1, billed: bool = True) -> dict[str, Any]:
    at = (START + timedelta(seconds=seconds)).isoformat()
    return {
        "method": "POST", "path": "/v1/responses", "job": "j", "billed": billed, "response_id": f"r{seconds}",
        "client_request_id": f"aijobs-j-{attempt}", "at": at,
    }  # fmt: skip


def later(outcome: Outcome, *, begun: float = 10, **changes: Any) -> Execution:
    started = START + timedelta(seconds=begun)
    return replace(
        ATTEMPT, fence=2, attempt=2, outcome=outcome, client_request_id="aijobs-j-2", started_at=started,
        finished_at=started + timedelta(seconds=2), **changes,
    )  # fmt: skip


LOST = replace(ATTEMPT, outcome=Outcome.LOST)


def test_one_paid_call_for_one_result_is_nothing_to_explain() -> None:
    found = payments.settle([call(), call(billed=False)], {"j": [ATTEMPT]}, frozenset())

    assert (found.asked, found.billed, found.twice, found.faults) == (2, 1, Counter(), [])


def test_the_call_of_a_lost_worker_is_paid_in_vain_and_explained() -> None:
    attempts = {"j": [LOST, later(Outcome.SUCCEEDED)]}

    found = payments.settle([call(), call(11, attempt=2)], attempts, frozenset())

    assert found.twice == {"the worker was lost before the answer was saved": 1}
    assert found.faults == []


def test_a_call_that_arrives_after_the_lease_was_given_up_is_told_apart() -> None:
    attempts = {"j": [LOST, later(Outcome.SUCCEEDED)]}

    found = payments.settle([call(5), call(11, attempt=2)], attempts, frozenset())

    assert found.twice == {"sent by a worker that slept through its lease": 1}


def test_a_second_payment_that_no_attempt_explains_is_a_broken_promise() -> None:
    found = payments.settle([call(), call(attempt=7)], {"j": [ATTEMPT]}, frozenset())

    assert found.faults == ["job j: paid 2 times; no attempt explains it"]


def test_a_job_that_holds_when_unsure_is_never_paid_for_twice() -> None:
    calls, attempts = [call(), call(11, attempt=2)], {"j": [LOST, later(Outcome.SUCCEEDED)]}

    (fault,) = payments.settle(calls, attempts, frozenset({"j"})).faults

    assert "paid 2 times" in fault


@dataclass
class Row:
    """As much of a row as the account looks at."""

    id: str = "j"
    status: str = "succeeded"
    type: str = "plain"
    schedule: str | None = None
    key: str | None = None
    result: str = '"chaos 1 was read"'
    last_error_class: str | None = None
    last_error_code: str | None = None
    last_error_message: str | None = None


def facts(*rows: Row, attempts: tuple[Execution, ...] = (ATTEMPT,)) -> Facts:
    return Facts(
        jobs={row.id: row for row in rows}, inputs={row.id: {"n": 1} for row in rows},
        results={row.id: row for row in rows}, attempts={"j": list(attempts)}, effects=[], dead=[],
        events=Counter(),
    )  # fmt: skip


def account() -> Account:
    return Account(database="sqlite", seed=1, minutes=1)


def test_results_effects_and_jobs_that_come_twice_are_found() -> None:
    twice = facts(Row(), Row(id="k"), attempts=(ATTEMPT, later(Outcome.SUCCEEDED)))
    found = account()

    broken = _doubled(found, twice, Outside(effects=Counter({("j", "mail"): 2})))

    assert (found.doubled_results, found.doubled_effects) == (2, 1)
    assert len(broken) == 3


def test_lost_and_strange_jobs_are_found() -> None:
    found = account()

    broken = _lost(found, facts(Row()), Fed(accepted={5: "gone"}))

    assert found.lost == 1
    assert broken == ["job for input 1 exists, and nobody enqueued it"]


def test_a_result_of_another_input_and_a_death_by_our_own_fault_are_found() -> None:
    mixed = facts(
        Row(result='"chaos 12 was read"'), Row(id="d", status="dead_letter", last_error_class="internal"),
        Row(id="o", type="order"),
    )  # fmt: skip

    assert len(_wrong(mixed)) == 3


def test_an_effect_of_a_worker_that_slept_is_refused_once_the_next_one_has_asked() -> None:
    world = Outside()

    assert world.send(("j", "mail"), 1)
    assert world.ask(("j", "mail"), 2)
    assert not world.send(("j", "mail"), 1)
    assert world.refused == 1


def test_spans_that_overlap_are_not_counted_twice() -> None:
    assert overlap(0, 10, [(1, 3), (2, 5), (8, 20)]) == 6
