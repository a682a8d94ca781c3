"""Claims whose answer was lost with the connection: their commit may have gone through all the same.

Then jobs are leased to a worker that does not know that it holds them. They would run out as lost, perhaps
billed, although no call went out, and those that are held in doubt would wait for a person. So the next claim
of the worker hands them back first. They are known by their worker and the instant of the claim, exactly:
what another process of the same name holds was claimed at another.

A server may also commit late what it was told to (its standby was slow): so they are looked for until the
leases that they may have taken are over.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from aijobs.core.clock import Clock
from aijobs.core.errors import StoreError
from aijobs.core.lifecycle import Abandoned
from aijobs.services.coordinator.machinery import Machinery
from aijobs.services.coordinator.values import Claim, ClaimRequest, Ended
from aijobs.store import leases
from aijobs.store.engine import Tx

_REMEMBERED = 50
"""Claims of a worker without an answer; of more than these the leases run out."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Unanswered:
    """A claim at an instant; what it may have taken is leased *until* then."""

    at: datetime
    until: datetime


class Write(Protocol):
    """Runs work in a transaction of its own."""

    def __call__(self, work: Callable[[Tx], T], /) -> T:
        """What *work* returns, once it is committed."""
        ...


class Claims:
    """The claims of one process; it remembers which were never answered."""

    def __init__(self, write: Write, clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._unanswered: dict[str, deque[_Unanswered]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def claim(self, machinery: Machinery, request: ClaimRequest) -> list[Claim]:
        """Hand back what a lost answer has left behind, then claim. StoreError."""
        if request.worker in self._unanswered:
            self._hand_back(machinery, request.worker)
        instants: list[datetime] = []

        def work(tx: Tx) -> list[Claim]:
            alone = machinery.claiming.begin(tx, request)
            instants.append(self._clock.now())  # after the wait for others: a lease counts from here
            return machinery.claiming.claim(tx, request, instants[-1], alone=alone)

        try:
            found = self._write(work)
        except StoreError:
            if instants:
                self._unanswered[request.worker] += [_Unanswered(at, at + request.lease) for at in instants]
            raise
        self._forget(request.worker, lambda one: one.at in instants[-1:])  # what we know that we hold
        return found

    def _hand_back(self, machinery: Machinery, worker: str) -> None:
        end = Abandoned(reason="the answer to the claim was lost with the store")

        def work(tx: Tx) -> None:
            now = self._clock.now()
            found = leases.taken_at(tx, worker, [one.at for one in self._unanswered[worker]])
            ends = [Ended(job=job, end=end, started_at=now, worker=worker) for job in found]
            if ends:
                machinery.finishing.finish(tx, ends, now)

        self._write(work)
        now = self._clock.now()
        self._forget(worker, lambda one: one.until <= now)

    def _forget(self, worker: str, is_settled: Callable[[_Unanswered], bool]) -> None:
        left = [one for one in self._unanswered.pop(worker, ()) if not is_settled(one)]
        if left:
            self._unanswered[worker] += left
