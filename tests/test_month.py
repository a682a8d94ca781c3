"""The month of the benchmark adds up: it works, forgets, and ends with what it was told to keep."""

from tests.benchmarks.month import Month, in_a_file, live, parsed, settings_with
from tests.support.clock import ManualClock


def test_two_small_days_leave_what_retention_keeps() -> None:
    clock = ManualClock()
    options = parsed(["--database", "sqlite"])

    with in_a_file(options, clock) as (store, gauge):
        month = Month(store, clock, settings_with(1), per_day=48, prune_batch=10)
        first, second = live(month, gauge, 2)
        report = gauge.report()

    assert min(first["claimed"], second["claimed"]) > 40
    assert 40 < first["jobs"] <= 48
    assert 48 <= second["jobs"] < 70  # the last day's, and what has keys, or died, or waits
    assert report["after_vacuum"]["free_mb"] == 0
