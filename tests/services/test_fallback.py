"""The approved other provider: used while it is switched on, and at no other time."""

from datetime import timedelta

import pytest

from aijobs.core.clock import Chance, seeded_chance
from aijobs.core.errors import Conflict
from aijobs.core.model import ErrorClass
from aijobs.core.settings import Settings
from aijobs.core.switches import Switch, SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.services.diagnosis import Diagnosing
from aijobs.services.switching import Switching
from aijobs.store import switches
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import claim_one, claim_some, fail, history, new_job, settings_of, succeed
from tests.support.workers import ScriptedProvider, drain

APPROVED = {"quality": True, "privacy": True, "region": True, "cost": True}


def settings(*, approved: dict[str, bool] = APPROVED, **other: object) -> Settings:
    provider = {"kind": "python", "callable": "builtins:str"}
    fallback = {"provider": "q", "model": "spare", "request": {"max": 9}, "approved": approved}
    return settings_of(
        providers={"p": provider | {"breaker": {"failures": 1, "within": "60s"}}, "q": provider | other},
        types={
            "t": {"provider": "p", "model": "main", "request": {"max": 1}, "fallback": fallback},
            "u": {"provider": "p"},
        },
    )


def coordinator_of(store: Store, chosen: Settings | None = None, **changes: object) -> Coordinator:
    return Coordinator(store, chosen or settings(**changes), chance=seeded_chance(1))  # type: ignore[arg-type]


def turn_on(store: Store, lasting: timedelta | None = None) -> None:
    Switching(store, settings()).turn_on(
        SwitchKind.FALLBACK, "t", actor="eve", reason="outage", lasting=lasting
    )


def enqueue(coordinator: Coordinator, count: int = 1, **changes: object) -> list[str]:
    batch = [new_job({"n": n}, **changes) for n in range(count)]
    return [answer.job.id for answer in coordinator.enqueue_many(batch, actor="t")]  # type: ignore[union-attr]


def test_while_it_is_on_calls_go_to_the_fallback_and_the_attempt_says_so(
    store: Store, clock: ManualClock
) -> None:
    coordinator = coordinator_of(store)
    before, during, after = enqueue(coordinator, 3)

    succeed(coordinator, claim_one(coordinator))
    turn_on(store)
    job = claim_one(coordinator)
    succeed(coordinator, job)
    Switching(store, settings()).turn_off(SwitchKind.FALLBACK, "t", actor="eve", reason="over")
    succeed(coordinator, claim_one(coordinator))

    seen = [history(store, job_id)[0] for job_id in (before, during, after)]
    assert [(one["provider"], one["model"], one["fallback"]) for one in seen] == [
        ("p", "main", False), ("q", "spare", True), ("p", "main", False),
    ]  # fmt: skip


def test_it_ends_by_itself_exactly_when_it_expires(store: Store, clock: ManualClock) -> None:
    coordinator = coordinator_of(store)
    enqueue(coordinator, 2)
    turn_on(store, timedelta(minutes=5))

    clock.advance(seconds=299)
    last = claim_one(coordinator)
    clock.advance(seconds=1)
    first = claim_one(coordinator)

    assert (last.provider, first.provider) == ("q", "p")


def test_another_type_stays_where_it_is(store: Store) -> None:
    coordinator = coordinator_of(store)
    enqueue(coordinator, type="u")
    turn_on(store)

    assert claim_one(coordinator).provider == "p"


@pytest.mark.parametrize("missing", ["quality", "privacy", "region", "cost"])
def test_what_is_not_approved_is_not_used_although_the_switch_was_thrown(store: Store, missing: str) -> None:
    unapproved = settings(approved=APPROVED | {missing: False})
    coordinator = coordinator_of(store, unapproved)
    enqueue(coordinator)
    now = store.clock.now()
    with store.write() as tx:  # while the configuration still said otherwise
        switches.throw(tx, Switch(kind=SwitchKind.FALLBACK, scope="t", value="on", actor="e", reason="r",
                                  set_at=now))  # fmt: skip

    assert claim_one(coordinator).provider == "p"
    with pytest.raises(Conflict, match=missing):
        Switching(store, unapproved).turn_on(
            SwitchKind.FALLBACK, "t", actor="e", reason="again", lasting=None
        )


def test_the_breaker_of_the_usual_provider_does_not_hold_calls_to_the_fallback(store: Store) -> None:
    coordinator = coordinator_of(store)
    enqueue(coordinator, 3)
    fail(coordinator, claim_one(coordinator), ErrorClass.UNAVAILABLE)
    held = claim_some(coordinator, 2)

    turn_on(store)
    claims = claim_some(coordinator, 2)

    assert held == []
    assert {claim.job.provider for claim in claims} == {"q"}


def test_the_limit_of_the_fallback_counts_not_that_of_the_usual_provider(store: Store) -> None:
    coordinator = coordinator_of(store, concurrency=2)
    enqueue(coordinator, 5)
    turn_on(store)

    assert len(claim_some(coordinator, 5)) == 2


def test_what_keeps_a_job_is_looked_for_where_its_call_would_go(store: Store) -> None:
    chosen = settings(concurrency=1)
    coordinator = coordinator_of(store, chosen)
    third = enqueue(coordinator, 3)[-1]
    fail(coordinator, claim_one(coordinator), ErrorClass.UNAVAILABLE)
    turn_on(store)
    claim_one(coordinator)

    told = Diagnosing(store, chosen).job(third)

    wrong = {one.check: one.evidence for one in told.findings if not one.ok}
    assert wrong["limits"] == "provider q runs its limit of 1"
    assert "provider" not in wrong


def test_the_call_carries_the_model_and_the_request_of_the_fallback(store: Store, chance: Chance) -> None:
    coordinator = coordinator_of(store)
    enqueue(coordinator)
    turn_on(store)
    provider = ScriptedProvider()

    drain(store, provider, settings=settings())

    (call,) = provider.calls
    assert (call.model, call.request) == ("spare", {"max": 9})


def test_an_attempt_whose_worker_was_lost_is_still_one_of_the_fallback(
    store: Store, clock: ManualClock
) -> None:
    coordinator = coordinator_of(store)
    (job_id,) = enqueue(coordinator)
    turn_on(store)
    claim_one(coordinator)
    clock.advance(seconds=61)

    coordinator.rescue(limit=10)

    (attempt,) = history(store, job_id)
    assert (attempt["outcome"], attempt["provider"], attempt["fallback"]) == ("lost", "q", True)
