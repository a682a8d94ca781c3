"""What the programs of the peers share. It runs in their environments and imports only Python's own."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any


class Stopwatch:
    """When the first job ran, when the last one did, and how many there were."""

    def __init__(self) -> None:
        self.first = self.last = 0.0
        self.count = 0

    def tick(self) -> None:
        """A job is done."""
        self.last = time.time()
        self.first = self.first or self.last
        self.count += 1

    def say(self) -> None:
        """Tell the process that started this one."""
        print(json.dumps([self.first, self.last, self.count]))


def drained(url: str, workers: int, size: int) -> float:
    """Jobs a second of *workers* processes of this same program, called as `work URL SIZE`."""
    command = [sys.executable, sys.argv[0], "work", url, str(size)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
    said = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    seconds = max(last for _, last, _ in said) - min(first for first, _, count in said if count)
    return float(sum(count for _, _, count in said) / seconds)


def rate(count: int, began: float) -> float:
    """How many a second since *began*."""
    return count / (time.perf_counter() - began)


def answer(**rates: Any) -> None:
    """What the benchmark reads."""
    print(json.dumps(rates))


def program(
    fill: Callable[[str, int], Coroutine[Any, Any, tuple[float, float]]],
    work: Callable[[str, int], Coroutine[Any, Any, None]],
) -> None:
    """Be the whole program of a peer: *fill* enqueues and gives both rates, *work* drains in a process."""
    if sys.argv[1] == "work":
        asyncio.run(work(sys.argv[2], int(sys.argv[3])))
        return
    url, jobs, workers, size = sys.argv[1], *map(int, sys.argv[2:])
    single, bulk = asyncio.run(fill(url, jobs))
    answer(single=single, bulk=bulk, drain=drained(url, workers, size))
