"""The log of a command that runs on and on: lines on stderr, as many as -v or -q asks for."""

from enum import StrEnum
from typing import TYPE_CHECKING

from aijobs.cli.context import Context
from aijobs.cli.printer import Verbosity

if TYPE_CHECKING:
    from aijobs.core.log_events import Log


class LogFormat(StrEnum):
    """How events are written."""

    TEXT = "text"
    JSON = "json"


def line_log(context: Context, *, as_json: bool) -> "Log":
    """Where the events of this command go."""
    from aijobs.core.log_events import Level
    from aijobs.services.log_lines import LineLog

    levels = {
        Verbosity.QUIET: Level.WARNING,
        Verbosity.NORMAL: Level.INFO,
        Verbosity.VERBOSE: Level.DETAIL,
    }
    level = levels[context.printer.verbosity]
    return LineLog(context.printer.log_line, clock=context.clock, level=level, as_json=as_json)
