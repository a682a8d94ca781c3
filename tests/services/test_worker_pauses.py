"""A machine that sleeps, a process that is stopped, a clock that steps: whose calls are lost then."""

from datetime import timedelta

from aijobs.core.clock import Chance
from aijobs.core.model import Done, Reply, Status
from aijobs.providers.contract import Call
from aijobs.services.coordinator import Coordinator
from aijobs.services.worker.draining import Draining
from aijobs.services.worker.errands import Errand, Errands
from aijobs.services.worker.rounds import Rounds
from aijobs.store.engine import Store
from tests.services.test_worker_leases import Keeping
from tests.support.clock import START, ManualClock
from tests.support.jobs import LEASE, claim_one, history, new_job, present, settings_of
from tests.support.wait import eventually
from tests.support.workers import Heard, Latch, ScriptedProvider, running

ROUND = timedelta(seconds=20)


def test_a_worker_that_slept_does_not_call_its_own_call_lost(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    coordinator, latch = Coordinator(store, settings_of(), chance=chance), Latch()
    job = coordinator.enqueue(new_job(), actor="test").job

    async def answer(call: Call) -> Reply:
        await latch.passed()
        return Done(result="1")

    provider = ScriptedProvider(answer)
    with running(store, provider, renew_every=ROUND) as one:  # it looks for lost attempts long before that
        eventually(lambda: provider.calls)
        one.crew.shift._check_leases = lambda now: None  # type: ignore[method-assign]
        until = clock.advance(2 * LEASE) + LEASE
        eventually(lambda: present(store, job.id).locked_until == until)
        latch.open.set()
        eventually(lambda: history(store, job.id))

    assert [one["outcome"] for one in history(store, job.id)] == ["succeeded"]


def test_after_a_sleep_the_call_of_a_worker_that_is_gone_is_recorded_as_lost(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    other = Coordinator(store, settings_of(), chance=chance)
    other.enqueue(new_job(), actor="test")
    job = claim_one(other, worker="gone")

    with running(store) as one:
        assert one.crew.keeper  # it is there before the clock steps
        clock.advance(2 * LEASE)
        eventually(lambda: present(store, job.id).status is not Status.PROCESSING)

    assert history(store, job.id)[0]["outcome"] == "lost"


def test_what_runs_out_while_an_errand_is_on_its_way_is_not_lost_by_that(
    store: Store, clock: ManualClock, chance: Chance
) -> None:
    other = Coordinator(store, settings_of(), chance=chance)
    other.enqueue(new_job(), actor="test")
    job = claim_one(other)

    errands = Errands(other, Keeping().keeper, Draining(store, settings_of(), ()), worker="w1", log=Heard())
    asked_at, now = clock.now(), clock.advance(2 * LEASE)

    early = errands.run(Errand(repair=asked_at))
    late = errands.run(Errand(repair=now))

    assert (early.rescued.ids, late.rescued.ids) == ((), (job.id,))


def test_after_a_pause_everybody_has_the_time_of_a_round_to_renew() -> None:
    clock, host = ManualClock(), ManualClock()
    rounds = Rounds(lease=LEASE, every=ROUND, clock=clock, host=host)
    woken = clock.advance(LEASE)

    asleep = rounds.regular(woken)
    rounds.through(woken)
    just_renewed = rounds.regular(woken)
    host.advance(ROUND)

    assert (asleep, just_renewed, rounds.regular(woken)) == (False, False, True)


def test_rounds_that_come_in_time_and_a_clock_that_steps_back_are_no_pause() -> None:
    rounds = Rounds(lease=LEASE, every=ROUND, clock=ManualClock(), host=ManualClock())
    judged = []
    for at in (ROUND, 2 * ROUND, -10 * ROUND, -9 * ROUND):
        rounds.through(START + at)
        judged.append(rounds.regular(START + at + ROUND))

    assert judged == [True] * 4
