"""The bytes of a configuration file, or of a secret's file, as text; or the one reason why not."""

import re
from pathlib import Path

from aijobs.core.errors import ConfigFault

LARGEST = 4 << 20
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


class UnreadableError(Exception):
    """The file cannot be used; *fault* says why."""

    def __init__(self, fault: ConfigFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def read_text(path: Path) -> str:
    """The file's text, without a byte order mark. Raises UnreadableError."""
    raw = read_bytes(path, most=LARGEST)
    if raw.startswith(_UTF16):
        raise _unreadable(path, "the file is UTF-16: save it as UTF-8")
    raw = raw.removeprefix(_BOM)
    if b"\0" in raw:
        raise _unreadable(path, "the file holds a NUL byte: this is no text file", raw, raw.index(b"\0"))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(path, "the file is not UTF-8", raw, error.start) from None
    strange = _CONTROL.search(text)
    if strange:
        before = text[: strange.start()].encode()
        message = f"a character that YAML does not allow (U+{ord(strange[0]):04X})"
        raise _unreadable(path, message, before, len(before))
    return text


def read_bytes(path: Path, *, most: int) -> bytes:
    """At most *most* bytes of *path*. Raises UnreadableError."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(most + 1)
    except FileNotFoundError:
        raise _unreadable(path, "no such file") from None
    except IsADirectoryError:
        raise _unreadable(path, "this is a directory") from None
    except PermissionError:
        raise _unreadable(path, "not allowed to read it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable file name"
        raise _unreadable(path, f"cannot be read: {reason}") from None
    if len(raw) > most:
        raise _unreadable(path, f"larger than {most} bytes")
    return raw


def _unreadable(path: Path, message: str, raw: bytes = b"", at: int | None = None) -> UnreadableError:
    if at is None:
        return UnreadableError(ConfigFault(str(path), 0, 0, "", message))
    line = raw.count(b"\n", 0, at) + 1
    start = raw.rfind(b"\n", 0, at) + 1
    column = len(raw[start:at].decode("utf-8", "replace")) + 1
    return UnreadableError(ConfigFault(str(path), line, column, "", message))
