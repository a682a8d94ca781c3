"""An answer that was cut off: asked for again only with more room."""

from typing import Any

from aijobs.core.clock import Chance
from aijobs.core.model import Done, ErrorClass, Failure, Reply, Status
from aijobs.core.settings import Settings
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store
from tests.support.jobs import history, new_job, present, settings_of
from tests.support.workers import ScriptedProvider, drain

TRUNCATED = Failure(error_class=ErrorClass.OUTPUT_TRUNCATED, code="max_output_tokens", maybe_billed=True)
NETWORK = Failure(error_class=ErrorClass.NETWORK, code="connect")


def settings(*, retries: int = 5, **changes: Any) -> Settings:
    kind = {"provider": "p", "request": {"max_output_tokens": 100}, **changes}
    rules = {
        "output_truncated": {"retries": retries, "backoff": "fixed", "delay": "0s"},
        "network": {"retries": 5, "backoff": "fixed", "delay": "0s"},
    }
    return settings_of(types={"t": kind}, retry=rules)


def run(store: Store, chance: Chance, chosen: Settings, *answers: Failure) -> tuple[str, list[object]]:
    """Run one job against *answers*, then success; its id and the limits it was sent with."""
    replies = iter(answers)

    def answer(call: Call) -> Reply:
        return next(replies, Done(result='"whole"'))

    provider = ScriptedProvider(answer)
    job = Coordinator(store, chosen, chance=chance).enqueue(new_job(max_attempts=9), actor="t").job
    drain(store, provider, settings=chosen)
    return job.id, [call.request.get("max_output_tokens") for call in provider.calls]


def test_the_next_try_has_more_room(store: Store, chance: Chance) -> None:
    job_id, limits = run(store, chance, settings(grow_output={"factor": 3, "max": 10_000}), TRUNCATED)

    assert limits == [100, 300]
    assert present(store, job_id).status is Status.SUCCEEDED


def test_without_grow_output_it_is_not_tried_again(store: Store, chance: Chance) -> None:
    job_id, limits = run(store, chance, settings(), TRUNCATED)

    assert limits == [100]
    assert present(store, job_id).status is Status.DEAD_LETTER


def test_the_same_limit_is_never_tried_twice(store: Store, chance: Chance) -> None:
    grow = {"factor": 2, "max": 350}
    job_id, limits = run(store, chance, settings(grow_output=grow), *[TRUNCATED] * 9)

    assert limits == [100, 200, 350]
    assert present(store, job_id).status is Status.DEAD_LETTER
    assert history(store, job_id)[-1]["error_code"] == "no_more_room"


def test_another_failure_in_between_does_not_take_the_room_away(store: Store, chance: Chance) -> None:
    grow = {"factor": 2, "max": 10_000}
    _, limits = run(store, chance, settings(grow_output=grow), TRUNCATED, NETWORK, TRUNCATED)

    assert limits == [100, 200, 200, 400]


def test_a_request_that_names_no_limit_is_not_sent_again(store: Store, chance: Chance) -> None:
    job_id, limits = run(store, chance, settings(request={}, grow_output={}), TRUNCATED)

    assert limits == [None]
    assert present(store, job_id).status is Status.DEAD_LETTER


def test_it_is_tried_again_as_often_as_its_rule_says(store: Store, chance: Chance) -> None:
    grow = {"factor": 2, "max": 10_000}
    _, limits = run(store, chance, settings(retries=1, grow_output=grow), TRUNCATED, TRUNCATED)

    assert limits == [100, 200]
