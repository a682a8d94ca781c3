"""Where a job's input, or a file of jobs, is read from: the command line, a file, standard input."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from aijobs.cli.printer import Printer
from aijobs.core.errors import UsageError
from aijobs.core.payload import parse_object

if TYPE_CHECKING:
    from aijobs.core.settings import SizeLimits

_CHUNK = 1 << 20


def read_input(
    given: str | None, file: str | None, dash: str | None, *, limits: "SizeLimits", printer: Printer
) -> dict[str, object]:
    """The input of one job from whichever of the three was used; `{}` when none was.

    Raises UsageError for two of them or an unreadable file, InvalidInput for what is no JSON object.
    """
    if dash is not None and dash != "-":
        raise UsageError(f"unexpected argument {dash!r}", hint="the input goes into --input, or - reads it")
    if sum(source is not None for source in (given, file, dash)) > 1:
        raise UsageError("the input is given twice", hint="use one of --input, --input-file and -")
    bounds = {"max_bytes": limits.input_bytes, "max_depth": limits.input_depth}
    if given is not None:
        return parse_object(given, what="--input", **bounds)
    if file is None and dash is None:
        return {}
    with opened(file or "-", printer) as stream:
        # One byte more than is allowed tells a file that is too large from one that just fits.
        content = stream.read(limits.input_bytes + 1)
    return parse_object(content, what="standard input" if file in (None, "-") else str(file), **bounds)


def parse_line(line: bytes, *, max_bytes: int, max_depth: int) -> dict[str, object]:
    """The object in a line of JSON lines.

    Raises InvalidInput, naming the column only: the caller knows which line of which file it is.
    """
    return parse_object(line.rstrip(b"\r\n"), what=None, max_bytes=max_bytes, max_depth=max_depth)


@contextmanager
def opened(name: str, printer: Printer) -> Iterator[BinaryIO]:
    """The file *name*, or standard input for `-`. Raises UsageError when it cannot be read."""
    if name == "-":
        if sys.stdin.isatty():
            printer.say("reading from the terminal; Ctrl-D ends the input")
        yield sys.stdin.buffer
        return
    try:
        with Path(name).expanduser().open("rb") as stream:
            stream.read(0)
            yield stream
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None


def count_lines(name: str) -> int | None:
    """How many lines a regular file has; None for anything that can only be read once."""
    path = Path(name).expanduser()
    if name == "-" or not path.is_file():
        return None
    last = b"\n"
    count = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


def lines(stream: BinaryIO, limit: int) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, numbered from 1; of a longer one, the first *limit* + 1 bytes."""
    number = 0
    while line := stream.readline(limit + 1):
        number += 1
        rest = line
        while len(rest) > limit and not rest.endswith(
            b"\n"
        ):  # too long: the remainder is not a line of its own
            rest = stream.readline(limit + 1)
        if not line.isspace():
            yield number, line
