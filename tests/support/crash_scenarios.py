"""What a process is doing when it is cut off: one scenario for each way through the store.

*prepare* runs undisturbed. *act* is cut off at each of its points in turn, and then done again by a new
process, as a caller, a cron job or a person would: so it has to find its way from whatever it finds.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from aijobs.core.durations import Rate
from aijobs.core.errors import AlreadyFinished, Conflict, NotFound
from aijobs.core.lifecycle import Parked, Succeeded
from aijobs.core.model import Status
from aijobs.core.replaying import ReplayOptions
from aijobs.services.coordinator import ClaimRequest, Ended
from aijobs.services.pruner import Pruner
from aijobs.services.replay import Planner, Runner
from aijobs.services.scheduler import key_of
from aijobs.services.switching import Switching
from aijobs.store import dead_letters, jobs, replays
from aijobs.store.dead_letters import DeadLetterFilter
from tests.support.clock import START
from tests.support.crash_world import Process, World, asked
from tests.support.jobs import LEASE

MANY = 100  # from so many on jobs are written in bulk


def _nothing(_: Any) -> None:
    return None


def _all_well(_: World) -> Iterator[str]:
    yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way through the store. *check* says what is wrong at the end, beyond what always holds."""

    name: str
    act: Callable[[Process], None]
    prepare: Callable[[Process], None] = _nothing
    check: Callable[[World], Iterator[str]] = _all_well
    pruned: bool = False  # retention removes rows in it


def read(world: World, query: Callable[[Any], Any]) -> Any:
    """The answer of a store at rest."""
    process = world.process()
    try:
        with process.store.read() as tx:
            return query(tx)
    finally:
        process.close()


def _statuses(world: World) -> dict[str, int]:
    counts = read(world, jobs.counts)
    return {
        status.value: sum(n for (_, one), n in counts.items() if one is status)
        for status in Status
        if any(one is status for _, one in counts)
    }


def _should_be(**expected: int) -> Callable[[World], Iterator[str]]:
    """The jobs there are at the end, by status."""

    def check(world: World) -> Iterator[str]:
        found = _statuses(world)
        if found != expected:
            yield f"in the end there are {found} instead of {expected}"

    return check


# --- Taking jobs in -----------------------------------------------------------------------------------


def _enqueue(process: Process) -> None:
    process.enqueue("done", key="a")
    process.enqueue("done", key="a")  # the same again: it is found
    later = process.world.clock.now() + timedelta(minutes=1)
    process.enqueue("done", key="b", run_at=later)


def _enqueue_bulk(process: Process) -> None:
    wanted = [asked("done", key=f"k{n}") for n in range(MANY)]
    answers = process.coordinator.enqueue_many(wanted, actor="caller")
    for answer in answers:
        process.outside.note("accepted", answer.job.id)  # type: ignore[union-attr]


def _free_keys(process: Process) -> None:
    process.enqueue("done", key="a", key_expires_at=START + timedelta(minutes=5))
    process.work()
    process.world.advance(600)


def _enqueue_again(process: Process) -> None:
    """The key has outlived its time: it goes over to a new job."""
    process.enqueue("done", key="a")


# --- The way of a job ---------------------------------------------------------------------------------


def _waiting(*scripts: str, **changes: Any) -> Callable[[Process], None]:
    def prepare(process: Process) -> None:
        for number, script in enumerate(scripts):
            process.enqueue(script, key=f"j{number}", **changes)

    return prepare


def _to_the_end(process: Process) -> None:
    """Work, let time pass, tell."""
    for _ in range(4):
        process.work()
        process.notify()
        process.world.advance(21)


def _one_turn(process: Process) -> None:
    process.work()
    process.notify()


def _late_word(process: Process) -> None:
    """A worker sleeps through its lease, and has its say when somebody else has the job."""
    wanted = ClaimRequest(worker="sleeper", slots=1, lease=LEASE)
    slept = process.coordinator.claim(wanted)
    process.world.advance(LEASE.total_seconds() + 1)
    process.sweep()
    others = process.coordinator.claim(replace(wanted, worker="other"))
    for word, claims in (("late", slept), ("right", others)):
        now = process.world.clock.now()
        end = Succeeded(result=f'"{word}"')
        ends = [Ended(job=one.job, end=end, started_at=now, worker="w") for one in claims]
        process.coordinator.finish(ends)


def _right_word(world: World) -> Iterator[str]:
    (job_id,) = world.outside.accepted
    if read(world, lambda tx: jobs.result_of(tx, job_id)) == '"late"':
        yield f"job {job_id} has the result of the worker that slept"
    yield from _should_be(succeeded=1)(world)


def _once_paid(world: World) -> Iterator[str]:
    for job_id in world.outside.accepted:
        paid = sum(owner == job_id for owner in world.outside.works.values())
        if paid > 1:
            yield f"job {job_id} was paid for {paid} times"
    yield from _should_be(succeeded=1)(world)


def _effects_once(world: World) -> Iterator[str]:
    done = sorted(name for _, name in world.outside.facts("effect"))
    if done != ["charge", "mail"]:
        yield f"the effects that happened: {done}"
    yield from _should_be(succeeded=1)(world)


# --- Webhooks -----------------------------------------------------------------------------------------


def _parked(process: Process) -> None:
    process.enqueue("parked", key="a", type="held")
    process.work()


def _webhook(process: Process) -> None:
    for work in process.outside.works:
        process.deliver(work, work)  # with a copy
        process.deliver(work)  # another one
    process.work()


def _early(process: Process) -> None:
    """The webhook comes before the worker has noted what the provider calls the work."""
    process.enqueue("parked", key="a", type="held")
    claims = process.coordinator.claim(ClaimRequest(worker="w", slots=1, lease=LEASE))
    if not claims:
        return  # a process before this one has it
    (claim,) = claims
    work = f"resp_{claim.job.id}_0"
    process.fuse.point("before the call")
    process.outside.note("work", work, claim.job.id)
    process.fuse.point("after the call")
    process.deliver(work)
    until = process.world.clock.now() + timedelta(seconds=20)
    end = Parked(provider_job_id=work, poll_at=until)
    process.coordinator.finish(
        [Ended(job=claim.job, end=end, started_at=process.world.clock.now(), worker="w")]
    )


def _orphaned(process: Process) -> None:
    """A worker died after its call: the job is held for a person, and the provider has the work."""
    process.enqueue("parked", key="a", type="held")
    request = ClaimRequest(worker="w", slots=1, lease=LEASE)
    (claim,) = process.coordinator.claim(request)
    process.outside.note("call", claim.job.id)
    process.outside.note("work", f"resp_{claim.job.id}_0", claim.job.id)
    process.world.advance(LEASE.total_seconds() + 1)
    process.sweep()


def _adopt(process: Process) -> None:
    process.deliver_webhooks()
    process.world.advance(6)
    process.find()
    process.work()


# --- Replays ------------------------------------------------------------------------------------------


def _dead(count: int) -> Callable[[Process], None]:
    def prepare(process: Process) -> None:
        for number in range(count):
            process.enqueue("permission done", key=f"d{number}", max_attempts=3)
        process.work()
        process.notify()

    return prepare


class _Meanwhile:
    """Instead of waiting the worker works and time passes."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> None:
        self.process.work()
        self.process.world.advance(timeout or 0.5)


def _replay(process: Process) -> None:
    with process.store.read() as tx:
        begun = replays.newest(tx, 1)
    if not begun:
        planner = Planner(process.store, process.settings, chance=process.chance)
        options = ReplayOptions(rate=Rate(1000, timedelta(seconds=1)), batch_size=2)
        plan = planner.plan(DeadLetterFilter(), options, limit=100, actor="person", reason="mended").id
    elif begun[0].state == "done":
        return
    else:
        process.world.advance(61)  # until whoever carried it out counts as gone
        plan = begun[0].id
    runner = Runner(process.store, process.coordinator, owner=process.name, actor="person")
    runner.run(plan, hear=_nothing, stop=_Meanwhile(process))  # type: ignore[arg-type]


def _replayed(world: World) -> Iterator[str]:
    found = [one.state for one in read(world, lambda tx: replays.newest(tx, 10))]
    if found != ["done"]:
        yield f"the replays are {found}"
    yield from _should_be(succeeded=3)(world)


# --- What people do -----------------------------------------------------------------------------------


def _stop_and_revive(process: Process) -> None:
    """Cancel one that waits, retry one that died, close another: each as often as it takes."""
    waiting, dying, closing = process.outside.accepted[:3]
    with suppress(AlreadyFinished):
        process.coordinator.cancel(waiting, actor="person", reason="not needed")
    with suppress(Conflict):
        process.coordinator.retry(dying, actor="person", reason="mended")
    with suppress(Conflict):
        process.coordinator.close(closing, actor="person", reason="too late")
    switching = Switching(process.store, process.settings)
    switching.pause(["t"], below=None, actor="person", reason="calm", lasting=None)
    with suppress(NotFound):
        switching.resume(["t"], below=False, actor="person", reason="done")
    process.work()


def _some_dead_one_waiting(process: Process) -> None:
    process.enqueue("done", key="w", run_at=START + timedelta(days=1))
    _dead(2)(process)


def _asked_to_stop(process: Process) -> None:
    """A parked job is cancelled, and its next look carries that out."""
    (job_id,) = process.outside.accepted
    with suppress(AlreadyFinished):
        process.coordinator.cancel(job_id, actor="person", reason="not needed")
    process.work()


def _one_end(world: World) -> Iterator[str]:
    found = _statuses(world)
    if found not in ({"cancelled": 1}, {"succeeded": 1}):
        yield f"in the end there are {found}"


# --- Ticks, sweeps, pruning ---------------------------------------------------------------------------


def _tick(process: Process) -> None:
    process.tick()
    process.world.advance(3 * 3600)
    process.tick()


def _windows(world: World) -> Iterator[str]:
    """One job for each hour that went by up to the last tick: none twice, none left out."""
    made = sorted(one.key for one in read(world, lambda tx: jobs.page(tx, jobs.Filter(), 1000)))
    wanted = [key_of("hourly", START + timedelta(hours=n)) for n in range(len(made))]
    if made != wanted or len(made) < 4:
        yield f"the windows {made}"


def _fallen(process: Process) -> None:
    """One whose worker died, one past its deadline, and one due that is not in line."""
    process.enqueue("done", key="lost")
    process.coordinator.claim(ClaimRequest(worker="gone", slots=1, lease=LEASE))
    soon = process.world.clock.now() + timedelta(seconds=30)
    process.enqueue("done", key="late", run_at=soon, deadline=soon + timedelta(seconds=5))
    process.enqueue("done", key="due", run_at=soon)
    process.world.advance(180)


def _old(process: Process) -> None:
    goes = asked("done", key="old", key_expires_at=START + timedelta(days=1))
    process.coordinator.enqueue(goes, actor="caller")  # nobody expects it to stay
    process.enqueue("invalid_request", key="dead", key_expires_at=START + timedelta(days=1))
    process.enqueue("done", key="kept", key_expires_at=START + timedelta(days=400))
    process.work()
    process.notify()
    process.world.advance(100 * 86_400)
    process.enqueue("done", key="new")
    process.work()


def _prune(process: Process) -> None:
    Pruner(process.store, process.settings, batch=2).run()


def _pruned(world: World) -> Iterator[str]:
    keys = sorted(one.key or "" for one in read(world, lambda tx: jobs.page(tx, jobs.Filter(), 1000)))
    if keys != ["dead", "kept", "new"]:
        yield f"pruning left {keys}"
    if len(read(world, lambda tx: dead_letters.oldest(tx, DeadLetterFilter(), 10))) != 1:
        yield "the open dead letter is gone"


SCENARIOS = (
    Scenario(name="enqueue", act=_enqueue, check=_should_be(succeeded=2)),
    Scenario(name="enqueue in bulk", act=_enqueue_bulk, check=_should_be(succeeded=MANY)),
    Scenario(
        name="enqueue with an old key", prepare=_free_keys, act=_enqueue_again, check=_should_be(succeeded=2)
    ),
    Scenario(name="job", prepare=_waiting("done"), act=_one_turn, check=_should_be(succeeded=1)),
    Scenario(
        name="several jobs, retries, a dead letter",
        prepare=_waiting("done", "network done", "invalid_request", "rate_limited done"),
        act=_to_the_end,
        check=_should_be(succeeded=3, dead_letter=1),
    ),
    Scenario(name="late word", prepare=_waiting("done"), act=_late_word, check=_right_word),
    Scenario(
        name="background job", prepare=_waiting("parked", type="held"), act=_to_the_end, check=_once_paid
    ),
    Scenario(
        name="side effects", prepare=_waiting("effects: mail charge"), act=_one_turn, check=_effects_once
    ),
    Scenario(name="webhook", prepare=_parked, act=_webhook, check=_once_paid),
    Scenario(name="early webhook", act=_early, check=_once_paid),
    Scenario(name="adoption", prepare=_orphaned, act=_adopt, check=_once_paid),
    Scenario(name="replay", prepare=_dead(3), act=_replay, check=_replayed),
    Scenario(
        name="cancel, retry, close, pause",
        prepare=_some_dead_one_waiting,
        act=_stop_and_revive,
        check=_should_be(cancelled=1, succeeded=1, dead_letter=1),
    ),
    Scenario(name="cancel at the provider", prepare=_parked, act=_asked_to_stop, check=_one_end),
    Scenario(name="tick", act=_tick, check=_windows),
    Scenario(name="sweep", prepare=_fallen, act=Process.sweep, check=_should_be(succeeded=2, dead_letter=1)),
    Scenario(name="prune", prepare=_old, act=_prune, check=_pruned, pruned=True),
)
