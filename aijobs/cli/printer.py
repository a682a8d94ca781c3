"""The one place that writes: data to stdout, talk to stderr; JSON and tables from the same values."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, TextIO

from aijobs.cli.plain import (
    Line,
    Tone,
    aligned,
    cell,
    clean,
    clean_lines,
    folded,
    hung,
    named,
    to_json,
    width,
)
from aijobs.cli.progress import Bar, Lines, Progress, Silent, bar
from aijobs.core.clock import Clock
from aijobs.core.errors import AijobsError, ConfigError, UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text


class Verbosity(IntEnum):
    """How much talk is wanted on stderr; errors and warnings are always said."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Printer:
    """Writes to the streams it was made with.

    *json* says whether data is wanted as JSON. A command gives one document and one way to put it in words:
    `printer.emit(document, plain)`.
    """

    def __init__(
        self,
        *,
        json: bool,
        verbosity: Verbosity,
        clock: Clock,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.json = json
        self.verbosity = verbosity
        self._clock = clock
        self._in = stdin or sys.stdin
        self._out = stdout or sys.stdout
        self._err = stderr or sys.stderr
        self._environ = environ
        self._bar: Bar | None = None

    # --- Data -------------------------------------------------------------------------------------

    def emit(self, document: Mapping[str, object], plain: Callable[[], object]) -> None:
        """Print *document* with --json, else call *plain*, which prints the same in words."""
        if self.json:
            self.document(document)
        else:
            plain()

    def document(self, value: Mapping[str, object]) -> None:
        """One JSON document: indented on a terminal, on one line elsewhere."""
        self._write(
            to_json(value, indent=2 if self._is_terminal(self._out) else None, ascii_only=not self._unicode)
        )

    def record(self, value: Mapping[str, object]) -> None:
        """One JSON object of a stream, always on one line."""
        self._write(to_json(value, ascii_only=not self._unicode))

    def emit_record(self, document: Mapping[str, object], plain: Callable[[], object]) -> None:
        """As `emit`, for the last object of a stream: always on one line."""
        if self.json:
            self.record(document)
        else:
            plain()

    def screen(self, document: Mapping[str, object], plain: Callable[[], object]) -> None:
        """One picture of something watched: in place of the last one on a terminal, below it elsewhere."""
        if not self.json and self._is_terminal(self._out):
            self._out.write("\x1b[H\x1b[2J")
        self.emit_record(document, plain)
        if not self.json and not self._is_terminal(self._out):
            self._write("")
        self.flush()

    @contextmanager
    def live(self) -> Iterator["Screen"]:
        """The whole terminal for a picture of lines that is drawn again and again, cut to what it holds.

        Raises UsageError when there is no terminal.
        """
        if not self._is_terminal(self._out):
            raise UsageError("this draws on a terminal, and there is none", hint="aijobs stats shows it once")
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._out, markup=False, highlight=False, emoji=False)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield Screen(console, live)

    def section(self, title: str, what: object = None) -> None:
        """The heading of a part of a longer answer, with a word on it."""
        self._write(f"\n{title}" + ("" if what is None else f" ({clean(str(what))})"))

    def line(self, text: str) -> None:
        """One line of data."""
        self._write(clean(text))

    def sentence(self, text: str, *, hang: int = 0) -> None:
        """One line for a person. In a narrow room it goes on below, *hang* cells to the right."""
        self._write(hung(clean(text), hang, self._room))

    def body(self, text: str, *, indent: str = "") -> None:
        """A text of many lines (a result, a schema), each line cleaned."""
        self._write("\n".join(indent + line for line in clean_lines(text)))

    def raw(self, text: str) -> None:
        """Our own text, which holds no data (a generated file); written byte for byte."""
        with written():
            self._out.write(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
        """A table: drawn on a terminal that is wide enough, folded on a narrow one, plain text elsewhere.

        Elsewhere it is as wide as it is, unless COLUMNS says how wide it may be. *empty* is said of none.
        """
        cells = [[cell(value) for value in row] for row in rows]
        if not cells:
            if empty:
                self.say(empty)
            return
        lines, room = aligned(columns, cells), self._room
        if room is not None and max(map(width, lines)) > room:
            self._write("\n".join(folded(columns, cells, room)))
        elif self._is_terminal(self._out):
            self._draw(columns, cells)
        else:
            self._write("\n".join(lines))

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Names and values of one thing, one a line."""
        self._write("\n".join(named([(name, cell(value)) for name, value in pairs], self._room)))

    def flush(self) -> None:
        """Let whoever reads our output have what is printed so far; a long command says it is ready."""
        with written():
            self._out.flush()

    # --- Talk -------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Talk that -q silences."""
        if self.verbosity >= Verbosity.NORMAL:
            self._talk(text)

    def detail(self, text: str) -> None:
        """Talk that only -v asks for."""
        if self.verbosity >= Verbosity.VERBOSE:
            self._talk(text)

    def log_line(self, line: str) -> None:
        """A line of a log that has cleaned and levelled it already."""
        self._err.write(line + "\n")
        self._err.flush()

    def warn(self, text: str) -> None:
        """Something is not as it should be, and we go on."""
        self._complain("warning: ", text)

    def error(self, error: AijobsError) -> None:
        """A failure: in words on stderr, and as a JSON document on stdout when that was asked for."""
        if self.json:
            self.record({**error.account, "error": error_document(error)})
        for line in error.message.split("\n"):
            self._complain("error: ", line)
        if error.hint:
            self._complain("hint: ", error.hint)

    @contextmanager
    def progress(self, what: str, *, total: int | None = None) -> Iterator[Progress]:
        """Report the steps of long work, whose number is *total* when known."""
        if self.verbosity is Verbosity.QUIET:
            yield Silent()
        elif self._is_terminal(self._err) and not (self.json and self._is_terminal(self._out)):
            with bar(what, total=total, stream=self._err) as drawn:
                self._bar = drawn
                try:
                    yield drawn
                finally:
                    self._bar = None
        else:
            yield Lines(what, total=total, stream=self._err, clock=self._clock)

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Whether to go on: *yes* was given, or a person agrees. UsageError when there is nobody to ask."""
        if yes:
            return True
        if not self._in.isatty():
            raise UsageError(
                f"{question} There is no terminal to ask on.",
                hint="--yes answers, --preview shows what would happen",
            )
        self._err.write(f"{clean(question)} [y/N] ")
        self._err.flush()
        agreed = self._in.readline().strip().lower() in ("y", "yes")
        if not agreed:
            self.say("nothing was changed")
        return agreed

    # --- Private ----------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        with written():
            self._out.write(text + "\n")

    def _talk(self, text: str) -> None:
        self._say(clean(text))

    def _complain(self, begin: str, text: str) -> None:
        self._say(hung(clean(begin + text), len(begin), self._room_to_talk))

    def _say(self, cleaned: str) -> None:
        self.flush()
        if self._bar is not None:
            self._bar.say(cleaned)
            return
        self._err.write(cleaned + "\n")
        self._err.flush()

    def _is_terminal(self, stream: TextIO) -> bool:
        return stream.isatty() and self._environ.get("TERM") != "dumb"

    @property
    def _unicode(self) -> bool:
        return (self._out.encoding or "utf-8").lower().replace("-", "").startswith("utf")

    @property
    def _room(self) -> int | None:
        """How many cells a line may have; None: as many as it needs."""
        if self._is_terminal(self._out):
            from rich.console import Console

            return Console(file=self._out).width
        return self._columns

    @property
    def _room_to_talk(self) -> int | None:
        """The same of a complaint. It is folded on a terminal only: scripts look for what is on one line."""
        if self._bar is not None or not self._is_terminal(self._err):
            return None
        try:
            return self._columns or os.get_terminal_size(self._err.fileno()).columns or None
        except OSError:  # a terminal that has no size
            return None

    @property
    def _columns(self) -> int | None:
        said = self._environ.get("COLUMNS", "")
        return int(said) or None if said.isdecimal() else None

    def _draw(self, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console(file=self._out, markup=False, highlight=False, emoji=False)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for name in columns:
            table.add_column(name, no_wrap=True)
        for row in cells:
            table.add_row(*map(Text, row))
        console.print(table)


class Screen:
    """A terminal that is drawn upon as a whole."""

    def __init__(self, console: "Console", live: "Live") -> None:
        self._console = console
        self._live = live

    @property
    def height(self) -> int:
        """How many lines it holds now."""
        return self._console.height

    def draw(self, lines: Sequence[Line]) -> None:
        """Replace what it shows."""
        self._live.update(painted(lines[: self.height]), refresh=True)


_STYLES = {Tone.PLAIN: "", Tone.HEADING: "bold", Tone.QUIET: "dim", Tone.WARNING: "yellow", Tone.BAD: "red"}


def painted(lines: Sequence[Line]) -> "Text":
    """Lines in their colours, each cut where the terminal ends."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ellipsis")
    for number, line in enumerate(lines):
        text.append("\n" * bool(number) + clean(line.text), style=_STYLES[line.tone])
    return text


class UnwritableError(AijobsError):
    """Standard output takes nothing more: a full disk behind it, mostly."""

    kind = "output"


@contextmanager
def written() -> Iterator[None]:
    """Make of an output that fails one clear error, and let what is still to come go nowhere.

    Raises UnwritableError. A pipe that nobody reads any more is no fault, and stays BrokenPipeError.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        raise UnwritableError(
            f"cannot write to standard output: {why}",
            hint="what was to be done may be done: look before again",
        ) from None


def discard_output() -> None:
    """Let all further output, the interpreter's last flush too, go nowhere instead of failing."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def error_document(error: AijobsError) -> dict[str, object]:
    """The JSON of a failure; a configuration error also lists its faults."""
    document: dict[str, object] = {"kind": error.kind, "message": error.message, "hint": error.hint}
    if isinstance(error, ConfigError):
        document["faults"] = [
            {
                "file": f.file,
                "line": f.line,
                "column": f.column,
                "path": f.path,
                "message": f.message,
                "hint": f.hint,
            }
            for f in error.faults
        ]
    return document
