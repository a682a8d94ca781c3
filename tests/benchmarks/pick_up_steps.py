"""Where the time of a pick-up goes, from the call of `enqueue` until the call of the provider goes out.

`python -m tests.benchmarks.pick_up_steps [--count N] [--database sqlite|postgresql] [--json]` has an idle
worker pick up one job after the other and notes instants in both processes, by the machine's monotonic clock,
which they share. Medians, milliseconds, and how many statements a claim had.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from sqlalchemy import event

from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator
from aijobs.services.worker.shift import Shift
from tests.benchmarks import pick_up
from tests.benchmarks.places import fresh

STEPS = (
    ("enqueue is called", "the worker has heard of it"),
    ("the worker has heard of it", "the claim begins"),
    ("the claim begins", "its first statement"),
    ("its first statement", "the answer to its last"),
    ("the answer to its last", "the claim is committed"),
    ("the claim is committed", "the call goes out"),
)
_noted: dict[str, float] = {}
_spent = [0, 0.0]  # statements of the claim, and seconds from their sending to their answers


def worker(url: str, said: Connection) -> None:
    """An idle worker that notes when what happens, and says it with every call."""
    _note_before(Shift, "look", "the worker has heard of it")
    pick_up.worker(url, _Telling(said), _Noting)


class _Telling:
    """Sends what was noted with the instant of a call."""

    def __init__(self, said: Connection) -> None:
        self._said = said

    def send(self, called: float, /) -> None:
        self._said.send({**_noted, "the call goes out": called, "statements": _spent[0], "served": _spent[1]})


def _note_before(owner: Any, method: str, what: str) -> None:
    plain: Callable[..., Any] = getattr(owner, method)

    def noting(*args: Any, **named: Any) -> Any:
        _noted[what] = time.monotonic()
        return plain(*args, **named)

    setattr(owner, method, noting)


class _Noting(Coordinator):
    """Notes when its claims begin and end, and what their statements take."""

    def claim(self, request: ClaimRequest) -> list[Claim]:
        engine, began = self.store.engine, time.monotonic()
        _spent[:] = [0, 0.0]
        event.listen(engine, "before_cursor_execute", _sent)
        event.listen(engine, "after_cursor_execute", _answered)
        found = super().claim(request)
        event.remove(engine, "before_cursor_execute", _sent)
        event.remove(engine, "after_cursor_execute", _answered)
        if found:
            _noted.update({"the claim begins": began, "the claim is committed": time.monotonic()})
        return found


def _sent(*_: Any) -> None:
    _noted["sent"] = time.monotonic()
    if not _spent[0]:
        _noted["its first statement"] = _noted["sent"]


def _answered(*_: Any) -> None:
    _noted["the answer to its last"] = now = time.monotonic()
    _spent[0] += 1
    _spent[1] += now - _noted["sent"]


def measure(database: str, count: int) -> dict[str, Any]:
    """The medians of the steps."""
    with fresh(database) as url, pick_up.enqueuing(url) as enqueue:
        found = [
            {"enqueue is called": began, **said}
            for began, said in pick_up.answers(worker, url, enqueue, count)
        ]
    steps = {
        f"{begin} -> {end}": statistics.median((one[end] - one[begin]) * 1000 for one in found)
        for begin, end in STEPS
    }
    return {
        "database": database,
        "statements": statistics.median(one["statements"] for one in found),
        "milliseconds": steps
        | {"of its statements, until their answers": statistics.median(o["served"] * 1000 for o in found)},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--database", choices=("sqlite", "postgresql"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    names = (asked.database,) if asked.database else ("sqlite", "postgresql")
    rows = [measure(name, asked.count) for name in names]
    if asked.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['database']}: {row['statements']:g} statements a claim")
        for step, took in row["milliseconds"].items():
            print(f"  {took:6.2f} ms  {step}")


if __name__ == "__main__":
    from tests.benchmarks import pick_up_steps

    pick_up_steps.main()  # the worker's process must find the same module under the same name
