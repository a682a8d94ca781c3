"""Secrets are handed in by the environment or by a file of their own, never by the configuration itself."""

import re
from pathlib import Path

from aijobs.core.config.scalars import EnvironmentText
from aijobs.core.config.source import UnreadableError, read_bytes

FILE_PREFIX = "file:"
LARGEST = 64 << 10
"""Bytes of a secret's file."""
_CREDENTIAL = re.compile(r"authorization|cookie|token|secret|(api|access|auth)[-_]?key", re.IGNORECASE)


class Handover:
    """Tells a secret that was handed in from one that was typed into the file; paths start at *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def secret(self, value: object) -> str:
        """The secret that *value* leads to. ValueError for one that stands in the file itself."""
        if isinstance(value, EnvironmentText):
            return str(value)
        if isinstance(value, str) and value.startswith(FILE_PREFIX):
            return self._read(value.removeprefix(FILE_PREFIX))
        raise ValueError("a secret may only be given as ${NAME} or file:PATH, never in the file itself")

    def header(self, name: object, value: object) -> object:
        """The value of a request header; one that carries a credential is treated as a secret."""
        credential = isinstance(name, str) and bool(_CREDENTIAL.search(name))
        is_path = isinstance(value, str) and value.startswith(FILE_PREFIX)
        if credential or is_path:
            try:
                return self.secret(value).strip()
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return str(value) if isinstance(value, str) else value

    def _read(self, name: str) -> str:
        path = Path(name).expanduser()
        try:
            return read_bytes(self.folder / path, most=LARGEST).decode("utf-8")
        except UnreadableError as error:
            raise ValueError(f"the secret's file {name}: {error.fault.message}") from None
        except UnicodeDecodeError:
            raise ValueError(f"the secret's file {name}: not UTF-8") from None
