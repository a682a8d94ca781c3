"""Writes migration 0001 as a copy of the tables: `python -m tests.support.first_migration`.

For use until the first release only. A released migration is never changed: what changes after it goes into
the next number, and this module goes away.
"""

import subprocess
import sys
from pathlib import Path

from aijobs.store import tables
from aijobs.store.migrations import FOLDER

TARGET = FOLDER / "v0001"

_INIT = '''\
"""The tables of version 0001: a copy, so that no later change of `store/tables` reaches back into it."""

from aijobs.store.migrations.v0001 import aftermath, operation, work
from aijobs.store.migrations.v0001.columns import metadata

__all__ = ["aftermath", "metadata", "operation", "work"]
'''
_COLUMNS = '''\
"""What the tables of version 0001 are made of."""

from typing import Any

from sqlalchemy import BigInteger, DateTime, Index, Integer, MetaData, Text

'''

_HELPERS = '''\
def partial_index(name: str, *columns: Any, where: Any, unique: bool = False) -> Index:
    """An index over the rows that *where* names, on both databases."""
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def storage(**parameters: float) -> dict[str, Any]:
    """How PostgreSQL keeps a table."""
    return {"postgresql_with": parameters}
'''


def _between(text: str, first: str, end: str | None = None) -> str:
    return text[text.index(first) : text.index(end) if end else None]


def render() -> dict[str, str]:
    """The text of each module, by its file name."""
    source = Path(tables.__file__).parent
    columns = (source / "columns.py").read_text()
    types = _between(columns, "Instant = ", "def partial_index").replace("IsoText()", "Text()") + _HELPERS
    columns = _COLUMNS + _between(columns, "metadata = ", "def to_text") + types
    files = {"__init__.py": _INIT, "columns.py": columns}
    for name in ("aftermath.py", "operation.py", "work.py"):
        text = (source / name).read_text()
        text = text.replace("aijobs.store.tables", "aijobs.store.migrations.v0001")
        files[name] = text.partition("schema_version = Table(")[0].rstrip() + "\n"
    return files


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for name, text in render().items():
        (TARGET / name).write_text(text)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", TARGET], check=True)
    subprocess.run([sys.executable, "-m", "tests.support.old_stores"], check=True)
