"""What a worker makes of the signals it is sent."""

import os

import pytest

from aijobs.services.worker.signals import ECHO_SECONDS, Signals
from tests.support.clock import ManualClock


class Told:
    """A worker that notes its orders."""

    grace_seconds = leave_seconds = 60.0

    def __init__(self) -> None:
        self.orders: list[str] = []

    def stop(self, why: str) -> None:
        self.orders.append(f"stop {why}")

    def stop_now(self, why: str) -> None:
        self.orders.append(f"stop now {why}")

    def reload(self, why: str) -> None:
        self.orders.append(f"reload {why}")

    def release(self) -> bool:
        raise AssertionError("there was time left")


def orders(*sent: tuple[float, str]) -> list[str]:
    """What is ordered by signals, each sent so many seconds after the one before."""
    clock, told = ManualClock(), Told()
    signals = Signals(told, clock=clock)
    for pause, name in sent:
        clock.advance(seconds=pause)
        signals._obey(name)
    signals.__exit__(None, None, None)  # never entered: it catches nothing here, and only lets its sockets go
    return told.orders


def test_a_signal_that_is_sent_to_the_process_and_to_its_group_is_one_order() -> None:
    assert orders((0, "SIGTERM"), (ECHO_SECONDS / 2, "SIGTERM")) == ["stop SIGTERM"]


def test_a_key_that_is_held_down_is_a_second_order_after_a_moment() -> None:
    presses = [(ECHO_SECONDS / 3, "SIGINT")] * 6

    assert orders(*presses) == ["stop SIGINT", "stop now SIGINT"]


def test_another_signal_is_a_second_order_at_once() -> None:
    assert orders((0, "SIGINT"), (0, "SIGTERM")) == ["stop SIGINT", "stop now SIGTERM"]


@pytest.mark.parametrize(
    ("signals", "saved", "code"),
    [(["SIGTERM"], True, 0), (["SIGTERM", "SIGINT"], True, 130), (["SIGTERM"], False, 5)],
)
def test_whoever_leaves_a_blocked_event_loop_says_whether_all_is_saved(
    signals: list[str], saved: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", lambda code: codes.append(code))
    told = Told()
    told.release = lambda: saved  # type: ignore[method-assign]
    heeded = Signals(told, clock=ManualClock())
    for name in signals:
        heeded._obey(name)

    heeded._leave_anyway()
    heeded.__exit__(None, None, None)

    assert codes == [code]
