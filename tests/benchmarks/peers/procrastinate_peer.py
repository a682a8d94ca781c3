"""procrastinate, with its async worker."""

import time

from procrastinate import App, PsycopgConnector
from stopwatch import Stopwatch, program, rate

SINGLE = 500
AT_ONCE = 1000
watch = Stopwatch()


def app_at(url: str) -> App:
    """The application with its one task."""
    app = App(connector=PsycopgConnector(conninfo=url))

    @app.task(name="noop", pass_context=False)
    async def noop(text: str) -> None:
        watch.tick()

    return app


async def fill(url: str, count: int) -> tuple[float, float]:
    """Rates of enqueues one by one, and in bulk."""
    app, text = app_at(url), "x" * 200
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        task = app.tasks["noop"]
        began = time.perf_counter()
        for _ in range(SINGLE):
            await task.defer_async(text=text)
        single, began = rate(SINGLE, began), time.perf_counter()
        for start in range(0, count, AT_ONCE):
            await task.batch_defer_async(*[{"text": text}] * min(AT_ONCE, count - start))
        return single, rate(count, began)


async def work(url: str, size: int) -> None:
    """Drain the queue."""
    app = app_at(url)
    async with app.open_async():
        await app.run_worker_async(
            concurrency=size, wait=False, listen_notify=False, install_signal_handlers=False
        )
    watch.say()


if __name__ == "__main__":
    program(fill, work)
