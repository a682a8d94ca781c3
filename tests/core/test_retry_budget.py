"""Retries over their budget: later, but never dead of it, and the provider's own word stands."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from aijobs.core.lifecycle import Verdict
from aijobs.core.model import ErrorClass, Failure
from aijobs.core.retry_budget import OverBudget
from tests.support.clock import START

WINDOW = timedelta(seconds=100)
FAILURE = Failure(error_class=ErrorClass.NETWORK)
SOON = Verdict(retry=True, delay=timedelta(seconds=1), reason="network")


@dataclass
class Says:
    """A policy that says one thing."""

    answer: Verdict

    def verdict(self, *_: object) -> Verdict:
        return self.answer


class At:
    """Chance that always falls on the same place between 0 and 1."""

    def __init__(self, place: float) -> None:
        self.place = place

    def random(self) -> float:
        return self.place


def over_budget(answer: Verdict, failure: Failure = FAILURE, *, place: float = 0.5) -> Verdict:
    return OverBudget(Says(answer), WINDOW).verdict(None, failure, START, At(place))


@pytest.mark.parametrize(("place", "seconds"), [(0.0, 50), (0.5, 75), (1.0, 100)])
def test_a_retry_comes_in_the_second_half_of_the_window(place: float, seconds: float) -> None:
    verdict = over_budget(SOON, place=place)

    assert (verdict.retry, verdict.delay) == (True, timedelta(seconds=seconds))
    assert verdict.reason == "network; the retry budget is used up"


def test_a_retry_that_is_later_anyway_stays_where_it_is() -> None:
    later = Verdict(retry=True, delay=timedelta(seconds=76), reason="network")
    same = Verdict(retry=True, delay=timedelta(seconds=75), reason="network")

    assert over_budget(later) is later
    assert over_budget(same) is same


def test_what_is_not_retried_is_left_alone() -> None:
    final = Verdict(retry=False, reason="invalid")

    assert over_budget(final) is final


def test_the_providers_own_word_on_when_to_come_back_stands() -> None:
    told = Failure(error_class=ErrorClass.RATE_LIMITED, hint=timedelta(seconds=3))

    assert over_budget(SOON, told) is SOON
