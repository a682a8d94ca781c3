"""Processes cut off wherever they touch the store: nothing is lost, doubled, or stuck.

The suite takes each kind of transaction and of call once, on PostgreSQL of the four ways through the store
that matter most; every point of every scenario is taken by `python -m tests.crashes`.
"""

from pathlib import Path

import pytest

from aijobs.store.engine import Store
from tests.support.crash_runs import Ground, cut, each_kind
from tests.support.crash_scenarios import SCENARIOS
from tests.support.fuse import Blow

_HOT = ("job", "background job", "webhook", "replay")
_JOB = next(one for one in SCENARIOS if one.name == "background job")


@pytest.fixture
def ground(store: Store, tmp_path: Path) -> Ground:
    return Ground(store, tmp_path)


def test_a_process_cut_off_at_any_point_leaves_a_store_that_goes_on(ground: Ground) -> None:
    results = each_kind(ground, _HOT if ground.store.dialect == "postgresql" else ())

    faults = [(name, *fault) for name, result in results.items() for fault in result.faults]
    points = [point for result in results.values() for point in result.points]
    assert points.count("committed") > 15
    assert {"before the call", "after the call", "before the notification"} <= set(points)
    assert faults == []


def test_a_process_killed_by_the_kernel_leaves_no_more_behind(ground: Ground) -> None:
    one = cut(ground, _JOB, 45, Blow.SIGKILL)

    assert one.where is not None
    assert one.faults == []
