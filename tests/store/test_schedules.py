"""What is stored of a schedule moves only from the state it was read in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from aijobs.core.ticking import State
from aijobs.store import schedules
from aijobs.store.engine import Store

NOW = datetime(2026, 5, 5, 2, 0, tzinfo=UTC)
SEEN = State(fingerprint="f", seen_at=NOW)
MOVED = replace(SEEN, last_window=NOW + timedelta(minutes=1))


def test_a_schedule_begins_once(store: Store) -> None:
    with store.write() as tx:
        first = schedules.begin(tx, "nightly", SEEN, NOW)
        second = schedules.begin(tx, "nightly", MOVED, NOW)

        assert (first, second) == (True, False)
        assert schedules.locked(tx, "nightly") == SEEN
        assert schedules.locked(tx, "unknown") is None


def test_it_moves_from_the_state_that_was_read(store: Store) -> None:
    with store.write() as tx:
        schedules.begin(tx, "nightly", SEEN, NOW, skipped=2)
        moved = schedules.move(tx, "nightly", SEEN, MOVED, NOW, skipped=3)

    assert moved
    with store.read() as tx:
        assert schedules.states(tx) == {"nightly": MOVED}
        assert schedules.records(tx)["nightly"].skipped == 5


def test_it_does_not_move_from_another_state(store: Store) -> None:
    with store.write() as tx:
        schedules.begin(tx, "nightly", MOVED, NOW)
        late = schedules.move(tx, "nightly", SEEN, replace(SEEN, last_window=NOW), NOW)
        edited = schedules.move(tx, "nightly", replace(MOVED, fingerprint="old"), MOVED, NOW)
        unknown = schedules.move(tx, "hourly", MOVED, SEEN, NOW)

    assert (late, edited, unknown) == (False, False, False)
    with store.read() as tx:
        assert schedules.states(tx) == {"nightly": MOVED}


def test_it_is_retired_only_as_it_was_read(store: Store) -> None:
    with store.write() as tx:
        schedules.begin(tx, "nightly", MOVED, NOW)
        edited = schedules.retire(tx, "nightly", replace(MOVED, fingerprint="old"), NOW)
        retired = schedules.retire(tx, "nightly", MOVED, NOW)

    assert (edited, retired) == (False, True)
    with store.read() as tx:
        assert schedules.states(tx) == {"nightly": replace(MOVED, retired_at=NOW)}


def test_what_is_out_of_the_file_may_be_paused_and_moves_back(store: Store) -> None:
    later = NOW + timedelta(hours=1)
    with store.write() as tx:
        schedules.begin(tx, "nightly", MOVED, NOW)
        schedules.retire(tx, "nightly", MOVED, NOW)
        schedules.pause(tx, "nightly", later, NOW + timedelta(minutes=1))

    with store.write() as tx:
        retired = schedules.locked(tx, "nightly")
        assert retired == replace(MOVED, retired_at=NOW, paused_until=later)
        assert not schedules.move(tx, "nightly", MOVED, MOVED, NOW)
        assert schedules.move(tx, "nightly", retired, MOVED, NOW)
        assert schedules.locked(tx, "nightly") == replace(MOVED, paused_until=later)


def test_a_pause_leaves_the_rest_alone(store: Store) -> None:
    with store.write() as tx:
        schedules.begin(tx, "nightly", MOVED, NOW)
        paused = schedules.pause(tx, "nightly", NOW + timedelta(hours=1), NOW)
        unknown = schedules.pause(tx, "hourly", NOW, NOW)

    assert (paused, unknown) == (True, False)
    with store.read() as tx:
        assert schedules.states(tx) == {"nightly": replace(MOVED, paused_until=NOW + timedelta(hours=1))}
