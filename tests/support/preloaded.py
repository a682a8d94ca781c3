"""What the processes of `tests.support.forked` find loaded: all of `aijobs`, half a second of imports."""

import gc
import importlib
import pkgutil

import psycopg  # noqa: F401  # the store of PostgreSQL imports it late
import pytest  # noqa: F401  # a child imports the program that its parent is
import sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite  # noqa: F401

import aijobs
import tests.support.crash_runs
import tests.support.crashing  # noqa: F401
from tests.support.quick_sqlite import be_quick

for _one in pkgutil.walk_packages(aijobs.__path__, "aijobs."):
    if "__main__" not in _one.name and ".migrations" not in _one.name:  # these do something when imported
        importlib.import_module(_one.name)
be_quick()
gc.freeze()  # a child's collections need not touch, and so copy, all this
