"""One run of a worker: it claims, starts attempts, collects their ends, and has them written together."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import SchemaMismatch, StoreError
from aijobs.core.lifecycle import AttemptEnd, Cancelled, Parked
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.model import Status
from aijobs.services.coordinator import Claim, ClaimRequest, Ended, Finished
from aijobs.services.worker.attempt import Attempt, Stop, handed_back
from aijobs.services.worker.attempts import Attempts
from aijobs.services.worker.draining import Waiting
from aijobs.services.worker.errands import Answer, Errand, Errands
from aijobs.services.worker.gate import StoreGate
from aijobs.services.worker.ids import client_request_id
from aijobs.services.worker.lane import Lane
from aijobs.services.worker.leases import Key, LeaseKeeper
from aijobs.services.worker.options import WorkerOptions
from aijobs.services.worker.shadows import Shadows
from aijobs.services.worker.tally import Tally

GATHER_SECONDS = 0.003
"""How long the first end waits for others to be written with it."""
GATHER_ENDS = 100
"""So many are written without waiting for more."""
CLAIM_AT_ONCE = 250
LEAST_POLLS = 10
"""Looks at parked work that may go on beside the calls, however small the worker is."""
UNWIND_SECONDS = 0.3
"""How long an attempt that is handed back has to stop by itself."""

_LEASE_CHECK_SECONDS = 1.0
_CANCEL_LOOK_SECONDS = 0.5


class Shift:
    """The loop and what it knows. It belongs to the event loop; its errands reach the store over the lane."""

    def __init__(
        self, *, worker: str, options: WorkerOptions, types: tuple[str, ...],
        errands: Errands, lane: Lane, keeper: LeaseKeeper, gate: StoreGate, attempts: Attempts, tally: Tally,
        shadows: Shadows,
        clock: Clock, chance: Chance, log: Log,
    ) -> None:  # fmt: skip
        self._worker = worker
        self._options = options
        self._types = types
        self._errands = errands
        self._lane = lane
        self._keeper = keeper
        self._gate = gate
        self._attempts = attempts
        self._tally = tally
        self._shadows = shadows
        self._clock = clock
        self._chance = chance
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._running: dict[Key, Attempt] = {}
        self._polling = 0  # of those running, how many only look at parked work
        self._ended: list[Ended] = []
        self._under_way: Sequence[Ended] = ()  # ends in the errand that has not come back
        self._parking: dict[Key, Attempt] = {}  # new work at a provider whose id is not saved yet
        self._ended_since = 0.0
        self._urgent = False
        self._retried = False
        self._started = 0
        self._waiting = Waiting(clock=clock, log=log)
        self._hungry = True
        self._closing = False
        self._outgrown: StoreError | None = None
        self._ahead_due = False
        self._asked_at: datetime | None = None
        self._cancels_due = False
        self._suspects: frozenset[Key] = frozenset()
        self._asides: set[asyncio.Task[None]] = set()
        now = self._loop.time()
        self._next_look = self._next_repair = self._next_try = self._next_cancel_look = now
        self._next_lease_check = now + _LEASE_CHECK_SECONDS

    # --- What others tell it ---

    @property
    def running(self) -> int:
        """How many attempts are at work."""
        return len(self._running)

    @property
    def unsaved(self) -> int:
        """How many ends are not known to be written: they wait, or are on their way."""
        return len(self._under_way) + len(self._ended)

    def look(self) -> None:
        """Something may have become claimable, or a cancel may have been asked for."""
        self._hungry = self._cancels_due = True
        self._bell.set()

    def configure(self, options: WorkerOptions, types: tuple[str, ...]) -> None:
        """Take new options: how many calls at once, of which types, how often to look."""
        self._options = options
        self._types = types
        self.look()

    def try_again(self) -> None:
        """The store has answered somebody: don't wait any longer."""
        self._next_try = 0.0
        self._bell.set()

    def interrupt(self, key: Key, stop: Stop, why: str) -> None:
        """Make one attempt stop, if it is still at work."""
        attempt = self._running.get(key)
        if attempt is not None:
            attempt.interrupt(stop, why)

    def close(self, why: str) -> None:
        """Claim nothing any more, and hand back what has not called its provider yet."""
        self._closing = True
        self._shadows.close()
        for attempt in self._running.values():
            if not attempt.call_begun:
                attempt.interrupt(Stop.HANDED_BACK, why)
        self._bell.set()

    def hand_back(self, why: str) -> None:
        """Stop everything: what does not end within a moment is handed back over its head."""
        self.close(why)
        for attempt in self._running.values():
            attempt.interrupt(Stop.HANDED_BACK, why)
        self._loop.call_later(UNWIND_SECONDS, self._hand_back_the_rest)

    def ends_now(self) -> list[Ended]:
        """What has to be written if this process ends now: ends not saved, and everything at work."""
        rest = [self._ended_of(attempt, handed_back(attempt)) for attempt in self._running.values()]
        return [*self._under_way, *self._ended, *rest]

    # --- The loop ---

    async def work(self) -> None:
        """Go on until closed, drained, or the number of jobs asked for is done.

        Raises StoreError: once what runs has ended when the schema's version has changed or another store is
        in this one's place, and at once when the store has become one that this program cannot write to.
        """
        while not (self._closing and not self._running and not self._ended):
            errand = self._next_errand(self._loop.time())
            if errand is None:
                await self._wait()
            else:
                losses = self._gate.losses
                answer = await self._lane.run(partial(self._errands.run, errand))
                self._take(errand, answer)
                self._note_store(answer, there=self._gate.losses == losses)
            if self._options.max_jobs is not None and self._started >= self._options.max_jobs:
                self._closing = True
        asides = self._asides | self._shadows.tasks
        if asides:
            await asyncio.wait(asides)
        if self._outgrown is not None:
            raise self._outgrown

    def _next_errand(self, now: float) -> Errand | None:
        if now >= self._next_lease_check:
            self._check_leases(now)
        if now < self._next_try or (self._ended and now < self._ripe_at()):
            return None
        claim = self._claim_request(now)
        repair = self._repair_request(now)
        cancels = self._cancels_due and bool(self._running) and now >= self._next_cancel_look
        ahead = self._asked_at if self._ahead_due and not self._closing else None
        if not (self._ended or claim or repair or cancels or ahead):
            return None
        self._ahead_due = False
        if claim is not None and claim.slots > 0:
            self._hungry = False  # whoever wakes us from here on has seen something this claim may not see
        if cancels:
            self._cancels_due = False
            self._next_cancel_look = now + _CANCEL_LOOK_SECONDS
        ends, self._ended, self._urgent = self._ended, [], False
        self._under_way = ends
        drain = self._options.drain and not self._running
        return Errand(
            ends=ends, retried=self._retried, repair=repair, cancels=cancels, claim=claim, ahead=ahead,
            drain=drain,
        )  # fmt: skip

    def _repair_request(self, now: float) -> datetime | None:
        """The instant by which leases must have been over to count as lost, when it is time to look for them.

        It is from before the errand: should the machine sleep on the way, nothing more is lost by that.
        """
        if self._closing or now < self._next_repair:
            return None
        wall, pause = self._clock.now(), self._options.repair_every
        judges = self._keeper.may_judge(wall)
        self._next_repair = now + (pause if judges else min(pause, self._options.renew_every)).total_seconds()
        return wall if judges else None

    def _claim_request(self, now: float) -> ClaimRequest | None:
        if self._closing:
            return None
        slots, polls = self._room()
        due = now >= self._next_look
        # With ends to write we cross over anyway; a limit may have let go, or a retry be due at once.
        wanted = due or self._hungry or bool(self._ended)
        if not ((slots > 0 and wanted) or (polls > 0 and due)):
            return None
        return ClaimRequest(
            worker=self._worker, slots=slots, resume_slots=polls, lease=self._options.lease, types=self._types
        )

    def _room(self) -> tuple[int, int]:
        """How many calls may begin, and how many looks at parked work."""
        slots = self._options.concurrency - (len(self._running) - self._polling)
        if self._options.max_jobs is not None:
            slots = min(slots, self._options.max_jobs - self._started)
        polls = max(self._options.concurrency, LEAST_POLLS) - self._polling
        return min(max(slots, 0), CLAIM_AT_ONCE), min(max(polls, 0), CLAIM_AT_ONCE)

    def _ripe_at(self) -> float:
        """When the ends are written: at once when there are many, or none to wait for."""
        if self._urgent or self._closing or not self._running or len(self._ended) >= GATHER_ENDS:
            return 0.0
        return self._ended_since + GATHER_SECONDS

    async def _wait(self) -> None:
        self._bell.clear()
        timer = self._loop.call_at(self._next_event(), self._bell.set)
        await self._bell.wait()
        timer.cancel()

    def _next_event(self) -> float:
        work = math.inf
        if self._ended:
            work = self._ripe_at()
        elif not self._closing:
            slots, polls = self._room()
            work = min(self._next_repair, self._next_look if slots or polls else math.inf)
        if self._cancels_due and self._running:
            work = min(work, self._next_cancel_look)
        return min(max(work, self._next_try), self._next_lease_check)

    # --- After an errand ---

    def _take(self, errand: Errand, answer: Answer) -> None:
        now = self._loop.time()
        self._settle(errand.ends, answer.finished)
        self._tell_repairs(answer)
        for key in answer.cancels:
            self.interrupt(key, Stop.CANCELLED, "a person asked to cancel it")
        if errand.claim is None:
            self._hungry |= bool(answer.finished)
        elif answer.fault is None:
            self._plan_next_look(errand.claim, answer, now)
        self._asked_at = answer.asked_at or self._asked_at
        if answer.next_due is not None and self._asked_at is not None:
            self._look_when_due(answer.next_due, self._asked_at, now)
        self._begin(answer.claims)
        if answer.drained:
            self._closing = True
        if errand.drain and errand.claim is not None:
            self._waiting.look(answer.wait)
        if answer.outgrown is not None:
            self._leave_to_newer_ones(answer.outgrown)

    def _note_store(self, answer: Answer, *, there: bool) -> None:
        if answer.fault is not None:
            self._gate.lost(answer.fault)
            self._next_try = self._loop.time() + self._gate.pause(self._chance)
            self._hungry = True
        elif there:  # nobody has lost it while the errand was on its way
            self._gate.back()
            self._next_try = 0.0

    def _leave_to_newer_ones(self, fault: StoreError) -> None:
        """Claim nothing from a store that is another now; what runs has the grace to end and be saved."""
        if self._outgrown is None:
            self._outgrown, grace = fault, self._options.grace
            why = "a change of the schema" if isinstance(fault, SchemaMismatch) else "another store in place"
            self._log.emit(LogEvent.WORKER_STOPPING, why=why, running=self.running, grace=grace)
            self.close(f"the worker stopped ({why})")
            self._loop.call_later(grace.total_seconds(), self.hand_back, f"the worker stopped ({why})")

    def _settle(self, ends: Sequence[Ended], finished: Sequence[Finished]) -> None:
        for ended, answer in zip(ends, finished, strict=False):
            self._tally.settled(ended, answer)
            key = (ended.job.id, ended.job.lock_token)
            self._shadows.settled(key, ended.end, applied=answer.status is Status.SUCCEEDED)
            began_it = self._parking.pop(key, None)
            if began_it is not None and isinstance(ended.end, Parked) and not answer.applied:
                self._cancel_orphan(began_it, ended.end.provider_job_id)
        if finished:
            self._keeper.drop((ended.job.id, ended.job.lock_token) for ended in ends[: len(finished)])
        unsaved, self._under_way = ends[len(finished) :], ()
        self._retried = bool(unsaved)
        self._ended[:0] = unsaved

    def _plan_next_look(self, asked: ClaimRequest, answer: Answer, now: float) -> None:
        resumed = sum(claim.resume for claim in answer.claims)
        started = len(answer.claims) - resumed
        self._hungry |= 0 < asked.slots <= started or 0 < (asked.resume_slots or 0) <= resumed
        self._ahead_due = not self._hungry and bool(answer.claims)
        self._next_look = now + self._options.poll.total_seconds()

    def _look_when_due(self, due: datetime, asked_at: datetime, now: float) -> None:
        """What was due when the claim was made, and was not claimed, waits for something else: for that there
        is the poll. What has become due since is looked at at once.
        """
        if due > asked_at:
            pause = (due - self._clock.now()).total_seconds()
            self._next_look = min(self._next_look, now + max(pause, 0))

    def _tell_repairs(self, answer: Answer) -> None:
        if answer.rescued.repaired:
            self._log.emit(LogEvent.LEASES_RESCUED, count=answer.rescued.repaired, ids=answer.rescued.ids)
        if answer.expired.repaired:
            self._log.emit(LogEvent.JOBS_EXPIRED, count=answer.expired.repaired, ids=answer.expired.ids)

    # --- Attempts ---

    def _begin(self, claims: Iterable[Claim]) -> None:
        now = self._clock.now()
        for claim in claims:
            attempt = Attempt.of(claim, now)
            self._attempts.prepare(attempt)  # now: a reload may come before its task runs
            self._running[attempt.key] = attempt
            if claim.resume:
                self._polling += 1
            else:
                self._started += 1
                self._tally.claimed(claim)
            if self._closing:  # the signal came while the claim was under way
                attempt.interrupt(Stop.HANDED_BACK, "the worker stopped")
            attempt.task = self._loop.create_task(self._carry_out(attempt))

    async def _carry_out(self, attempt: Attempt) -> None:
        self._end(attempt, await self._attempts.carry_out(attempt))

    def _end(self, attempt: Attempt, end: AttemptEnd | None) -> None:
        if self._running.pop(attempt.key, None) is None:
            return  # it was handed back over its head
        if attempt.claim.resume:
            self._polling -= 1
        self._bell.set()
        if end is None:
            self._keeper.drop([attempt.key])
            self._tally.lost(attempt.key, attempt.why or "somebody else has the job")
            self._hungry = True
            return
        if not self._ended:
            self._ended_since = self._loop.time()
        self._shadows.keep(attempt.claim, end)
        if isinstance(end, Parked) and not attempt.claim.resume:
            self._urgent = True
            if attempt.claim.job.provider_job_id is None:
                self._parking[attempt.key] = attempt
        self._ended.append(self._ended_of(attempt, end))

    def _ended_of(self, attempt: Attempt, end: AttemptEnd) -> Ended:
        job = attempt.claim.job
        called = attempt.call_begun or attempt.claim.resume
        return Ended(
            job=job, end=end, started_at=attempt.began_at, worker=self._worker,
            client_request_id=client_request_id(job) if called else None,
        )  # fmt: skip

    def _hand_back_the_rest(self) -> None:
        for attempt in list(self._running.values()):
            match attempt.stop:
                case Stop.LOST:
                    self._end(attempt, None)
                case Stop.CANCELLED:
                    self._end(attempt, Cancelled())
                case _:
                    self._end(attempt, handed_back(attempt))

    def _cancel_orphan(self, attempt: Attempt, provider_job_id: str) -> None:
        aside = self._loop.create_task(self._attempts.cancel_orphan(attempt, provider_job_id))
        self._asides.add(aside)
        aside.add_done_callback(self._asides.discard)

    def _check_leases(self, now: float) -> None:
        """Give up what is over, and stays over although the keeper was asked to hurry."""
        self._next_lease_check = now + _LEASE_CHECK_SECONDS
        expired = self._keeper.expired()
        self._keeper.give_up(expired & self._suspects)
        self._suspects = expired
        if expired:
            self._keeper.renew_soon()
