"""The demonstration tells what happened, not what should have."""

from pathlib import Path

import pytest

from aijobs.core.clock import Chance
from aijobs.http.simulator import RunningSimulator, start_in_thread
from aijobs.services.demo import MODEL, Demo, DemoReport, Step


class Spendthrift:
    """A provider that charges once more than it should."""

    def __init__(self, simulator: RunningSimulator) -> None:
        self.url = simulator.url
        self.asked = simulator.asked
        self._billed = simulator.billed

    def billed(self) -> int:
        return self._billed() + 1


@pytest.fixture
def told(tmp_path: Path, chance: Chance) -> tuple[DemoReport, list[Step]]:
    steps: list[Step] = []
    with start_in_thread(poll_after=0.1, models=(MODEL,)) as simulator:
        report = Demo(tmp_path, Spendthrift(simulator), chance=chance, tell=steps.append).run()
    return report, steps


def test_the_steps_are_told_one_by_one_and_what_went_otherwise_is_said(
    told: tuple[DemoReport, list[Step]],
) -> None:
    report, steps = told

    assert list(report.steps) == steps
    assert report.wrong == ("5 jobs were paid for 6 times",)
    assert [fate.attempts for fate in report.fates] == [1, 1, 2, 1, 2]
