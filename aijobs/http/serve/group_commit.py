"""Webhooks that wait at the same moment are written in one transaction, each answered after its commit.

To write one costs little beside a transaction, its commit, and the writers' waiting for one another. So one
writer is at work at a time, and while it is, the next batch gathers. One that comes alone waits for nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from aijobs.core.errors import StoreLocked
from aijobs.http.serve.threads import Threads
from aijobs.services.webhooks import Intake
from aijobs.store.deliveries import Delivery

AT_ONCE = 100
"""Deliveries in one transaction: others that write to the store wait for it."""

Answer = Intake | Exception


class GroupCommit:
    """What waits to be written. Belongs to its event loop."""

    def __init__(
        self, write: Callable[[Sequence[Delivery]], Sequence[Answer]], threads: Threads, *, most: int,
        patience: float,
    ) -> None:  # fmt: skip
        """*write* blocks, and gives one answer each, in order; *most* may wait, *patience* seconds each."""
        self._write = write
        self._threads = threads
        self._most = most
        self._patience = patience
        self._waiting: dict[asyncio.Future[Intake], Delivery] = {}
        self._writer: asyncio.Task[None] | None = None

    async def add(self, delivery: Delivery) -> Intake:
        """The answer to *delivery*, once it is committed; what is wrong with it is raised.

        StoreLocked when that takes too long, or when too many wait. One that is being written when its
        patience ends is recognised as a copy when it is sent again; one that is not is dropped.
        """
        if len(self._waiting) >= self._most:
            raise StoreLocked(f"{self._most} deliveries wait for the store already")
        answer: asyncio.Future[Intake] = asyncio.get_running_loop().create_future()
        self._waiting[answer] = delivery
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            raise StoreLocked(f"the store has not answered within {self._patience:g} s") from None
        finally:
            self._waiting.pop(answer, None)

    async def _write_all(self) -> None:
        while self._waiting:
            batch = dict(islice(self._waiting.items(), AT_ONCE))
            for answer in batch:
                del self._waiting[answer]
            answers = await self._written(list(batch.values()))
            for waiting, said in zip(batch, answers, strict=True):
                _tell(waiting, said)

    async def _written(self, found: Sequence[Delivery]) -> Sequence[Answer]:
        try:
            return await self._threads.run(lambda: self._write(found))
        except Exception as fault:  # a store that hangs, or a defect: each of those who wait is told
            return [fault] * len(found)


def _tell(waiting: asyncio.Future[Intake], said: Answer) -> None:
    if waiting.done():  # gone, or out of patience
        return
    if isinstance(said, Exception):
        waiting.set_exception(said)
    else:
        waiting.set_result(said)
