"""Keeping leases: a thread with a connection of its own renews them all, so that no busy event loop can
starve it.

A lease is known by (job id, fence), never by the job alone: when this worker loses a job and later claims the
same job again, the new lease is another one.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from aijobs.core.clock import Chance, Clock, SystemClock
from aijobs.core.errors import SchemaMismatch, StoreError
from aijobs.core.model import Job
from aijobs.services.coordinator import Renewal
from aijobs.services.worker.gate import backoff
from aijobs.services.worker.rounds import Rounds

Key = tuple[str, int]
"""A lease: job id and fence."""


def key_of(job: Job) -> Key:
    """The lease under which *job* was claimed."""
    return (job.id, job.lock_token)


class Listener(Protocol):
    """Who is told, from the keeper's thread, what became of the leases."""

    def lease_lost(self, key: Key, why: str) -> None:
        """Somebody else has the job, or its time is over: stop working on it."""
        ...

    def cancel_asked(self, key: Key) -> None:
        """A person asked to cancel the job."""
        ...

    def store_failed(self, fault: StoreError) -> None:
        """The store could not be asked."""
        ...

    def store_answered(self) -> None:
        """The store was asked and answered."""
        ...

    def keeper_died(self, fault: BaseException) -> None:
        """The thread has ended by an error: no lease is renewed any more."""
        ...


@dataclass(frozen=True, slots=True)
class Until:
    """When a lease is over, by three clocks: whichever says so first is right.

    The store's clock decides, but after a suspend it may be the last to notice; a monotonic clock stands
    still while a virtual machine sleeps, and a wall clock can be set back.
    """

    store: datetime
    monotonic: float
    host: datetime


class LeaseKeeper:
    """Renews every lease it is given each third of the lease, in one statement, until told to drop it.

    With each round goes the worker's own heartbeat, so that there is always something that asks the store.
    """

    def __init__(
        self, *, lease: timedelta, every: timedelta, clock: Clock, chance: Chance, listener: Listener,
        renew: Callable[[Mapping[str, int], datetime], Renewal], beat: Callable[[datetime], object],
    ) -> None:  # fmt: skip
        self._lease = lease
        self._every = every.total_seconds()
        self._clock = clock
        self._host = SystemClock()
        self._rounds = Rounds(lease=lease, every=every, clock=clock, host=self._host)
        self._chance = chance
        self._listener = listener
        self._renew = renew
        self._beat = beat
        self._held: dict[Key, Until] = {}
        self._lock = threading.Lock()
        self._bell = threading.Event()
        self._stopping = False
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="aijobs-leases", daemon=True)

    # --- From the event loop, and from the store's thread ---

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """End the thread; leases still held are no longer renewed."""
        self._stopping = True
        self._bell.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def hold(self, keys: Sequence[Key], until: Until) -> None:
        """Renew these from now on. An older lease on the same job is lost: a newer fence exists."""
        with self._lock:
            newest = dict(keys)
            stale = [key for key in self._held if key[0] in newest and newest[key[0]] != key[1]]
            for key in stale:
                del self._held[key]
            self._held.update(dict.fromkeys(keys, until))
        for key in stale:
            self._listener.lease_lost(key, "the job was claimed again")

    def drop(self, keys: Iterable[Key]) -> None:
        """Renew these no longer."""
        with self._lock:
            for key in keys:
                self._held.pop(key, None)

    def until(self) -> Until:
        """When a lease taken or renewed at this instant will be over."""
        seconds = self._lease.total_seconds()
        return Until(
            self._clock.now() + self._lease, self._host.monotonic() + seconds, self._host.now() + self._lease
        )

    def stands(self, key: Key) -> bool:
        """Whether the lease is held and, as far as this process can know, not over."""
        until = self._held.get(key)
        return until is not None and not self._over(until)

    def expired(self) -> frozenset[Key]:
        """The leases whose time has passed without a renewal."""
        with self._lock:
            return frozenset(key for key, until in self._held.items() if self._over(until))

    def may_judge(self, now: datetime) -> bool:
        """Whether a lease that is over by *now* shows that its worker is gone. After a pause (a sleep, a step
        of the clock) ours are renewed at once, and those of others are given a round.
        """
        if self._rounds.overdue(now):
            self.renew_soon()
        return self._rounds.regular(now)

    def renew_soon(self) -> None:
        """Renew at once instead of waiting for the next round."""
        self._bell.set()

    # --- Its own thread ---

    def renew_now(self) -> None:
        """Renew every lease held, tell what was lost or is to be cancelled; on failure, what has run out.

        Raises SchemaMismatch: no later try would succeed.
        """
        with self._lock:
            asked = dict(self._held)
        until = self.until()
        try:
            if asked:
                self._settle(asked, self._renew(dict(asked.keys()), until.store), until)
            self._beat(self._clock.now())
            self._rounds.through(until.store - self._lease)
        except SchemaMismatch:
            raise
        except StoreError as fault:
            self._failures += 1
            self._listener.store_failed(fault)
            self.give_up(self.expired())
        else:
            self._failures = 0
            self._listener.store_answered()

    def give_up(self, keys: Iterable[Key]) -> None:
        """Let go of leases that could not be renewed in time: somebody else may have the jobs by now."""
        for key in keys:
            self.drop([key])
            self._listener.lease_lost(key, "it ran out before it could be renewed")

    def _settle(self, asked: dict[Key, Until], answer: Renewal, until: Until) -> None:
        lost = [key for key in asked if key[0] in answer.lost]
        with self._lock:
            for key in asked:
                if key in self._held and key[0] not in answer.lost:
                    self._held[key] = until
            for key in lost:
                self._held.pop(key, None)
        for key in lost:
            self._listener.lease_lost(key, "somebody else has the job, or it has ended")
        for key in asked:
            if key[0] in answer.cancel:
                self._listener.cancel_asked(key)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._bell.wait(self._pause())
                self._bell.clear()
                if not self._stopping:
                    self.renew_now()
        except BaseException as fault:  # the worker must stop: its leases would silently run out
            self._listener.keeper_died(fault)

    def _pause(self) -> float:
        if not self._failures:
            return self._every
        return min(backoff(self._failures, self._chance), self._every)

    def _over(self, until: Until) -> bool:
        return (
            self._clock.now() >= until.store
            or self._host.monotonic() >= until.monotonic
            or self._host.now() >= until.host
        )
