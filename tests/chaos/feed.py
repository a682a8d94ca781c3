"""The steady feed: a client that enqueues and, as a good one does, asks again by the same key."""

import random
import threading
import time
from dataclasses import dataclass, field

from aijobs.core.errors import StoreError
from aijobs.core.model import NewJob
from aijobs.core.payload import dump_json, input_hash
from tests.chaos.place import Place

KINDS = {"plain": 30, "told": 20, "careful": 15, "slow": 20, "order": 15}
"""Of a hundred jobs so many are of each type."""
KEYED = 0.4
REPEATED = 0.5


@dataclass
class Fed:
    """What the client knows. *accepted*: n -> the id it was given; *unsure*: an error was all it saw."""

    accepted: dict[int, str] = field(default_factory=dict)
    keys: dict[str, set[str]] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    repeats: int = 0
    errors: int = 0


class Feeder(threading.Thread):
    """Enqueues until told to stop."""

    def __init__(self, place: Place, *, rate: float, seed: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self.fed = Fed()
        self.fault: BaseException | None = None
        self._place = place
        self._rate = rate
        self._chance = random.Random(f"feed {seed}")
        self._over = threading.Event()

    def run(self) -> None:
        """Feed; what is not an error of the store ends it and is kept."""
        n = 0
        try:
            while not self._over.wait(self._chance.expovariate(self._rate)):
                n += 1
                self._one(n)
        except BaseException as fault:  # told by whoever waits for us
            self.fault = fault

    def stop(self) -> None:
        """End, once what was begun is accepted."""
        self._over.set()
        self.join(60)

    def _one(self, n: int) -> None:
        chance = self._chance
        type_name = chance.choices(list(KINDS), list(KINDS.values()))[0]
        key = f"key-{n}" if chance.random() < KEYED else None
        given = {"n": n, "what": type_name}
        new = NewJob(
            type=type_name, payload=dump_json(given), input_hash=input_hash(given), key=key,
            user=f"user-{chance.randrange(5)}", priority=chance.choice((0, 0, 0, 5)), max_attempts=12,
        )  # fmt: skip
        repeats = chance.randrange(1, 3) if chance.random() < REPEATED else 0
        job_id = self._enqueue(new, n)
        if job_id is None:
            return
        self.fed.accepted[n] = job_id
        for _ in range(repeats if key else 0):
            self.fed.repeats += 1
            self._enqueue(new, n)

    def _enqueue(self, new: NewJob, n: int) -> str | None:
        deadline = time.monotonic() + 50
        while True:
            try:
                job_id = self._place.coordinator.enqueue(new, actor="chaos").job.id
            except StoreError:
                self.fed.errors += 1
                if new.key is None:
                    self.fed.unsure.add(n)
                    return None
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                if new.key is not None:
                    self.fed.keys.setdefault(new.key, set()).add(job_id)
                return job_id
