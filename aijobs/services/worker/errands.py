"""What is done in one crossing to the store: write ends, repair, look for cancels, claim."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from aijobs.core.errors import SchemaMismatch, StoreError, StoreLocked, StoreUnreachable
from aijobs.core.lifecycle import Failed, Parked
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.model import ErrorClass, Failure, Status
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Ended, Finished, Rescue
from aijobs.services.worker.draining import Draining, Wait
from aijobs.services.worker.leases import Key, LeaseKeeper, key_of
from aijobs.services.worker.schema_watch import SchemaWatch
from aijobs.store import jobs, leases

_REPAIR_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What to do. *retried*: these ends were sent before, and nobody knows whether they were written."""

    ends: Sequence[Ended] = ()
    retried: bool = False
    repair: datetime | None = None  # attempts are lost whose lease was over by then; None: don't look
    cancels: bool = False
    claim: ClaimRequest | None = None
    ahead: datetime | None = None  # find out what is due after a claim of then; an empty claim does so too
    drain: bool = False  # ask whether anything is left when the claim comes back empty


@dataclass(slots=True, kw_only=True)
class Answer:
    """What was done, as far as the store let us: *fault* is why the rest was not.

    *outgrown*: the store has another schema version by now, or another store is in its place, so nothing was,
    or may be, claimed.
    """

    finished: list[Finished] = field(default_factory=list)  # in the order of the ends; shorter after a fault
    rescued: Rescue = field(default_factory=Rescue)
    expired: Rescue = field(default_factory=Rescue)
    cancels: list[Key] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)  # the keeper renews them already
    asked_at: datetime | None = None  # not later than the instant by which the claim went
    next_due: datetime | None = None
    drained: bool = False
    wait: Wait | None = None  # what keeps a drain from its end, if anything does
    fault: StoreError | None = None
    outgrown: StoreError | None = None


class Errands:
    """Runs errands, on the thread that belongs to the store."""

    def __init__(
        self, coordinator: Coordinator, keeper: LeaseKeeper, draining: Draining, *, worker: str,
        repaired: Sequence[str] | None = None, log: Log,
    ) -> None:  # fmt: skip
        """*repaired*: the types whose lost attempts and passed deadlines it looks after; None: all."""
        self._coordinator = coordinator
        self._store = coordinator.store
        self._keeper = keeper
        self._schema = SchemaWatch(coordinator.store)
        self.draining = draining
        self._worker = worker
        self._repaired = repaired
        self._log = log

    def run(self, errand: Errand) -> Answer:
        """Do all of *errand*. Raises only what no later try could mend; other faults are in the answer."""
        answer = Answer()
        try:
            if errand.ends:
                self._write(errand, answer.finished)
            if errand.repair:
                answer.rescued = self._coordinator.rescue(
                    limit=_REPAIR_AT_ONCE, types=self._repaired, by=errand.repair
                )
                answer.expired = self._coordinator.expire(limit=_REPAIR_AT_ONCE, types=self._repaired)
            if errand.cancels:
                with self._store.read() as tx:
                    answer.cancels = leases.cancels_asked(tx, self._worker)
            if errand.claim is not None:
                self._claim(errand, errand.claim, answer)
            elif errand.ahead is not None:
                answer.next_due = self._coordinator.next_start(errand.ahead)
        except SchemaMismatch:
            raise
        except StoreError as fault:
            answer.fault = fault
        return answer

    # --- Ends ---

    def _write(self, errand: Errand, finished: list[Finished]) -> None:
        answers = self._finish(errand.ends, finished)
        if errand.retried:
            for index, ended in enumerate(errand.ends):
                if not answers[index].applied:
                    answers[index] = self._written_before(ended, answers[index])

    def _finish(self, ends: Sequence[Ended], finished: list[Finished]) -> list[Finished]:
        """Write all at once; when the store refuses the lot for what is in it, each by itself.

        One end that cannot be written (a defect, a text the database does not take) must not keep a hundred
        others from being saved.
        """
        try:
            finished += self._coordinator.finish(ends)
        except (StoreUnreachable, StoreLocked, SchemaMismatch):
            raise
        except Exception as fault:  # told to the log, and written as the end of this attempt
            if len(ends) == 1:
                finished.append(self._write_refusal(ends[0], fault))
            else:
                for ended in ends:
                    self._finish([ended], finished)
        return finished

    def _write_refusal(self, ended: Ended, fault: Exception) -> Finished:
        self._log.emit(LogEvent.END_REFUSED, job=ended.job.id, error=type(fault).__name__)
        failure = Failure(
            error_class=ErrorClass.INTERNAL, code="end_refused", maybe_billed=True,
            message=f"the store refused what the attempt ended with ({type(fault).__name__})",
        )  # fmt: skip
        try:
            return self._coordinator.finish([replace(ended, end=Failed(failure=failure))])[0]
        except (StoreUnreachable, StoreLocked, SchemaMismatch):
            raise
        except Exception as again:  # the lease runs out, and the attempt is recorded as lost
            self._log.emit(LogEvent.END_REFUSED, job=ended.job.id, error=type(again).__name__)
            return Finished(job_id=ended.job.id, applied=False)

    def _written_before(self, ended: Ended, found: Finished) -> Finished:
        """A commit whose answer was lost with the connection may have happened: the fence tells."""
        with self._store.read() as tx:
            job = jobs.get(tx, ended.job.id)
        if job is None or job.lock_token != ended.job.lock_token:
            return found
        parked = isinstance(ended.end, Parked) and job.parked_at is not None
        if job.status is Status.PROCESSING and not parked:
            return found
        return Finished(job_id=job.id, applied=True, status=job.status)

    # --- Claims ---

    def _claim(self, errand: Errand, request: ClaimRequest, answer: Answer) -> None:
        answer.outgrown = self._schema.fault()
        if answer.outgrown is not None:
            return
        until = self._keeper.until()  # before the transaction: never later than the store's own
        answer.asked_at = asked_at = self._coordinator.clock.now()
        answer.claims = self._coordinator.claim(request)
        if answer.claims:
            # Not in the event loop, which may be too busy to hear of them before their leases are over.
            self._keeper.hold([key_of(claim.job) for claim in answer.claims], until)
            return  # they are to start now; whoever asks looks ahead when that is done
        answer.next_due = self._coordinator.next_start(asked_at)
        if errand.drain:
            with self._store.read() as tx:
                answer.wait = self.draining.wait(tx, self._coordinator.clock.now())
            answer.drained = answer.wait is None
