"""More room for the next try."""

import pytest

from aijobs.core.output_room import grown, has_room


@pytest.mark.parametrize("name", ["max_output_tokens", "max_completion_tokens", "max_tokens"])
def test_the_limit_grows_by_the_factor_and_nothing_else_changes(name: str) -> None:
    request = {name: 100, "temperature": 1, "top": 7}

    assert grown(request, 0, factor=2, most=1000) == request
    assert grown(request, 1, factor=2, most=1000) == request | {name: 200}
    assert grown(request, 2, factor=1.5, most=1000) == request | {name: 225}


def test_it_stops_at_the_most_and_never_shrinks() -> None:
    assert grown({"max_tokens": 300}, 2, factor=2, most=1000) == {"max_tokens": 1000}
    assert grown({"max_tokens": 2000}, 1, factor=2, most=1000) == {"max_tokens": 2000}


def test_there_is_room_exactly_while_the_next_limit_is_larger() -> None:
    assert has_room({"max_tokens": 300}, 0, factor=2, most=600)
    assert not has_room({"max_tokens": 300}, 1, factor=2, most=600)
    assert has_room({"max_tokens": 300}, 1, factor=2, most=601)
    assert not has_room({"max_tokens": 600}, 0, factor=2, most=600)


@pytest.mark.parametrize("request_", [{}, {"max_tokens": "300"}, {"max_tokens": True}, {"max_tokens": None}])
def test_without_a_limit_there_is_nothing_to_grow(request_: dict[str, object]) -> None:
    assert grown(request_, 3, factor=2, most=1000) == request_
    assert not has_room(request_, 0, factor=2, most=1000)
