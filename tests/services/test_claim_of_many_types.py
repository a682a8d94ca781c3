"""A claim of many types looks at those that have something to do, and at no line of the others."""

from sqlalchemy import event

from aijobs.core.clock import seeded_chance
from aijobs.core.switches import Switch, SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.store import switches
from aijobs.store.engine import Store
from tests.support.jobs import claim_some, new_job, settings_of


def of_types(store: Store, count: int) -> Coordinator:
    settings = settings_of(types={f"t{n}": {"provider": "p"} for n in range(count)})
    return Coordinator(store, settings, chance=seeded_chance(count))


def test_a_claim_asks_as_many_questions_of_forty_types_as_of_four(store):
    asked: list[str] = []
    few, many = of_types(store, 4), of_types(store, 40)
    for coordinator in (few, many):
        coordinator.enqueue(new_job(type="t3"), actor="test")
    event.listen(store.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))

    (one,) = claim_some(few)
    of_four = len(asked)
    (other,) = claim_some(many)

    assert (one.job.type, other.job.type) == ("t3", "t3")
    assert len(asked) - of_four == of_four


def test_of_many_types_each_with_something_to_do_gets_its_turn_and_a_paused_one_does_not(store, clock):
    coordinator = of_types(store, 9)
    for name in ("t0", "t4", "t6", "t8"):
        coordinator.enqueue(new_job(type=name), actor="test")
    with store.write() as tx:
        switches.throw(
            tx,
            Switch(
                kind=SwitchKind.PAUSE, scope="t4", value="on", actor="test", reason="a test",
                set_at=clock.now(),
            ),
        )  # fmt: skip

    claims = claim_some(coordinator, slots=10)

    assert sorted(claim.job.type for claim in claims) == ["t0", "t6", "t8"]
