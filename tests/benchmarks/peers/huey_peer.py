"""huey on SQLite with fsync on: its queue and its execution of tasks, without the waits of its consumer."""

import sys
import time

from huey import SqliteHuey
from stopwatch import Stopwatch, answer, drained, rate

SINGLE = 500
watch = Stopwatch()


def queue_at(url: str) -> tuple[SqliteHuey, object]:
    """The queue with its one task."""
    huey = SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True, timeout=60)

    @huey.task(name="noop")
    def noop(text: str) -> None:
        watch.tick()

    return huey, noop


def work(url: str) -> None:
    """Drain the queue."""
    huey, _ = queue_at(url)
    while task := huey.dequeue():
        huey.execute(task)
    watch.say()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2])
    else:
        url, jobs, workers, size = sys.argv[1], *map(int, sys.argv[2:])
        _, noop = queue_at(url)
        began = time.perf_counter()
        for _ in range(jobs):
            noop("x" * 200)
        answer(single=rate(jobs, began), drain=drained(url, workers, size))
