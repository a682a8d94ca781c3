"""One command line, run: the place where an error becomes a message, a hint, JSON and an exit code."""

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

import typer

from aijobs.cli.app import build
from aijobs.cli.context import Context
from aijobs.cli.printer import UnwritableError, discard_output, written
from aijobs.core.clock import Chance, Clock
from aijobs.core.errors import AijobsError, Interrupted, UsageError

BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended: nobody reads our output any more."""


_PLAINER = {
    ": Value error, ": ": ",
    "Input should be a valid integer, unable to parse string as an integer": "must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "must be a number",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
}
"""What the library that converts values says, and what we say instead."""


class UnexpectedError(AijobsError):
    """Something nobody foresaw. An exception's text may hold a job's input: only type and place are said."""

    kind = "internal"


def run(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
    chance: Chance | None = None,
) -> int:
    """Run one command line and return its exit code."""
    _open_streams()
    context = Context(environ=environ, clock=clock, chance=chance)
    try:
        code = _run(list(argv), context)
        with written():
            sys.stdout.flush()
    except UnwritableError as error:
        return _report(error, argv, context)
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    return code


def _open_streams() -> None:
    """Give the program the standard streams that its caller has closed: empty ones, which nobody reads.

    And a buffer to those that Python opened without one (PYTHONUNBUFFERED): its text layer drops what a short
    write has left over, without a word. They are flushed at the end of each line instead.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # kept open
        elif isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            setattr(sys, name, _buffered(stream))


def _buffered(stream: TextIO) -> TextIO:
    """The same, on the same descriptor, with a buffer under it."""
    raw = io.FileIO(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True
    )


def _run(argv: list[str], context: Context) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A letter the terminal lacks must not end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _invoke(argv, context)
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, typer.Abort):  # the other is Ctrl-C, or Ctrl-D, at a question
        return _report(Interrupted("interrupted"), argv, context)
    except AijobsError as error:
        return _report(error, argv, context)
    except typer.TyperException as error:
        return _report(_usage(error), argv, context)
    except Exception as error:
        return _report_bug(error, argv, context)
    finally:
        context.close()


def _invoke(argv: list[str], context: Context) -> int:
    program = build()
    if "_AIJOBS_COMPLETE" in context.environ:
        program.main(argv, prog_name="aijobs", obj=context)  # prints completions and exits
    try:
        with program.make_context("aijobs", argv, obj=context) as ctx:
            return int(program.invoke(ctx) or 0)
    except typer.Exit as end:  # --help and --version
        return end.exit_code


def _usage(error: typer.TyperException) -> AijobsError:
    """A fault in the words of the command line, with what was probably meant."""
    command = getattr(getattr(error, "ctx", None), "command_path", "aijobs")
    guesses = getattr(error, "possibilities", None) or ()
    message = str(getattr(error, "message", "")) if guesses else error.format_message().rstrip(".")
    alike = [name for name in guesses if name != "--help"] or _choices_like(message)
    hint = f"did you mean {' or '.join(alike)}?" if alike else f"{command} --help"
    for theirs, ours in _PLAINER.items():
        message = message.replace(theirs, ours)
    return UsageError(message, hint=hint)


def _choices_like(message: str) -> list[str]:
    """What *message*, if it is about a value that is none of some choices, says was probably meant."""
    found = re.search(r"'(?P<given>[^']*)' is not one of (?P<choices>'.*')", message)
    if found is None:
        return []
    from aijobs.core.settings import closest  # loads the library of settings: only when something is wrong

    near = closest(found["given"], found["choices"].strip("'").split("', '"))
    return [near] if near else []


def _report(error: AijobsError, argv: Sequence[str], context: Context) -> int:
    if "--json" in argv:  # the fault may lie before it was parsed
        context.flags["json"] = True
    context.printer.error(error)
    return error.exit_code


def _report_bug(error: Exception, argv: Sequence[str], context: Context) -> int:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    last = next((one for one in reversed(frames) if not one.filename.startswith("<")), frames[-1])
    where = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119
    if context.flags.get("verbose") or not {"-v", "--verbose"}.isdisjoint(argv):
        from aijobs.core.redaction import redact

        for line in "".join(traceback.format_exception(error)).splitlines():
            indent = " " * (len(line) - len(line.lstrip()))
            print(indent + redact(line), file=sys.stderr)
    hint = "this is a bug in aijobs; -v shows where it comes from"
    return _report(UnexpectedError(f"unexpected {type(error).__name__} at {where}", hint=hint), argv, context)
