"""Random lives of a store against a small model of what must have become of each job.

Workers claim, renew, finish late or never, and die; people cancel, retry, close, pause and change limits;
webhooks come early, late and twice; the clock jumps. The model knows who holds what and what each answer has
to be; after every step the store must agree with it and break no promise (`tests.support.invariants`).
"""

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import select

from aijobs.core.clock import seeded_chance
from aijobs.core.errors import AlreadyFinished, Conflict, KeyConflict, KeyOwnerEnded, NotFound
from aijobs.core.lifecycle import Succeeded
from aijobs.core.log_events import Unheard
from aijobs.core.model import NO_CALL, CallFacts, Done, Job, Status
from aijobs.core.replaying import ReplayOptions
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Ended, Reception
from aijobs.services.coordinator.cancelling import Cancellation
from aijobs.services.coordinator.values import Enqueued
from aijobs.services.notifier import Notifier
from aijobs.services.pruner import Pruner
from aijobs.services.replay import Planner, Runner
from aijobs.services.sweeper import Sweeper
from aijobs.services.switching import Switching
from aijobs.store import jobs, replays
from aijobs.store.dead_letters import DeadLetterFilter
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Store
from aijobs.store.tables import deliveries
from tests.support.clock import START, ManualClock
from tests.support.emptying import empty
from tests.support.invariants import violations
from tests.support.jobs import LEASE, new_job
from tests.support.model_parts import ENDS, SETTINGS, After, Known, end_of, past_limits

_TURNS_TO_SETTLE = 30
_MONTHS = 400 * 86_400.0
"""Seconds; longer than retention keeps anything."""


class Lives(RuleBasedStateMachine):
    """One life of a store. `store_of` is set by whoever runs it."""

    store_of: Store

    def __init__(self) -> None:
        super().__init__()
        self.store = self.store_of
        self.clock = self.store.clock
        assert isinstance(self.clock, ManualClock)
        empty(self.store)
        self.clock.set(START)
        self.chance = seeded_chance(5)
        self.settings = SETTINGS[0]
        self.known: dict[str, Known] = {}
        self.keys: dict[str, str] = {}
        self.claims: list[Claim] = []
        self.delivered: set[str] = set()
        self.paused = self.pruned = False
        self.coordinator = Coordinator(self.store, self.settings, chance=self.chance)

    # --- Callers ---

    @initialize(number=st.integers(0, len(SETTINGS) - 1))
    def begin(self, number: int) -> None:
        """There is always something to do, and more than the limits let run at once."""
        self.reconfigure(number)
        for user in (1, 2, 1):
            self.enqueue("t", None, user, 2, 0)
        self.enqueue("held", "k0", 1, 3, 0)
        self.claim("w1", 4)

    @rule(
        kind=st.sampled_from(["t", "held"]), key=st.sampled_from([None, "k0", "k1"]), value=st.integers(1, 2),
        most=st.integers(1, 3), delay=st.sampled_from([0, 0, 90]),
    )  # fmt: skip
    def enqueue(self, kind: str, key: str | None, value: int, most: int, delay: int) -> None:
        """A caller asks for a job, perhaps again."""
        now = self.clock.now()
        expires = now + timedelta(days=3650) if key else None
        new = new_job(
            {"n": value}, type=kind, key=key, max_attempts=most, run_at=now + timedelta(seconds=delay),
            key_expires_at=expires, user=f"u{value}",
        )  # fmt: skip
        place = f"{kind} u{value} {key}"
        owner = self.known.get(self.keys.get(place, "")) if key else None
        try:
            answer = self.coordinator.enqueue(new, actor="caller")
        except KeyConflict:
            assert owner is not None
            return
        except KeyOwnerEnded:
            assert owner is not None
            assert owner.status in (Status.DEAD_LETTER, Status.CANCELLED)
            return
        assert answer.duplicate == (owner is not None)
        if owner is not None:
            assert answer.job.id == owner.id
            return
        assert isinstance(answer, Enqueued)
        self.known[answer.job.id] = Known(answer.job.id, kind, new.user, Status.PENDING)
        if key:
            self.keys[place] = answer.job.id

    # --- Workers ---

    @rule(worker=st.sampled_from(["w1", "w2"]), slots=st.integers(1, 4))
    def claim(self, worker: str, slots: int) -> None:
        """A worker takes what it is given: nothing that another one holds, and within every limit."""
        running = [one for one in self.known.values() if one.status is Status.PROCESSING]
        found = self.coordinator.claim(ClaimRequest(worker=worker, slots=slots, lease=LEASE))
        started = [self.known[claim.job.id] for claim in found if not claim.resume]
        assert not (started and self.paused)
        assert past_limits(self.settings, running, started) == []
        for claim in found:
            known, job = self.known[claim.job.id], claim.job
            assert job.lock_token == known.fence + 1
            assert known.status in ((Status.PROCESSING,) if claim.resume else (Status.PENDING, Status.FAILED))
            assert not claim.resume or known.work is not None
            assert not self._stands(known)
            known.status, known.fence, known.parked = Status.PROCESSING, job.lock_token, False
            known.until = self.clock.now() + LEASE
            self.claims.append(claim)

    @rule(data=st.data(), kind=st.sampled_from(ENDS), twice=st.booleans())
    def finish(self, data: st.DataObject, kind: str, twice: bool) -> None:
        """An attempt ends: of a worker that holds it, or of one that has been away for too long."""
        if self.claims:
            self._finish(data.draw(st.sampled_from(self.claims)).job, kind, times=2 if twice else 1)

    def _finish(self, job: Job, kind: str, *, times: int = 1) -> None:
        known = self.known.get(job.id)
        now = self.clock.now()
        ended = Ended(job=job, end=end_of(kind, job, now), started_at=now, worker="w1")
        for _ in range(times):
            held = known is not None and self._holds(known, job)
            (answer,) = self.coordinator.finish([ended])
            assert answer.applied == held
            if answer.applied:
                assert known is not None
                assert answer.status is not None
                known.status = answer.status
                known.parked = answer.status is Status.PROCESSING
                if kind == "parked":
                    known.work = f"work-{job.id}"
                elif not known.parked and not known.status.final:
                    known.work = None

    def _holds(self, known: Known, job: Job) -> bool:
        return known.status is Status.PROCESSING and known.fence == job.lock_token

    def _stands(self, known: Known) -> bool:
        running = known.status is Status.PROCESSING and not known.parked
        return running and known.until > self.clock.now()

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """A worker renews a lease, which it may have lost."""
        if self.claims:
            self._renew(data.draw(st.sampled_from(self.claims)).job)

    def _renew(self, job: Job) -> None:
        known = self.known.get(job.id)
        until = self.clock.now() + LEASE
        renewal = self.coordinator.renew({job.id: job.lock_token}, until)
        held = known is not None and self._holds(known, job) and not known.parked
        assert (job.id in renewal.lost) == (not held)
        if held and known is not None:
            known.until = until

    @rule(data=st.data())
    def save_provider_id(self, data: st.DataObject) -> None:
        """A worker notes what the provider calls the work."""
        if self.claims:
            self._save(data.draw(st.sampled_from(self.claims)).job)

    def _save(self, job: Job) -> None:
        known = self.known.get(job.id)
        saved = self.coordinator.save_provider_job_id(job, f"work-{job.id}", NO_CALL)
        assert saved == (known is not None and self._holds(known, job))
        if saved and known is not None:
            known.work = f"work-{job.id}"

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A worker forgets a claim: it will never end it."""
        if self.claims:
            self.claims.remove(data.draw(st.sampled_from(self.claims)))

    # --- Repairs ---

    @rule()
    def sweep(self) -> None:
        """Lost attempts are found; nobody whose lease stands is touched."""
        held = [one for one in self.known.values() if one.status is Status.PROCESSING and not one.parked]
        Sweeper(self.coordinator).sweep()
        present = self._present()
        for one in held:
            stays = self._stands(one) or one.work is not None  # of what has begun somebody asks the provider
            job = present[one.id]
            assert (job.status is Status.PROCESSING) == stays
            assert not stays or (job.lock_token, job.locked_until) == (one.fence, one.until)
        self._catch_up()

    @rule(kind=st.sampled_from(ENDS), late=st.permutations(["renew", "save", "finish"]))
    def overtake(self, kind: str, late: list[str]) -> None:
        """Everybody is away for longer than a lease; somebody else goes on, and then they come back."""
        self.claim("w1", 3)
        away = [claim.job for claim in self.claims]
        self.jump(61.0)
        self.sweep()
        self.claim("w2", 3)
        for job in away:
            for what in late:
                match what:
                    case "renew":
                        self._renew(job)
                    case "save":
                        self._save(job)
                    case _:
                        self._finish(job, kind)

    @rule(seconds=st.sampled_from([1.0, 10.0, 61.0, 700.0, 90_000.0, -3.0, -45.0, -900.0]))
    def jump(self, seconds: float) -> None:
        """Time passes, some of it backwards now and then."""
        self.clock.advance(seconds=seconds)

    @rule(later=st.booleans())
    def prune(self, later: bool) -> None:
        """Retention removes nothing that has not ended, and no open dead letter, however old."""
        if later:
            Notifier(self.store, self.settings, chance=self.chance, log=Unheard()).run_once()
            self.jump(_MONTHS)
        Pruner(self.store, self.settings).run()
        self.pruned = True
        present = self._present()
        for job_id in [one for one in self.known if one not in present]:
            gone = self.known.pop(job_id)
            assert gone.status.final
            assert gone.closed or gone.status is not Status.DEAD_LETTER
            self.keys = {place: owner for place, owner in self.keys.items() if owner != job_id}
        with self.store.read() as tx:
            self.delivered &= set(tx.execute(select(deliveries.c.delivery_id)).scalars())

    # --- Webhooks ---

    @rule(data=st.data(), copy=st.integers(0, 1))
    def webhook(self, data: st.DataObject, copy: int) -> None:
        """A delivery: early, late, or for the second time."""
        job_id = data.draw(st.sampled_from(sorted(self.known))) if self.known else None
        if job_id is None:
            return
        name, now = f"wh-{job_id}-{copy}", self.clock.now()
        delivery = Delivery(
            provider="p", delivery_id=name, event_type="response.completed", provider_job_id=f"work-{job_id}",
            job_id=None, body_hash="h", outcome="unmatched", sent_at=now, received_at=now, handled_at=None,
        )  # fmt: skip
        received = self.coordinator.receive(delivery)
        assert (received.reception is Reception.DUPLICATE) == (name in self.delivered)
        if name not in self.delivered and received.reception is Reception.UNMATCHED:
            facts = CallFacts(provider="p", model="m", owner=job_id)
            self.coordinator.settle_delivery(delivery, Done(result='"found"', facts=facts))
            self._catch_up()
        self.delivered.add(name)

    # --- People ---

    @rule(data=st.data(), what=st.sampled_from(["cancel", "retry", "close"]))
    def decide(self, data: st.DataObject, what: str) -> None:
        """A person does something to a job, which is refused where it makes no sense."""
        if not self.known:
            return
        known = self.known[data.draw(st.sampled_from(sorted(self.known)))]
        before = known.status
        act = getattr(self.coordinator, what)
        try:
            act(known.id, actor="person", reason="looked at")
        except AlreadyFinished:
            assert before.final
        except Conflict:
            assert what != "cancel"
        else:
            known.closed = what == "close"
        self._catch_up()
        allowed = {"cancel": {before, Status.CANCELLED}, "close": {before}, "retry": {before, Status.PENDING}}
        assert known.status in allowed[what]
        assert what != "retry" or known.status is before or before is Status.DEAD_LETTER

    @rule(user=st.sampled_from(["u1", "u2"]), statuses=st.sampled_from([(), (Status.PENDING,)]))
    def cancel_all(self, user: str, statuses: tuple[Status, ...]) -> None:
        """A person stops all that a user has waiting, or all of it."""
        wanted = jobs.Filter(user=user, statuses=statuses)
        with self.store.read() as tx:
            ids = [job.id for job in jobs.unfinished(tx, wanted)]
        live = {known.id for known in self.known.values() if known.user == user and not known.status.final}
        assert set(ids) == {one for one in live if self.known[one].status in statuses or not statuses}
        cancellation = Cancellation(actor="p", reason="r", still=wanted.still)
        for step in self.coordinator.cancel_many(ids, cancellation):
            assert (step.ended_already, step.changed) == (0, 0)
        self._catch_up()
        assert {self.known[one].status for one in ids} <= {Status.CANCELLED, Status.PROCESSING}

    @rule(size=st.integers(1, 3))
    def replay(self, size: int) -> None:
        """A plan is made, or the last one gone on with, and interrupted after an act or two."""
        before = {one.id: one.status for one in self.known.values()}
        with self.store.read() as tx:
            last = replays.newest(tx, 1)
        if last and last[0].state in ("interrupted", "stopped"):
            plan = last[0].id
        else:
            planner = Planner(self.store, self.settings, chance=self.chance)
            options = ReplayOptions(batch_size=size)
            plan = planner.plan(DeadLetterFilter(), options, limit=10, actor="person", reason="mended").id
        runner = Runner(self.store, self.coordinator, owner="replay", actor="person")
        runner.run(plan, hear=lambda _: None, stop=After(size))  # type: ignore[arg-type]
        self._catch_up()
        for one in self.known.values():
            again = before[one.id] is Status.DEAD_LETTER and one.status is Status.PENDING
            assert again or one.status is before[one.id]

    @rule(number=st.integers(0, len(SETTINGS) - 1))
    def reconfigure(self, number: int) -> None:
        """The limits are others from now on."""
        self.settings = SETTINGS[number]
        self.coordinator.configure(self.settings)

    @rule(pause=st.booleans())
    def throw(self, pause: bool) -> None:
        """Everything is paused, or goes on."""
        switching = Switching(self.store, self.settings)
        if pause:
            switching.pause(["*"], below=None, actor="person", reason="calm", lasting=None)
        else:
            try:
                switching.resume(["*"], below=False, actor="person", reason="on")
            except NotFound:
                assert not self.paused
        self.paused = pause

    # --- What must hold ---

    @invariant()
    def agrees(self) -> None:
        """The store says of each job what the model says, and breaks no promise."""
        present = self._present()
        assert {job_id: job.status for job_id, job in present.items()} == {
            job_id: known.status for job_id, known in self.known.items()
        }
        assert all(present[one.id].lock_token == one.fence for one in self.known.values())
        found = violations(
            self.store,
            expected_ids=list(self.known),
            pruned=self.pruned,
            settings=None if self.pruned else self.settings,
        )
        assert found == []

    def teardown(self) -> None:
        """Whatever happened: with a worker, time and a person, everything comes to its end."""
        self.throw(pause=False)
        self.reconfigure(0)
        for _ in range(_TURNS_TO_SETTLE):
            self.clock.advance(seconds=700)
            Sweeper(self.coordinator).sweep()
            found = self.coordinator.claim(ClaimRequest(worker="last", slots=50, lease=LEASE))
            ends = [
                Ended(job=claim.job, end=Succeeded(result="1"), started_at=self.clock.now(), worker="last")
                for claim in found
            ]
            self.coordinator.finish(ends)
            open_jobs = [job for job in self._present().values() if not job.status.final]
            for job in open_jobs:
                if job.hold_reason is not None:
                    self.coordinator.retry(job.id, actor="person", reason="let go")
            if not open_jobs:
                break
        stuck = [one for one in violations(self.store, settled=True, pruned=True) if "is stuck" in one]
        assert stuck == []

    def _present(self) -> dict[str, Job]:
        with self.store.read() as tx:
            return {job.id: job for job in jobs.page(tx, jobs.Filter(), 1000)}

    def _catch_up(self) -> None:
        """Take over what a repair or a person did; only what the life of a job allows."""
        for job in self._present().values():
            known = self.known[job.id]
            if (job.status, job.lock_token) != (known.status, known.fence):
                assert known.status is not Status.SUCCEEDED
                assert not known.status.final or job.round == known.round + 1
                assert job.lock_token in (known.fence, known.fence + 1)
            known.status, known.fence, known.round = job.status, job.lock_token, job.round
            known.work, known.parked = job.provider_job_id, job.parked_at is not None
