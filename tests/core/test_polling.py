"""When a provider's background work is looked at again."""

from datetime import timedelta

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.polling import HINT_CAP, Pace, poll_delay, stuck

PACE = Pace()


class NoChance:
    """Draws the lowest number."""

    def random(self) -> float:
        return 0.0

    def getrandbits(self, k: int, /) -> int:
        return 0


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def test_each_wait_is_half_as_long_again_as_the_one_before() -> None:
    age, waits = seconds(0), []

    for _ in range(5):
        waits.append(poll_delay(age, None, PACE, NoChance()))
        age += waits[-1]

    assert waits == [seconds(2), seconds(3), seconds(4.5), seconds(6.75), seconds(10.125)]


def test_a_wait_never_grows_beyond_the_cap() -> None:
    assert poll_delay(timedelta(hours=2), None, PACE, NoChance()) == PACE.cap


def test_a_factor_of_one_keeps_the_pace() -> None:
    pace = Pace(factor=1.0)

    assert poll_delay(timedelta(hours=2), None, pace, NoChance()) == pace.first


def test_an_age_below_zero_counts_as_none() -> None:
    assert poll_delay(seconds(-60), None, PACE, NoChance()) == PACE.first


@pytest.mark.parametrize("hint", [0.2, 17, 200])
def test_the_providers_word_goes_before_the_rule(hint: float) -> None:
    assert poll_delay(seconds(3600), seconds(hint), PACE, NoChance()) == seconds(hint)


def test_the_providers_word_is_followed_up_to_a_bound() -> None:
    assert poll_delay(seconds(0), timedelta(days=3), PACE, NoChance()) == HINT_CAP


def test_a_longer_cap_of_the_type_lifts_that_bound() -> None:
    pace = Pace(cap=timedelta(minutes=20))

    assert poll_delay(seconds(0), timedelta(minutes=15), pace, NoChance()) == timedelta(minutes=15)


def test_chance_adds_up_to_a_tenth_and_takes_nothing_away() -> None:
    chance = seeded_chance(7)

    waits = [poll_delay(seconds(0), seconds(10), PACE, chance) for _ in range(200)]

    assert min(waits) >= seconds(10)
    assert max(waits) <= seconds(11)
    assert len(set(waits)) > 100


def test_work_that_runs_for_longer_than_max_run_is_not_waited_for() -> None:
    assert stuck(PACE.max_run, "in_progress", PACE)
    assert stuck(PACE.max_run - seconds(1), "in_progress", PACE) is None


def test_work_that_stays_queued_is_given_up_sooner() -> None:
    assert stuck(PACE.max_queue_wait, "queued", PACE)
    assert stuck(PACE.max_queue_wait, "in_progress", PACE) is None
    assert stuck(PACE.max_queue_wait, None, PACE) is None
