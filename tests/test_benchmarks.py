"""The benchmarks can be believed only as far as they run and add up; here with tiny numbers and no timing."""

from pathlib import Path

import pytest

from aijobs.store.engine import open_store
from tests.benchmarks import growth, intake, loops
from tests.benchmarks.bars import BARS, Asked
from tests.benchmarks.report import Row, as_json, in_turns, table
from tests.support.clock import START


def row(**changes: object) -> Row:
    given = {
        "bar": "P0",
        "what": "a drain",
        "database": "sqlite",
        "ours": 50.0,
        "beside": "it",
        "theirs": 100.0,
    }
    return Row(**(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bar", "verdict"),
    [
        ({"at_least": 0.5}, "reached"),
        ({"at_least": 0.6}, "missed"),
        ({"at_most": 0.5}, "reached"),
        ({"at_most": 0.4}, "missed"),
        ({"at_most": 0.0}, "missed"),
        ({}, ""),
    ],
)
def test_a_bar_is_reached_on_the_right_side_of_its_ratio(bar: dict[str, float], verdict: str) -> None:
    assert row(**bar).verdict == verdict
    assert as_json([row(**bar)])[0]["ratio"] == 0.5


def test_the_table_says_what_was_measured_beside_what() -> None:
    (head, _, line) = table([row(at_least=0.6)]).splitlines()

    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "P0", "a drain", "sqlite", "50.0 a second", "it", "100", "0.50", ">= 0.6 x", "missed",
    ]  # fmt: skip
    assert len(head) == len(line)


def test_contenders_take_turns_and_the_median_counts() -> None:
    order: list[str] = []
    figures = {"a": iter([3.0, 1.0, 2.0]), "b": iter([9.0, 9.0, 7.0])}

    def run(name: str) -> float:
        order.append(name)
        return next(figures[name])

    found = in_turns(3, {name: lambda n=name: run(n) for name in figures})  # type: ignore[misc]

    assert found == {"a": 2.0, "b": 9.0}
    assert order == ["a", "b"] * 3


@pytest.mark.parametrize("name", loops.names_for("sqlite"))
def test_a_loop_by_hand_takes_every_job_once(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'bare.db'}"
    loops.fill(url, 150)
    batch, close = loops.LOOPS[name](url)

    taken = [batch(), batch(), batch()]

    close()
    assert taken == [100, 50, 0]


@pytest.mark.parametrize("name", growth.CASES)
def test_a_crowd_is_as_large_as_it_says(name: str, sqlite_store_url: str) -> None:
    store = open_store(sqlite_store_url)

    with store.write() as tx:
        growth.CASES[name].fill(tx, 60, START)
        count = tx.exec_driver_sql("SELECT count(*) FROM jobs WHERE status <> 'processing'").scalar_one()

    store.close()
    assert count == 60


def test_a_fifth_of_the_deliveries_are_copies() -> None:
    made = intake.deliveries(50, "wh")

    assert len(made) == 50
    assert len({body for _, body in made}) == 40


def test_every_bar_has_two_names_and_sizes_can_be_made_smaller() -> None:
    others = [other for other, _, _ in BARS.values()]

    assert not set(others) & set(BARS)
    assert Asked(scale=0.1).size(5000) == 500
