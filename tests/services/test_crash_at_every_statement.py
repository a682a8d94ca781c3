"""Processes cut off wherever they touch the store: nothing is lost, doubled, or stuck.

The suite takes each kind of transaction and of call once; every point of every scenario is taken by
`python -m tests.crashes`.
"""

from pathlib import Path

import pytest

from aijobs.store.engine import Store
from tests.support.crash_runs import Ground, Result, cut, each_kind
from tests.support.crash_scenarios import SCENARIOS
from tests.support.fuse import Blow

pytestmark = pytest.mark.timeout(900)  # some hundred deaths a test; on a busy machine that takes a while

_JOB = next(one for one in SCENARIOS if one.name == "background job")


@pytest.fixture
def ground(store: Store, tmp_path: Path) -> Ground:
    return Ground(store, tmp_path)


def faults(results: dict[str, Result]) -> list[tuple[str, str, str]]:
    return [(name, *fault) for name, result in results.items() for fault in result.faults]


def test_a_process_that_dies_at_any_point_leaves_a_store_that_goes_on(ground: Ground) -> None:
    results = each_kind(ground, Blow.KILLED)

    assert sum(len(result.points) for result in results.values()) > 70
    assert faults(results) == []


def test_a_store_lost_at_any_point_with_or_without_its_answer_costs_nothing(ground: Ground) -> None:
    results = each_kind(ground, Blow.CUT)

    assert sum(result.points.count("committed") for result in results.values()) > 30
    assert faults(results) == []


@pytest.mark.parametrize("at", [20, 45])
def test_a_process_killed_by_the_kernel_leaves_no_more_behind(ground: Ground, at: int) -> None:
    one = cut(ground, _JOB, at, Blow.SIGKILL)

    assert one.where is not None
    assert one.faults == []
