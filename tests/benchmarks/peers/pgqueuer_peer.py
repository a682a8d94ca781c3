"""pgqueuer, through asyncpg, with its own bulk enqueue and its drain mode."""

import time
from datetime import timedelta

import asyncpg
from pgqueuer import AsyncpgDriver, QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode
from stopwatch import Stopwatch, program, rate

PAYLOAD = b'{"text": "' + b"x" * 200 + b'"}'
SINGLE = 500
AT_ONCE = 1000


async def fill(url: str, count: int) -> tuple[float, float]:
    """Rates of enqueues one by one, and in bulk."""
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    began = time.perf_counter()
    for _ in range(SINGLE):
        await queries.enqueue("noop", PAYLOAD)
    single, began = rate(SINGLE, began), time.perf_counter()
    for start in range(0, count, AT_ONCE):
        size = min(AT_ONCE, count - start)
        await queries.enqueue(["noop"] * size, [PAYLOAD] * size, [0] * size)
    bulk = rate(count, began)
    await connection.close()
    return single, bulk


async def work(url: str, size: int) -> None:
    """Drain the queue."""
    watch, manager = Stopwatch(), QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(url))))

    @manager.entrypoint("noop")
    async def noop(job: object) -> None:
        watch.tick()

    await manager.run(dequeue_timeout=timedelta(seconds=1), batch_size=size, mode=QueueExecutionMode.drain)
    watch.say()


if __name__ == "__main__":
    program(fill, work)
