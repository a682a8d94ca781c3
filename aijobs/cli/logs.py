"""The log of a command that runs on and on: lines on stderr, as many as -v or -q asks for."""

import logging
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.printer import Printer, Verbosity

if TYPE_CHECKING:
    from aijobs.core.clock import Clock
    from aijobs.core.log_events import Log


class LogFormat(StrEnum):
    """How events are written."""

    TEXT = "text"
    JSON = "json"


LogLines = Annotated[
    LogFormat, typer.Option("--log-format", metavar="FORMAT", help="text or json, one line an event.")
]


def line_log(printer: Printer, *, clock: "Clock", as_json: bool) -> "Log":
    """Where the events of a command go: lines of *printer*, at the time of *clock*."""
    from aijobs.core.log_events import Level
    from aijobs.services.log_lines import LineLog

    levels = {
        Verbosity.QUIET: Level.WARNING,
        Verbosity.NORMAL: Level.INFO,
        Verbosity.VERBOSE: Level.DETAIL,
    }
    level = levels[printer.verbosity]
    log = LineLog(printer.log_line, clock=clock, level=level, as_json=as_json)
    _take_in_the_store(log)
    return log


class _StoreSays(logging.Handler):
    """Warnings of the store, as events like all others: a log of JSON lines has no other lines."""

    def __init__(self, log: "Log") -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Pass it on."""
        from aijobs.core.log_events import LogEvent

        self._log.emit(LogEvent.STORE_WARNING, text=record.getMessage())


def _take_in_the_store(log: "Log") -> None:
    logger = logging.getLogger("aijobs.store")
    for handler in [one for one in logger.handlers if isinstance(one, _StoreSays)]:
        logger.removeHandler(handler)  # of an earlier command in this process
    logger.addHandler(_StoreSays(log))
