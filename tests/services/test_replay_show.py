"""Dead letters of four kinds, brought back; `python -m tests.replay_show` does it with thousands."""

from collections import Counter

from aijobs.store.engine import Store
from tests.replay_show import RATE, RATIO, play
from tests.support.clock import ManualClock

TOTAL, GOOD_FOR, BATCH = 160, 12, 5


def test_four_kinds_are_told_apart_replayed_at_their_rate_stopped_in_time_and_accounted_for(
    store: Store, clock: ManualClock
) -> None:
    seen = play(store, clock, total=TOTAL, good_for=GOOD_FOR, batch=BATCH)

    each = TOTAL // 4
    assert seen.verdicts == {
        "outage": "replay",
        "taken": "its key belongs to the newer",
        "bad": "its input no longer fits the schema: top level: lacks text",
        "expired": "probe: other refuses the key",
    }
    assert (seen.preview.replayable, len(seen.preview.skipped)) == (each, 3 * each)

    # It stops when more than the bound have failed, and one batch later at the latest.
    assert (seen.stopped.state, "failed again" in (seen.stopped.stopped_because or "")) == ("stopped", True)
    assert seen.failed_before_stop <= GOOD_FOR * RATIO / (1 - RATIO) + BATCH
    assert seen.stopped.progress.planned == each - seen.calls_before_stop

    # No batch begins before the time that the one before may take.
    per_job = RATE.per.total_seconds() / RATE.count
    assert all(seconds >= count * per_job for count, seconds in seen.paces)

    # After the repair everything else runs: what failed again by a plan of its own, the rest once.
    assert [run.state for run in (seen.resumed, seen.second, seen.third)] == ["done"] * 3
    assert seen.second.progress.succeeded == seen.failed_before_stop
    assert Counter(seen.calls.values()) == {1: 2 * each - seen.failed_before_stop, 2: seen.failed_before_stop}
    assert seen.statuses == {("succeeded", "replayed"): 2 * each, ("dead_letter", "closed"): 2 * each}

    # Before and after, side by side: what was written before stands there as it was, and what came is behind.
    assert seen.before.keys() == seen.after.keys()
    for job_id, was in seen.before.items():
        now = seen.after[job_id]
        assert list(now[: len(was)]) == list(was)
        assert len(now) - len(was) == seen.calls[job_id]
        assert [one.round for one in now] == list(range(1, len(now) + 1))
