"""A replay whose process is killed and that is resumed. `python -m tests.replay_kills` does it many times."""

from pathlib import Path

from tests.replay_kills import JOBS, play


def test_a_replay_that_is_killed_and_resumed_replays_every_job_exactly_once(
    database_url: str, tmp_path: Path
) -> None:
    one = play(7, database_url, tmp_path)

    assert (one.twice, one.forgotten) == ((), ())
    assert one.well
    assert one.killed[0][1] < JOBS, "it was killed when it had ended"
