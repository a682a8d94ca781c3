"""The grammar of faults."""

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.faults import Fault, FaultTable, Stage, names, parse_faults


def table(spec: str) -> FaultTable:
    return FaultTable(parse_faults(spec), seeded_chance(1))


def strikes(faults: FaultTable, job: str, *, calls: int, stage: Stage = Stage.SUBMIT) -> list[str]:
    found = [faults.pick(stage, job) for _ in range(calls)]
    return [fault.name if fault else "-" for fault in found]


@pytest.mark.parametrize("spec", ["429", "429=2:0.5x3", "poll_503x2", "cancel_409", "queued_forever", "418"])
def test_a_fault_is_written_back_as_it_was_read(spec: str) -> None:
    assert [str(fault) for fault in parse_faults(spec)] == [spec]


@pytest.mark.parametrize("name", names())
def test_every_name_in_the_catalogue_can_be_written(name: str) -> None:
    assert len(parse_faults(name)) == 1


@pytest.mark.parametrize("name", ["incomplete_max", "finish_length", "429_reset_6m0s"])
def test_an_x_inside_a_name_is_no_count(name: str) -> None:
    (fault,) = parse_faults(f"{name}x2")

    assert fault.times == 2


def test_a_prefix_moves_an_answer_to_the_poll_and_to_the_cancel() -> None:
    faults = parse_faults("rst,poll_rst,cancel_rst")

    assert [(fault.name, fault.stage) for fault in faults] == [
        ("rst", Stage.SUBMIT),
        ("rst", Stage.POLL),
        ("rst", Stage.CANCEL),
    ]


def test_poll_404_then_ok_stops_by_itself() -> None:
    assert parse_faults("poll_404_then_ok") == (Fault(name="404", stage=Stage.POLL, times=2),)


def test_all_wrong_rules_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"'queued_forevr' \(did you mean 'queued_forever'\?\); .*'x y'"):
        parse_faults("queued_forevr, 429, x y")


@pytest.mark.parametrize(
    "spec", ["poll_queued_forever", "600", "399", "poll_", "429:1.5", "429:0", "429x", "=2"]
)
def test_what_means_nothing_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"fault|chance"):
        parse_faults(spec)


@pytest.mark.parametrize("spec", ["", " ", ",", " , "])
def test_nothing_asked_is_no_fault(spec: str) -> None:
    assert parse_faults(spec) == ()


def test_a_count_is_kept_for_each_job_apart() -> None:
    faults = table("429x2")

    assert strikes(faults, "a", calls=3) == ["429", "429", "-"]
    assert strikes(faults, "b", calls=1) == ["429"]


def test_rules_follow_one_another() -> None:
    assert strikes(table("429x2,500x1"), "a", calls=4) == ["429", "429", "500", "-"]


def test_a_rule_of_another_stage_is_not_used_up() -> None:
    faults = table("poll_503x1,429x1")

    assert strikes(faults, "a", calls=1) == ["429"]
    assert strikes(faults, "a", calls=2, stage=Stage.POLL) == ["503", "-"]


def test_a_chance_strikes_about_that_often() -> None:
    struck = strikes(table("500:0.3"), "a", calls=1000)

    assert 250 < struck.count("500") < 350


def test_a_rule_whose_condition_is_not_met_is_passed_over() -> None:
    faults = table("rate_limit,500")

    fault = faults.pick(Stage.SUBMIT, "a", holds=lambda rule: rule.name != "rate_limit")

    assert fault is not None
    assert fault.name == "500"
