"""Text that is safe and aligned on any terminal: data can neither move the cursor nor reorder the line."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from itertools import zip_longest
from typing import Any, NamedTuple

# C0 and C1 controls, DEL, line and paragraph separators, every bidirectional control, zero-width and
# interlinear marks, the byte order mark, and lone surrogates (which no stream could encode).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_JSON_UNSAFE = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", ""))
_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f300-\U0003fffd"
)
# What begins no line: marks and colours of the character before it, and what closes a part of a sentence.
_BOUND = "[\u0300-\u036f\ufe0e\ufe0f\U0001f3fb-\U0001f3ff、。，．：；？！）］｝」』】〉》]"
# What a person copies: all between backquotes, or from `aijobs` on to the end of the clause.
_COMMAND = "`[^`]+`|(?<![\\w/.-])aijobs(?= )(?:'[^']*'|[^,;'`，。；：])+"
# A word or a command with the spaces behind it, or one wide character with what is joined to it.
_PIECE = f"[{_WIDE}]{_BOUND}*(?:\u200d.{_BOUND}*)* *|(?:{_COMMAND}|[^ {_WIDE}])+{_BOUND}* *| +"
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


class Tone(StrEnum):
    """How a line wants to be seen, where there are colours."""

    PLAIN = "plain"
    HEADING = "heading"
    QUIET = "quiet"
    WARNING = "warning"
    BAD = "bad"


class Line(NamedTuple):
    """A line of a picture."""

    text: str
    tone: Tone = Tone.PLAIN


def clean(text: str) -> str:
    """*text* on one line, with everything that would steer a terminal written out as an escape."""
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    return _ESCAPES.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def clean_lines(text: str) -> list[str]:
    """The lines of *text*, each of them clean; for bodies that people read (a revealed result)."""
    return [clean(line) for line in text.replace("\r\n", "\n").split("\n")]


def width(text: str) -> int:
    """How many terminal cells *text* takes: wide for CJK and emoji."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, cells: int) -> str:
    """*text* in at most *cells* terminal cells, with a `~` where it was cut."""
    if width(text) <= cells:
        return text
    while width(text) >= cells:
        text = text[:-1]
    return text + "~"


def pad(text: str, cells: int) -> str:
    """*text* filled with spaces to *cells* terminal cells."""
    return text + " " * (cells - width(text))


def instant(value: datetime) -> str:
    """ISO 8601, UTC, with a `Z`; microseconds only when there are any."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def cell(value: object) -> str:
    """One value as people read it: unknown is `-`, times end in Z to the second, data is cleaned."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return instant(value.astimezone(UTC).replace(microsecond=0))
        case timedelta():
            return duration(value)
        case Enum():
            return clean(str(value.value))
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(f"{clean(str(name))} {_inner(one)}" for name, one in value.items()) or "-"
        case list() | tuple():
            return ", ".join(map(_inner, value)) or "-"
        case _:
            return clean(str(value))


def _inner(value: object) -> str:
    """A value inside of another one."""
    return f"({cell(value)})" if isinstance(value, Mapping) else cell(value)


def duration(value: timedelta) -> str:
    """A rounded duration, two units at most: `1h5m`, `3.2s`."""
    seconds = value.total_seconds()
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 60:
        return f"{sign}{seconds:.3g}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{sign}{minutes}m{rest}s" if rest else f"{sign}{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{sign}{hours}h{minutes}m" if minutes else f"{sign}{hours}h"
    days, hours = divmod(hours, 24)
    return f"{sign}{days}d{hours}h" if hours else f"{sign}{days}d"


def aligned(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table without any drawing; the last column is never padded."""
    table = [list(columns), *(list(row) for row in rows)]
    widths = [max(map(width, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(pad, row, widths)).rstrip() for row in table]


def folded(columns: Sequence[str], rows: Iterable[Sequence[str]], room: int) -> list[str]:
    """The same table in *room* cells: what does not fit goes on below, under its own heading.

    A column that is wider than that by itself gets lines of its own, as many as it needs; what holds nothing
    gets none.
    """
    table = [list(columns), *(list(row) for row in rows)]
    most = max(room - 2, 1)
    widths = [min(max(map(width, column)), most) for column in zip(*table, strict=True)]
    parts = _parts(widths, room)
    return [
        "  " * bool(number) + line
        for row in table
        for number, (start, end) in enumerate(parts)
        if number == 0 or set(row[start:end]) != {"-"}
        for line in _side_by_side(row[start:end], widths[start:end])
    ]


def _side_by_side(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """A part of a row, each of its cells in as many lines as it needs."""
    columns = [
        wrapped(text, most) if width(text) > most else [text]
        for text, most in zip(cells, widths, strict=True)
    ]
    for texts in zip_longest(*columns, fillvalue=""):
        yield "  ".join(map(pad, texts, widths)).rstrip()


def wrapped(text: str, cells: int, *, first: int | None = None) -> list[str]:
    """*text* in lines of at most *cells* terminal cells, broken at spaces and beside wide characters.

    The first line may have *first* cells, if that is another number.
    A word that takes more by itself stays whole: it may be a name or an id, to be copied. So does a command.
    """
    lines, taken = [""], 0
    most = cells if first is None else first
    for piece in re.findall(_PIECE, text):  # few commands fold, so few compile it, which takes 3 ms
        if lines[-1] and taken + width(piece.rstrip()) > most:
            lines.append("")
            taken, most = 0, cells
        lines[-1] += piece
        taken += width(piece)
    return [line.rstrip() for line in lines]


def hung(text: str, hang: int, room: int | None) -> str:
    """*text* in lines of *room* cells, all but the first *hang* cells to the right; None: as it is."""
    if room is None or width(text) <= room:
        return text
    lines = wrapped(text, max(room - hang, 1), first=room)
    return f"\n{' ' * hang}".join(lines)


def named(pairs: Iterable[tuple[str, str]], room: int | None) -> list[str]:
    """Names and their values, one a line; in *room* cells a long value goes on below itself."""
    known = [(f"{name}:", value) for name, value in pairs]
    indent = max((width(name) + 1 for name, _ in known), default=0)
    lines = []
    for name, value in known:
        first, *rest = [value] if room is None else wrapped(value, max(room - indent, 1))
        if room is not None and width(first) > room - indent:  # a long word
            lines += [name, f"  {first}"]
        else:
            lines.append(f"{pad(name, indent)}{first}")
        lines += [" " * indent + line for line in rest]
    return lines


def _parts(widths: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Where a row is folded: spans of columns that fit side by side."""
    starts, taken = [0], 0
    for index, cells in enumerate(widths):
        indent = 2 * (len(starts) > 1)
        if index > starts[-1] and indent + taken + cells > room:
            starts.append(index)
            taken = 0
        taken += cells + 2
    return list(zip(starts, [*starts[1:], len(widths)], strict=True))


def to_json(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON text; characters that would steer a terminal become `\\u` escapes, other letters stay."""
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(
        value,
        ensure_ascii=ascii_only,
        indent=indent,
        separators=separators,
        default=_json_value,
        allow_nan=False,
    )
    # Outside of strings JSON text is ASCII, so whatever matches stands inside one.
    return text if text.isascii() else _JSON_UNSAFE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def _json_value(value: Any) -> object:
    match value:
        case datetime():
            return instant(value)
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return dict(value)
        case frozenset() | set():
            return sorted(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form here")
