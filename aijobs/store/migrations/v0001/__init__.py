"""The tables of version 0001: a copy, so that no later change of `store/tables` reaches back into it."""

from aijobs.store.migrations.v0001 import aftermath, operation, work
from aijobs.store.migrations.v0001.columns import metadata

__all__ = ["aftermath", "metadata", "operation", "work"]
