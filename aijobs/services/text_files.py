"""Text files that others read while we write."""

import os
import tempfile
from pathlib import Path

from aijobs.core.errors import UsageError


def write_atomically(path: Path, text: str) -> None:
    """Put *text* in place of what is at *path* in one step, readable for everybody. Raises UsageError.

    The new file is made beside the old one: only within one file system is the step atomic.
    """
    if path.is_dir():  # as the empty name is, too
        raise UsageError(f"cannot write {path}: it is a folder", hint="name a file")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        hint = "the folder has to be there, and to be writable"
        raise UsageError(f"cannot write to {path.parent}: {error.strerror}", hint=hint) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, 0o644)  # noqa: PTH101  # what reads it runs as somebody else
        os.replace(name, path)  # noqa: PTH105  # as mkstemp named it, a text
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
