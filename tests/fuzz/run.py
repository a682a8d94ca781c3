"""A run: so many inputs for each target, what became of them, and the first of whatever got away."""

import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.peers import WITH_PEERS
from tests.fuzz.targets import PURE, REFUSED, TAKEN, Attempt, Target, UnclearError

TARGETS: dict[str, Target] = {**PURE, **WITH_PEERS}
_KEPT = 20
Heard = Callable[[str, "Tally"], object]


@dataclass(slots=True)
class Tally:
    """What became of the inputs of one target. *escaped* has an example of each kind."""

    inputs: int = 0
    taken: int = 0
    refused: int = 0
    escapes: int = 0
    seconds: float = 0.0
    escaped: dict[str, str] = field(default_factory=dict)

    def escape(self, error: BaseException, given: object) -> None:
        """Count *error*, and keep the first of its kind."""
        self.escapes += 1
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/tests/fuzz/run" not in f.filename]
        place = frames[-1] if frames else None
        ours = [f for f in frames if "/aijobs/" in f.filename]
        near = ours[-1] if ours else place
        where = f"{Path(near.filename).name}:{near.lineno}" if near else "?"
        kind = f"{type(error).__name__} at {where}"
        if kind not in self.escaped and len(self.escaped) < _KEPT:
            self.escaped[kind] = f"{str(error)[:300]}\n      input {repr(given)[:400]}"


def shares(names: list[str], inputs: int) -> Counter[str]:
    """How many of *inputs* each target gets; at least one."""
    whole = sum(TARGETS[name].share for name in names)
    return Counter({name: max(1, round(inputs * TARGETS[name].share / whole)) for name in names})


def fuzz(
    names: list[str], *, inputs: int, seed: int, folder: Path, heard: Heard = lambda *_: None
) -> dict[str, Tally]:
    """Try *inputs* inputs in all; the same *seed* makes the same ones. *heard* is told how each one went."""
    found: dict[str, Tally] = {}
    for name, count in shares(names, inputs).items():
        with ExitStack() as stack:
            attempt = stack.enter_context(TARGETS[name].opened(folder))
            found[name] = _try(TARGETS[name], attempt, count=count, chance=Random(f"{seed}:{name}"))
        heard(name, found[name])
    return found


def _try(target: Target, attempt: Attempt, *, count: int, chance: Random) -> Tally:
    tally = Tally()
    began = time.monotonic()
    for _ in range(count):
        given = target.make(chance)
        tally.inputs += 1
        try:
            outcome = attempt(given)
        except (Exception, UnclearError) as error:
            tally.escape(error, given)
        else:
            tally.taken += outcome == TAKEN
            tally.refused += outcome == REFUSED
    tally.seconds = time.monotonic() - began
    return tally
