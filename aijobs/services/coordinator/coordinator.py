"""The one writer of `jobs.status`, as the services and the command line see it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import Conflict, no_job
from aijobs.core.lifecycle import Lost, Move
from aijobs.core.model import CallFacts, ErrorClass, Event, Failure, Job, NewJob, Reply, Status
from aijobs.core.settings import Settings
from aijobs.services.coordinator.admission import MANY, Admitted, RefusedError, admit, admit_new
from aijobs.services.coordinator.backlog import Backlog
from aijobs.services.coordinator.machinery import Machinery
from aijobs.services.coordinator.steps import in_steps
from aijobs.services.coordinator.values import (
    Claim,
    ClaimRequest,
    Ended,
    Enqueued,
    Finished,
    Received,
    Renewal,
    Rescue,
    Settled,
)
from aijobs.store import attempts, claims, history, jobs, moves, wake
from aijobs.store.engine import Store, Tx

if TYPE_CHECKING:
    from aijobs.services.coordinator.cancelling import Cancellation, Stopped
    from aijobs.services.coordinator.unanswered import Claims
    from aijobs.services.tracing import Tracing
    from aijobs.store.deliveries import Delivery

_LEASES_AT_ONCE = 1000

T = TypeVar("T")


class Coordinator:
    """Every move of every job. Methods are transactions of their own unless they take one.

    *tracing* is told of what was committed; None: nobody is.
    """

    def __init__(
        self, store: Store, settings: Settings, *, chance: Chance, clock: Clock | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:  # fmt: skip
        self.store = store
        self.chance = chance
        self.clock = clock or store.clock
        self.tracing = tracing
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take new settings: the next claim and the next end of an attempt go by them."""
        self.settings = settings
        self._machinery = Machinery(settings, self.chance)

    @cached_property
    def _claims(self) -> "Claims":
        from aijobs.services.coordinator.unanswered import Claims  # to enqueue needs none

        return Claims(self._write, self.clock)

    # --- Taking jobs in ---

    def enqueue(self, new: NewJob, *, actor: str) -> Enqueued:
        """Create a job, or find the one that has its key.

        Raises KeyConflict (same key, other input), KeyOwnerEnded (its job died or was cancelled) and
        BacklogFull (as many wait as the type allows).
        """
        (answer,) = self.enqueue_many([new], actor=actor)
        if isinstance(answer, Enqueued):
            return answer
        raise answer

    def enqueue_many(self, new: Sequence[NewJob], *, actor: str, keep_going: bool = False) -> list[Admitted]:
        """Create many jobs in one transaction; one answer each, in order.

        Without *keep_going* a single refusal rolls all of them back; the answers still say what
        would have been.
        """

        def work(tx: Tx, new: Sequence[NewJob]) -> list[Admitted]:
            answers = self._admit(tx, new, actor)
            if not keep_going and any(isinstance(answer, Conflict) for answer in answers):
                raise RefusedError(answers)
            return answers

        def create(new: Sequence[NewJob]) -> list[Admitted]:
            if len(new) == 1:
                guess = self._write(lambda tx: self._admit(tx, new, actor, admit_new), self.store.at_once)
                if guess:
                    return guess
            try:
                door = self.store.write_unbounded if len(new) >= MANY else None  # a million take their time
                return self._write(lambda tx: work(tx, new), door)
            except RefusedError as refused:
                return refused.answers

        return create(new) if self.tracing is None else self.tracing.enqueue(new, create)

    def enqueue_in(self, tx: Tx, new: Sequence[NewJob], *, actor: str) -> list[Enqueued]:
        """Create jobs inside the caller's own transaction: they exist exactly when the caller's rows do.

        Raises the first KeyConflict, KeyOwnerEnded or BacklogFull; the caller then rolls back.
        """

        def create(new: Sequence[NewJob]) -> list[Admitted]:
            return self._admit(tx, new, actor, admit_new) or self._admit(tx, new, actor)

        answers = create(new) if self.tracing is None else self.tracing.enqueue(new, create)
        enqueued: list[Enqueued] = []
        for answer in answers:
            if not isinstance(answer, Enqueued):
                raise answer
            enqueued.append(answer)
        return enqueued

    def _admit(
        self, tx: Tx, new: Sequence[NewJob], actor: str, how: Callable[..., list[Admitted]] = admit
    ) -> list[Admitted]:
        backlog = Backlog(tx, self.settings)
        return how(tx, new, backlog=backlog, now=self.clock.now(), chance=self.chance, actor=actor)

    # --- The worker's verbs ---

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Lease jobs to a worker: parked ones whose look is due first, then ready ones in fair order.

        What its last claim took although the answer was lost is handed back before.
        """
        found = self._claims.claim(self._machinery, request)
        if self.tracing is not None:
            self.tracing.claimed(found)
        return found

    def next_start(self, since: datetime) -> datetime | None:
        """When time alone may next make a job claimable after a claim at *since*: one becomes due, or a
        provider's gate opens.
        """
        with self.store.read() as tx:
            times = (claims.next_due(tx), self._machinery.gates.opens_at(tx, since))
        return min((at for at in times if at is not None), default=None)

    def renew(self, leases: Mapping[str, int], until: datetime) -> Renewal:
        """Extend the leases held by job id and fence; say which are lost and which are asked to stop."""
        pairs = sorted(leases.items())
        chunks = [pairs[n : n + _LEASES_AT_ONCE] for n in range(0, len(pairs), _LEASES_AT_ONCE)]
        found = self._write(lambda tx: [moves.renew(tx, chunk, until) for chunk in chunks])
        held = {job_id: asked for chunk in found for job_id, asked in chunk.items()}
        return Renewal(
            lost=frozenset(leases) - frozenset(held),
            cancel=frozenset(job_id for job_id, asked in held.items() if asked),
        )

    def save_provider_job_id(self, job: Job, provider_job_id: str, facts: CallFacts) -> bool:  # noqa: ARG002
        """Note, before anything else, what the provider calls the running job. False: the lease is lost."""
        now = self.clock.now()
        return self._write(lambda tx: moves.save_provider_job(tx, job, provider_job_id, now))

    def finish(self, ends: Sequence[Ended]) -> list[Finished]:
        """Write the ends of many attempts in one transaction; one answer each, in order."""

        def work(tx: Tx) -> tuple[list[Finished], datetime]:
            now = self.clock.now()
            return self._machinery.finishing.finish(tx, ends, now), now

        answers, now = self._write(work)
        if self.tracing is not None:
            self.tracing.ended(ends, answers, now)
        return answers

    def receive(self, delivery: "Delivery") -> Received:
        """Write a verified webhook delivery down and make its job's next look due, in one transaction."""
        return self.receive_many([delivery])[0]

    def receive_many(self, found: Sequence["Delivery"]) -> list[Received]:
        """As `receive`, of many in one transaction; one answer each, in order."""
        from aijobs.services.coordinator.inbox import receive

        return self._write(lambda tx: receive(tx, found, self.clock.now()))

    def settle_delivery(self, delivery: "Delivery", reply: Reply) -> Settled:
        """Do what the provider's word on the work behind an unmatched delivery asks for: see `adoption`."""
        from aijobs.services.coordinator.adoption import settle

        return self._write(lambda tx: settle(tx, delivery, reply, self.clock.now()))

    # --- Repair ---

    def rescue(
        self, *, limit: int, preview: bool = False, types: Sequence[str] | None = None,
        by: datetime | None = None,
    ) -> Rescue:  # fmt: skip
        """Record attempts (of *types* only) whose lease ran out (*by* then) as lost, which is a failure."""
        if preview:
            with self.store.read() as tx:
                found = claims.expired(tx, self.clock.now(), limit, lock=False, types=types)
            return Rescue(found=len(found), ids=tuple(job.id for job in found))
        return in_steps(limit, lambda size: self._rescue(size, types, by))

    def _rescue(self, limit: int, types: Sequence[str] | None, by: datetime | None) -> Rescue:
        now = self.clock.now()

        def work(tx: Tx) -> tuple[list[Ended], list[Finished]]:
            ends = [_lost(job) for job in claims.expired(tx, by or now, limit, lock=True, types=types)]
            return ends, self._machinery.finishing.finish(tx, ends, now) if ends else []

        ends, answers = self._write(work)
        if self.tracing is not None:
            self.tracing.ended(ends, answers, now)
        repaired = sum(answer.applied for answer in answers)
        return Rescue(found=len(ends), repaired=repaired, ids=tuple(ended.job.id for ended in ends))

    def expire(self, *, limit: int, preview: bool = False, types: Sequence[str] | None = None) -> Rescue:
        """Give up jobs (of *types* only) whose deadline passed while they waited."""
        if preview:
            with self.store.read() as tx:
                found = claims.overdue(tx, self.clock.now(), limit, lock=False, types=types)
            return Rescue(found=len(found), ids=tuple(job.id for job in found))
        return in_steps(limit, lambda size: self._write(lambda tx: self._expire(tx, size, types)))

    def _expire(self, tx: Tx, limit: int, types: Sequence[str] | None) -> Rescue:
        now = self.clock.now()
        found = claims.overdue(tx, now, limit, lock=True, types=types)
        if found:
            self._give_up(tx, found, now)
        return Rescue(found=len(found), repaired=len(found), ids=tuple(job.id for job in found))

    def _give_up(self, tx: Tx, found: Sequence[Job], now: datetime) -> None:
        failure = Failure(
            error_class=ErrorClass.DEADLINE_EXCEEDED, message="its deadline passed while it waited to run"
        )
        move = Move(target=Status.DEAD_LETTER, outcome=None, reason=failure.message, failure=failure)
        self._machinery.finishing.write(tx, [(_lost(job), job, move) for job in found], now)
        events = [
            Event(kind="expired", actor="system", at=now, job_id=job.id, reason=move.reason) for job in found
        ]
        history.add_events(tx, events)

    # --- What people do ---

    def cancel(self, job_id: str, *, actor: str, reason: str | None) -> Job:
        """Stop a job: at once when it waits, as soon as its worker notices when it runs.

        Raises NotFound, and AlreadyFinished when there is nothing left to stop.
        """
        from aijobs.services.coordinator.cancelling import stop_one

        return self._write(
            lambda tx: stop_one(tx, self._machinery.finishing, job_id, self.clock.now(), actor, reason)
        )

    def cancel_many(self, job_ids: Sequence[str], cancellation: "Cancellation") -> "Iterator[Stopped]":
        """Stop many jobs in steps, each a transaction that is made when its answer is asked for."""
        from aijobs.services.coordinator.cancelling import parts, stop_many

        def work(tx: Tx, part: Sequence[str]) -> "Stopped":
            return stop_many(tx, self._machinery.finishing, part, self.clock.now(), cancellation)

        return (self._write(partial(work, part=part)) for part in parts(job_ids))

    def reopen(self, job_id: str, *, actor: str, reason: str, priority: int | None = None) -> Job:
        """Replay one dead letter: a new round on the same job, its attempts afresh, its history whole.

        Raises NotFound, and Conflict when it is not an open dead letter or its key has a newer owner.
        """

        def work(tx: Tx) -> Job:
            job, now = self._locked(tx, job_id), self.clock.now()
            return self.reopen_in(tx, job, now, actor=actor, reason=reason, priority=priority)

        return self._write(work)

    def reopen_in(
        self, tx: Tx, job: Job, now: datetime, *, actor: str, reason: str, priority: int | None = None
    ) -> Job:
        """As `reopen`, of a job locked in the caller's transaction."""
        if job.status is not Status.DEAD_LETTER:
            raise Conflict(f"job {job.id} is {job.status}, not a dead letter: nothing was changed")
        self._refuse_a_lost_key(tx, job)
        settled = history.settle_dead_letter(
            tx, job.id, job.round, state="replayed", reason=reason, actor=actor, now=now
        )
        if not settled:
            raise Conflict(f"the dead letter of job {job.id} was closed by a person: nothing was changed")
        reopened = moves.reopen(tx, job, self._afresh(tx, job, now, priority), now)
        if reopened is None:
            raise Conflict(f"job {job.id} changed in the meantime: nothing was changed")
        detail: dict[str, object] = {"round": reopened.round}
        history.add_events(
            tx,
            [Event(kind="replayed", actor=actor, at=now, job_id=job.id, reason=reason, detail=detail)],
        )
        wake.notify(tx)
        return reopened

    def lock_jobs(self, tx: Tx, job_ids: Sequence[str]) -> dict[str, Job]:
        """Jobs as they are now, by id, locked until the caller's transaction ends."""
        return moves.locked(tx, job_ids)

    def close(self, job_id: str, *, actor: str, reason: str) -> Job:
        """Say of a dead letter that it will not be replayed, and why. The job stays a dead letter.

        Raises NotFound, and Conflict when it is not an open dead letter.
        """
        return self._write(lambda tx: self._close(tx, job_id, self.clock.now(), actor, reason))

    def _close(self, tx: Tx, job_id: str, now: datetime, actor: str, reason: str) -> Job:
        job = self._locked(tx, job_id)
        settled = job.status is Status.DEAD_LETTER and history.settle_dead_letter(
            tx, job.id, job.round, state="closed", reason=reason, actor=actor, now=now
        )
        if not settled:
            raise Conflict(f"job {job_id} is no open dead letter: nothing was changed")
        event = Event(kind="closed", actor=actor, at=now, job_id=job_id, reason=reason)
        history.add_events(tx, [event])
        return job

    def retry(self, job_id: str, *, actor: str, reason: str) -> Job:
        """The replay of one job by hand, or the release of one that is held for a person.

        Raises NotFound; Conflict when it is neither, when it has been replayed as often as its type allows,
        or when its key has passed to a newer job.
        """
        return self._write(lambda tx: self._retry(tx, job_id, self.clock.now(), actor, reason))

    def _retry(self, tx: Tx, job_id: str, now: datetime, actor: str, reason: str) -> Job:
        job = self._locked(tx, job_id)
        if job.hold_reason is not None:
            return self._release(tx, job, now, actor=actor, reason=reason)
        kind = self.settings.types.get(job.type)
        if kind is not None and job.round > kind.max_replays:
            raise Conflict(
                f"job {job_id} has been replayed {job.round - 1} times, as often as its type allows",
                hint=f"close it with a reason, or raise types.{job.type}.max_replays",
            )
        return self.reopen_in(tx, job, now, actor=actor, reason=reason)

    def _release(self, tx: Tx, job: Job, now: datetime, *, actor: str, reason: str) -> Job:
        released = moves.unhold(tx, job.id, now)
        if released is None:
            raise Conflict(f"job {job.id} changed in the meantime: nothing was changed")
        detail: dict[str, object] = {"held_because": job.hold_reason}
        event = Event(kind="released", actor=actor, at=now, job_id=job.id, reason=reason, detail=detail)
        history.add_events(tx, [event])
        wake.notify(tx)
        return released

    def _refuse_a_lost_key(self, tx: Tx, job: Job) -> None:
        """A job whose key has expired and been taken by a newer one would do the same work twice."""
        if job.key is None:
            return
        owner = jobs.by_key(tx, [(job.user, job.type, job.key)]).get((job.user, job.type, job.key))
        if owner is not None and owner.id != job.id and owner.status is not Status.CANCELLED:
            raise Conflict(
                f"key {job.key!r} of job {job.id} belongs to the newer job {owner.id} ({owner.status}) now",
                hint="the work is done or under way there: close this one",
            )

    def _afresh(self, tx: Tx, job: Job, now: datetime, priority: int | None) -> dict[str, object]:
        """The values of a new round. A deadline keeps its length: it counts from now."""
        rank = job.priority if priority is None else priority
        deadline = now + (job.deadline - jobs.round_began(tx, job)) if job.deadline else None
        return {
            "new_next_run_at": now,
            "new_turn": claims.Turns(tx).next(job.type, job.user, rank),
            "new_priority": rank,
            "new_deadline": deadline,
        }

    def _write(self, work: Callable[[Tx], T], door: attempts.Door | None = None) -> T:
        """Run *work* in a transaction of its own, again if the database gives up on it."""
        return attempts.write(self.store, work, chance=self.chance, door=door)

    def _locked(self, tx: Tx, job_id: str) -> Job:
        job = moves.locked(tx, [job_id]).get(job_id)
        if job is None:
            raise no_job(job_id)
        return job


def _lost(job: Job) -> Ended:
    """The end of an attempt nobody saw the end of."""
    return Ended(
        job=job,
        end=Lost(),
        started_at=job.claimed_at or job.created_at,
        worker=job.locked_by or "",
        client_request_id=f"aijobs-{job.id}-{job.attempts}",
    )
