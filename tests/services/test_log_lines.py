"""Events become lines, whatever their fields hold."""

import json
from datetime import timedelta

import pytest

from aijobs.core.log_events import LEVELS, Level, LogEvent, Unheard, level_of
from aijobs.services.log_lines import FIELDS, LineLog, json_line, text_line
from tests.support.clock import START, ManualClock

HOSTILE = "x\nINFO job 7 completed \x1b[2J \u202egnp.exe \x00"


def log_to(lines: list[str], *, level: Level = Level.DETAIL, as_json: bool = False) -> LineLog:
    return LineLog(lines.append, clock=ManualClock(), level=level, as_json=as_json)


def test_a_text_line_has_time_level_and_words() -> None:
    lines: list[str] = []

    log_to(lines).emit(LogEvent.JOB_SUCCEEDED, job="j1", type="t", attempt=1, seconds=timedelta(seconds=1.5))

    assert lines == ["2026-01-01T00:00:00.000Z DETAIL  job j1 (t) succeeded in 1s500ms"]


def test_a_json_line_names_the_event_and_its_fields() -> None:
    lines: list[str] = []

    log_to(lines, as_json=True).emit(LogEvent.STORE_BACK, seconds=timedelta(seconds=2), error=None)

    assert json.loads(lines[0]) == {
        "at": "2026-01-01T00:00:00.000Z", "level": "warning", "event": "store_back", "seconds": 2.0,
        "error": None,
    }  # fmt: skip


@pytest.mark.parametrize("as_json", [False, True])
def test_hostile_text_stays_on_its_line(as_json: bool) -> None:
    lines: list[str] = []

    log_to(lines, as_json=as_json).emit(LogEvent.STORE_LOST, error=HOSTILE + "y" * 1_000_000)

    (line,) = lines
    assert not any(mark in line for mark in ("\n", "\r", "\x1b", "\u202e", "\x00", "\\u001b"))
    assert len(line) < 2_000


@pytest.mark.parametrize("event", list(LogEvent))
def test_no_field_takes_the_place_of_what_every_line_says(event: LogEvent) -> None:
    line = json.loads(json_line(event, {"at": "x", "level": "x", "event": "x", "job": "j1"}, START))

    assert not FIELDS[event] & {"at", "level", "event"}
    assert (line["at"], line["event"], line["job"]) == ("2026-01-01T00:00:00.000Z", event.value, "j1")


def test_chinese_and_emoji_are_left_alone() -> None:
    lines: list[str] = []

    log_to(lines, as_json=True).emit(LogEvent.STORE_LOST, error="数据库 🙂")

    assert "数据库 🙂" in lines[0]


def test_events_below_the_level_are_not_written_and_not_wanted() -> None:
    lines: list[str] = []
    log = log_to(lines, level=Level.WARNING)

    log.emit(LogEvent.JOB_SUCCEEDED, job="j1", type="t", seconds=None)

    assert lines == []
    assert not log.wants(LogEvent.JOB_SUCCEEDED)
    assert log.wants(LogEvent.JOB_RETRY)


@pytest.mark.parametrize("event", list(LogEvent))
def test_every_event_has_words_for_exactly_the_fields_it_needs(event: LogEvent) -> None:
    line = text_line(event, dict.fromkeys(FIELDS[event], "x"), START)

    assert line.startswith(f"2026-01-01T00:00:00.000Z {level_of(event).name}")


def test_a_field_that_is_missing_is_no_reason_to_lose_the_line() -> None:
    assert "job j1" in text_line(LogEvent.JOB_CANCELLED, {"job": "j1"}, START)


def test_levels_are_known_events_only() -> None:
    assert set(LEVELS) <= set(LogEvent)


def test_a_log_nobody_reads_wants_nothing() -> None:
    log = Unheard()

    log.emit(LogEvent.JOB_RETRY, job="j1")

    assert not log.wants(LogEvent.JOB_RETRY)
