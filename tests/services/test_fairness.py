"""One user's flood, another's single job."""

from aijobs.core.clock import Chance
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import claim_some, new_job, settings_of, succeed

FLOOD = 50_000
AT_ONCE = 10_000


def test_one_job_behind_another_users_fifty_thousand_starts_with_the_second_claim(
    store: Store, chance: Chance
) -> None:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    flood = new_job(user="ana")
    for _ in range(FLOOD // AT_ONCE):
        coordinator.enqueue_many([flood] * AT_ONCE, actor="test")
    claimed = claim_some(coordinator, 4)
    (single,) = coordinator.enqueue_many([new_job(user="bo")], actor="test")
    for claim in claimed:
        succeed(coordinator, claim.job)

    after = claim_some(coordinator, 4)

    assert {claim.job.user for claim in claimed} == {"ana"}
    assert single.job.id in {claim.job.id for claim in after}  # type: ignore[union-attr]


def test_a_flood_at_its_limit_leaves_the_free_slots_to_the_others_at_once(
    store: Store, chance: Chance
) -> None:
    types = {"t": {"provider": "p", "per_user": 2}}
    coordinator = Coordinator(store, settings_of(types=types), chance=chance)
    coordinator.enqueue_many([new_job(user="ana")] * 2_000, actor="test")
    coordinator.enqueue_many([new_job(user="bo")], actor="test")

    claimed = claim_some(coordinator, 4)

    assert sorted(claim.job.user for claim in claimed) == ["ana", "ana", "bo"]
    assert claim_some(coordinator, 4) == []


def test_jobs_that_come_one_by_one_go_round_the_users_as_those_of_a_batch_do(
    store: Store, chance: Chance, clock: ManualClock
) -> None:
    coordinator = Coordinator(store, settings_of(), chance=chance)
    for user in ("ana", "ana", "ana", "bo", "bo"):
        coordinator.enqueue(new_job(user=user), actor="test")
        clock.advance(seconds=1)
    before = [claim_some(coordinator, 1)[0].job.user for _ in range(3)]
    coordinator.enqueue(new_job(user="cy"), actor="test")

    after = [claim_some(coordinator, 1)[0].job.user for _ in range(3)]

    assert before == ["ana", "bo", "ana"]
    assert after == ["bo", "cy", "ana"]
