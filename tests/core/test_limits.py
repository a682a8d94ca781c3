"""Who may start: every limit by itself and together, and turns between users and types."""

from itertools import product

import pytest

from aijobs.core.limits import Candidate, Limits, Running, Tally, TypeLimits, choose

ONE = {"t": TypeLimits(provider="p")}


def waiting(*users: str, type_name: str = "t", priority: int = 0, start: int = 1) -> list[Candidate]:
    """One job a named user, with turns as admission hands them out: a user's n-th job has the n-th turn."""
    turns: dict[str, int] = {}
    found = []
    for index, user in enumerate(users):
        turns[user] = turns.get(user, start - 1) + 1
        found.append(Candidate(f"{type_name}-{index:05}", type_name, user, priority, turns[user]))
    return found


def users_of(chosen: list[Candidate]) -> list[str]:
    return [one.user for one in chosen]


def test_without_limits_everything_fits_into_the_slots():
    chosen = choose(waiting("a", "a", "a"), Tally(Limits(types=ONE)), 2)

    assert [one.id for one in chosen] == ["t-00000", "t-00001"]


def test_one_users_flood_costs_another_user_one_place():
    flood = waiting(*["ana"] * 1000, "bo")

    chosen = choose(flood, Tally(Limits(types=ONE)), 4)

    assert users_of(chosen) == ["ana", "bo", "ana", "ana"]


def test_a_user_at_the_cap_does_not_stand_in_front_of_the_others():
    tally = Tally(Limits(per_user=1, types=ONE), [Running("t", "ana", "p", 1)])

    chosen = choose(waiting(*["ana"] * 499, "bo"), tally, 10)

    assert users_of(chosen) == ["bo"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(total=3, types=ONE), 1),
        (Limits(providers={"p": 3}, types=ONE), 1),
        (Limits(types={"t": TypeLimits(provider="p", concurrency=3)}), 1),
        (Limits(per_user=3, types=ONE), 1),
        (Limits(types={"t": TypeLimits(provider="p", per_user=3)}), 1),
        (Limits(types={"t": TypeLimits(provider="p", concurrency=0)}), 0),
        (Limits(total=1, types=ONE), 0),  # lowered below what runs: nothing is stopped, nothing starts
        (Limits(types=ONE), 5),
    ],
)
def test_each_limit_counts_what_runs_already(limits, expected):
    tally = Tally(limits, [Running("t", "ana", "p", 2)])

    chosen = choose(waiting(*["ana"] * 5), tally, 100)

    assert len(chosen) == expected
    assert limits.any == (limits != Limits(types=ONE))


def test_no_limit_is_ever_exceeded_whatever_the_mixture():
    types = {
        "x": TypeLimits(provider="p", concurrency=4, per_user=2),
        "y": TypeLimits(provider="q", per_user=1),
    }
    for total, per_user, p in product((None, 3, 7), (None, 2), (None, 2)):
        limits = Limits(total=total, per_user=per_user, providers={"p": p, "q": None}, types=types)
        running = [Running("x", "a", "p", 1), Running("y", "b", "q", 1)]
        crowd = waiting("a", "b", "c", "a", "c", type_name="x") + waiting("a", "b", "c", "b", type_name="y")

        chosen = choose(crowd, Tally(limits, running), 100)

        lives = [(r.type, r.user) for r in running] + [(c.type, c.user) for c in chosen]
        assert total is None or len(lives) <= total
        for user in "abc":
            assert per_user is None or sum(u == user for _, u in lives) <= per_user
            assert sum(one == ("x", user) for one in lives) <= 2
            assert sum(one == ("y", user) for one in lives) <= 1
        assert sum(name == "x" for name, _ in lives) <= min(4, p if p is not None else 4)


def test_a_higher_priority_goes_first_and_a_long_past_is_no_disadvantage():
    crowded = waiting("a", "a", "a", type_name="x")
    old = waiting("a", "a", type_name="y", start=900)
    urgent = waiting("z", type_name="x", priority=5)
    types = {"x": TypeLimits(provider="p"), "y": TypeLimits(provider="p")}

    chosen = choose(crowded + old + urgent, Tally(Limits(types=types)), 3)

    assert [(one.priority, one.type) for one in chosen] == [(5, "x"), (0, "x"), (0, "y")]


def test_the_type_that_waits_alone_is_served_between_the_jobs_of_a_crowded_type():
    types = {"x": TypeLimits(provider="p"), "y": TypeLimits(provider="p")}

    chosen = choose(
        waiting(*["a"] * 100, type_name="x") + waiting("b", type_name="y", start=50),
        Tally(Limits(types=types)),
        2,
    )

    assert {one.type for one in chosen} == {"x", "y"}


def test_why_a_type_or_a_user_is_held_back_is_said_in_words():
    limits = Limits(
        total=9, per_user=2, providers={"p": 1}, types={"t": TypeLimits(provider="p", per_user=1)}
    )
    tally = Tally(limits, [Running("t", "ana", "p", 1)])

    assert tally.blocked_type("t") == "provider p runs its limit of 1"
    assert tally.blocked_user("t", "ana") == "user ana runs the limit of 1 of type t"
    assert tally.blocked_user("t", "bo") is None
    at_all = Tally(Limits(per_user=1, types=ONE), [Running("t", "", "p", 1), Running("t", "ana", "p", 1)])
    assert at_all.blocked_user("t", "") == "user (none) runs the limit of 1"
    assert at_all.blocked_user("t", "ana") == "user ana runs the limit of 1"


def test_a_provider_that_lets_so_many_calls_through_gets_so_many_and_no_more() -> None:
    limits = Limits(types={"t": TypeLimits(provider="p"), "u": TypeLimits(provider="q", concurrency=2)})
    tally = Tally(limits, starts={"p": (2, "p: slow start")})
    waiting = [Candidate(f"{kind}{n}", kind, "ana", 0, n) for kind in ("t", "u") for n in range(4)]

    chosen = choose(waiting, tally, 10)

    assert sorted(one.id for one in chosen) == ["t0", "t1", "u0", "u1"]
    assert tally.blocked_type("t") == "p: slow start"


def test_the_last_places_are_kept_for_urgent_jobs():
    limits = Limits(total=4, reserved=1, reserved_from=5, types=ONE)
    tally = Tally(limits, [Running("t", "ana", "p", 2)])
    bulk, urgent = waiting(*["bo"] * 5), waiting("cy", "cy", priority=5)

    low = choose(bulk, tally, 10)
    high = choose(urgent, tally, 10)

    assert (len(low), len(high)) == (1, 1)
    assert "priority 5" in (Tally(limits, [Running("t", "a", "p", 3)]).blocked_priority(4) or "")
    assert Tally(limits, [Running("t", "a", "p", 3)]).blocked_priority(5) is None


def test_a_type_whose_calls_go_elsewhere_counts_at_that_provider():
    usual = TypeLimits(provider="p", concurrency=3)
    limits = Limits(providers={"p": 1, "q": 1}, types={"t": usual, "u": usual})

    along = limits.along({"t": "q", "u": "p"})

    assert along.types == {"t": TypeLimits(provider="q", concurrency=3), "u": usual}
    assert limits.along({"t": "p", "u": "p"}) is limits


def test_those_without_a_user_are_named_in_words():
    limits = Limits(types={"t": TypeLimits(provider="p", per_user=1)})
    tally = Tally(limits, [Running("t", "", "p", 1), Running("t", "ana", "p", 1)])

    assert tally.blocked_user("t", "") == "user (none) runs the limit of 1 of type t"
    assert tally.blocked_user("t", "ana") == "user ana runs the limit of 1 of type t"
