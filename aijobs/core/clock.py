"""The only place that reads the system clock or draws random numbers; everything else is handed these."""

import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where `now` comes from. Tests use one that moves only when told."""

    def now(self) -> datetime:
        """The current instant, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never steps; for durations inside one process."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class Chance(Protocol):
    """A source of randomness: jitter, ids and the simulator draw from it and from nothing else."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """A non-negative int of *k* random bits."""
        ...


def system_chance() -> Chance:
    """The operating system's randomness: safe across forks, not reproducible."""
    return random.SystemRandom()


def seeded_chance(seed: int) -> Chance:
    """A reproducible source, for tests, drills and demonstrations."""
    return random.Random(seed)
