"""Ids of jobs: in order of their time, never the same twice, recognised when typed."""

from datetime import timedelta
from uuid import UUID

import pytest

from aijobs.core.clock import Chance
from aijobs.core.ids import is_id, lowest_id, new_id
from tests.support.clock import ManualClock


def test_an_id_is_never_given_twice(clock: ManualClock, chance: Chance) -> None:
    made = {new_id(clock.now(), chance) for _ in range(10_000)}

    assert len(made) == 10_000


def test_ids_sort_by_the_time_they_were_made(clock: ManualClock, chance: Chance) -> None:
    made = []
    for _ in range(1_000):
        made.append(new_id(clock.now(), chance))
        clock.advance(timedelta(milliseconds=1))

    assert made == sorted(made)


def test_an_id_is_a_uuid_of_version_7_that_holds_its_time(clock: ManualClock, chance: Chance) -> None:
    clock.advance(timedelta(milliseconds=1234))

    made = UUID(new_id(clock.now(), chance))

    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == round(clock.now().timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("019b7d6e-0000-7000-8000-000000000000", True),
        ("019B7D6E-0000-7000-8000-000000000000", True),
        ("019b7d6e000070008000000000000000", False),
        ("{019b7d6e-0000-7000-8000-000000000000}", False),
        ("job-1", False),
        ("", False),
    ],
)
def test_only_the_usual_spelling_is_an_id(text: str, known: bool) -> None:
    assert is_id(text) is known


def test_the_lowest_id_of_a_moment_divides_earlier_ids_from_those_of_the_moment(clock, chance):
    earlier = new_id(clock.now(), chance)
    clock.advance(seconds=0.001)
    now = new_id(clock.now(), chance)

    assert earlier < lowest_id(clock.now()) < now
