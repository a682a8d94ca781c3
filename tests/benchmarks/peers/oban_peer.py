"""oban for Python, with the worker that runs inside a program."""

import asyncio
import time

from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool
from stopwatch import Stopwatch, program, rate

SINGLE = 500
AT_ONCE = 1000
watch = Stopwatch()


@worker(queue="noop")
class Noop:
    """The one kind of job."""

    async def process(self, job: object) -> None:
        """Do nothing."""
        watch.tick()


async def fill(url: str, count: int) -> tuple[float, float]:
    """Rates of enqueues one by one, and in bulk."""
    async with AsyncConnectionPool(url) as pool:
        schema = await _schema(pool)
        await install(pool, prefix=schema)
        oban, given = Oban(pool=pool, prefix=schema), {"text": "x" * 200}
        began = time.perf_counter()
        for _ in range(SINGLE):
            await oban.enqueue(Noop.new(given))
        single, began = rate(SINGLE, began), time.perf_counter()
        for start in range(0, count, AT_ONCE):
            await oban.enqueue_many([Noop.new(given) for _ in range(min(AT_ONCE, count - start))])
        return single, rate(count, began)


async def work(url: str, size: int) -> None:
    """Drain the queue."""
    async with AsyncConnectionPool(url) as pool:
        schema = await _schema(pool)
        async with Oban(pool=pool, prefix=schema, queues={"noop": size}, node=f"node-{time.time_ns()}"):
            while await _left(pool):  # noqa: ASYNC110  # nothing says that a queue is empty
                await asyncio.sleep(0.1)
    watch.say()


async def _schema(pool: AsyncConnectionPool) -> str:
    async with pool.connection() as connection:
        (name,) = await (await connection.execute("SELECT current_schema()")).fetchone()
    return str(name)


async def _left(pool: AsyncConnectionPool) -> int:
    async with pool.connection() as connection:
        states = "('available', 'scheduled', 'executing', 'retryable')"
        found = await connection.execute(f"SELECT count(*) FROM oban_jobs WHERE state IN {states}")
        (count,) = await found.fetchone()
    return int(count)


if __name__ == "__main__":
    program(fill, work)
