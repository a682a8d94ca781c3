"""What the processes of `tests.support.forked` find loaded: all of `aijobs`, half a second of imports."""

import gc
import importlib
import pkgutil

import aijobs
from tests.support.quick_sqlite import be_quick

_OTHERS = (
    "psycopg",  # the store of PostgreSQL imports it late
    "pytest",  # a child imports the program that its parent is
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "tests.support.crash_runs",
    "tests.support.crashing",
)

for _name in _OTHERS:
    importlib.import_module(_name)
for _one in pkgutil.walk_packages(aijobs.__path__, "aijobs."):
    if "__main__" not in _one.name and ".migrations" not in _one.name:  # these do something when imported
        importlib.import_module(_one.name)
be_quick()
gc.freeze()  # a child's collections need not touch, and so copy, all this
