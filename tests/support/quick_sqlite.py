"""SQLite that does not wait for the disk: in tests the processes die, and never the machine."""

from aijobs.store import sqlite

DURABLE = sqlite._PRAGMAS
_QUICK = DURABLE.replace("synchronous=FULL", "synchronous=OFF")


def be_quick() -> None:
    """From now on in this process, and in all that is forked from it."""
    sqlite._PRAGMAS = _QUICK
