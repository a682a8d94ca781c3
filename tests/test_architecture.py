"""The rooms and what may pass between them, read from the source: a lazy import counts like any other."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "aijobs").rglob("*.py"))

ROOMS = {
    "core": {"core"},
    "store": {"core", "store"},
    "providers": {"core", "providers"},
    "services": {"core", "store", "providers", "services"},
    "http": {"core", "store", "providers", "services", "http"},
    "cli": {"core", "store", "providers", "services", "http", "cli"},
}
"""What each room may import."""

THIRD_PARTIES = {
    "sqlalchemy": ("store/",),
    "alembic": ("store/",),
    "psycopg": ("store/",),
    "tenacity": ("store/",),
    "httpx": ("providers/", "services/notifier"),
    "aiohttp": ("providers/", "services/notifier"),
    "typer": ("cli/",),
    "click": ("cli/",),
    "rich": ("cli/",),
    "croniter": ("core/cron.py",),
    "yaml": ("core/config",),
    "pydantic": ("core/settings", "core/config"),
    "jinja2": ("core/prompt.py",),
    "jsonschema": ("core/payload.py",),
    "starlette": ("http/",),
    "uvicorn": ("http/",),
    "yarl": ("providers/",),  # comes with aiohttp, which takes URLs as its objects
    "referencing": ("core/payload.py",),  # comes with jsonschema, which takes its registry
    "prometheus_client": ("services/", "http/"),
    "opentelemetry": ("services/otel.py", "services/otel_metrics.py"),
}
"""Where each library may be imported. One that is not here has no place yet: decide on one."""

PLACES = {
    "aijobs.store.moves": ("services/coordinator", "store/"),
    "aijobs.store.intake": ("services/coordinator", "store/"),
    "sqlite3": ("store/",),
    "asyncio": ("providers/", "services/worker", "http/"),
    "random": ("core/clock.py",),
    "secrets": ("core/clock.py",),
}
"""Modules with a place of their own: the writer of job status, the driver, the event loop, the dice."""

CLOCK = "core/clock.py"
_READS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
    | {"localtime", "gmtime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "uuid": {"uuid1", "uuid4", "uuid6", "uuid7"},
    "os": {"urandom", "getrandom"},
}
_STANDARD = sys.stdlib_module_names | {"__future__"}
_SQL = re.compile(
    r"\s*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(TABLE|INDEX)\s|PRAGMA\s)"
)


def faults(place: str, source: str) -> Iterator[str]:
    """What is wrong with the module at *place* (below `aijobs/`) with text *source*."""
    tree = ast.parse(source)
    docstrings = set(_docstrings(tree))
    for node in ast.walk(tree):
        for name in _imported(node):
            yield from _import_faults(place, name)
        if place != CLOCK and (read := _clock_read(node)):
            yield f"{place}:{getattr(node, 'lineno', 0)} reads {read}; take a Clock or a Chance"
        if not place.startswith("store/") and node not in docstrings and _is_sql(node):
            yield f"{place}:{getattr(node, 'lineno', 0)} holds a statement; SQL lives in store/"
        if isinstance(node, ast.ExceptHandler) and _swallows(node):
            yield f"{place}:{node.lineno} swallows every exception"


def _import_faults(place: str, name: str) -> Iterator[str]:
    top = name.partition(".")[0]
    for module, allowed in (THIRD_PARTIES | PLACES).items():
        if (name == module or name.startswith(f"{module}.")) and not place.startswith(allowed):
            yield f"{place} imports {name}; only {', '.join(allowed)} may"
    if top == "aijobs":
        room, target = place.partition("/")[0], [*name.split("."), ""][1]
        if room in ROOMS and target in ROOMS and target not in ROOMS[room]:
            yield f"{place} imports {name}: {room} may not know {target}"
    elif top not in _STANDARD and top not in THIRD_PARTIES:
        yield f"{place} imports {name}, which has no place in THIRD_PARTIES"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _clock_read(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        owner = node.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if node.attr in _READS.get(name, ()):
            return f"{name}.{node.attr}"
    if isinstance(node, ast.ImportFrom) and node.module in ("time", "uuid", "os"):
        for alias in node.names:
            if alias.name in _READS[node.module]:
                return f"{node.module}.{alias.name}"
    return None


def _needs() -> dict[str, set[str]]:
    """By module the modules it imports when it runs; what is imported for the types alone counts not.

    Nor does `aijobs` itself, which has the version and hands out `Jobs` to those who ask for it.
    """
    names = {_module(path): path for path in FILES}
    needs: dict[str, set[str]] = {}
    for module, path in names.items():
        tree = ast.parse(path.read_text())
        for_types = {one for node in ast.walk(tree) if _is_for_types(node) for one in ast.walk(node)}
        wanted = [name for node in ast.walk(tree) if node not in for_types for name in _imported(node)]
        found = (name if name in names else name.rpartition(".")[0] for name in wanted)
        needs[module] = {name for name in found if name in names} - {module, "aijobs"}
    return needs


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _is_sql(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_SQL.match(node.value))


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for child in getattr(node, "body", []) if isinstance(getattr(node, "body", None), list) else []:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                yield child.value


def _swallows(handler: ast.ExceptHandler) -> bool:
    name = getattr(handler.type, "id", "")
    broad = handler.type is None or name in ("Exception", "BaseException")
    return broad and all(isinstance(statement, ast.Pass) for statement in handler.body)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_keeps_to_its_room(path: Path) -> None:
    place = path.relative_to(ROOT / "aijobs").as_posix()

    assert list(faults(place, path.read_text())) == []


def test_no_modules_need_each_other() -> None:
    needs = _needs()

    assert len(list(TopologicalSorter(needs).static_order())) == len(needs)  # or CycleError names the circle


def test_there_is_something_to_check() -> None:
    assert {path.relative_to(ROOT / "aijobs").parts[0] for path in FILES} >= set(ROOMS)


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("core/x.py", "from aijobs.store.engine import Store"),
        ("core/x.py", "def f():\n    import aijobs.services.jobs"),
        ("store/x.py", "from aijobs.providers import contract"),
        ("providers/x.py", "from aijobs import store"),
        ("services/x.py", "if TYPE_CHECKING:\n    from aijobs.cli.app import App"),
        ("http/x.py", "import aijobs.cli"),
        ("services/x.py", "from sqlalchemy import select"),
        ("cli/x.py", "import psycopg.rows"),
        ("services/x.py", "import httpx"),
        ("core/x.py", "import typer"),
        ("core/x.py", "from croniter import croniter"),
        ("core/x.py", "import numpy"),
        ("services/sweeper.py", "from aijobs.store import jobs, moves"),
        ("cli/x.py", "import asyncio"),
        ("cli/x.py", "import sqlite3"),
        ("core/x.py", "from datetime import datetime\ndatetime.now()"),
        ("core/x.py", "import datetime\ndatetime.datetime.now(datetime.UTC)"),
        ("core/x.py", "import time\ntime.monotonic()"),
        ("core/x.py", "from time import perf_counter"),
        ("core/x.py", "import random"),
        ("core/x.py", "from secrets import token_hex"),
        ("core/x.py", "import uuid\nuuid.uuid4()"),
        ("services/x.py", "q = 'SELECT 1'"),
        ("services/x.py", "q = f'UPDATE jobs SET x = {y}'"),
        ("core/x.py", "try:\n    f()\nexcept Exception:\n    pass"),
    ],
)
def test_a_breach_is_found(place: str, source: str) -> None:
    assert list(faults(place, source)) != []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("store/x.py", '"""Docstring."""\nfrom sqlalchemy import text\nq = text("SELECT 1")'),
        ("services/x.py", '"""SELECT is what the store does."""\nfrom aijobs.store import jobs'),
        ("services/coordinator/x.py", "from aijobs.store import moves"),
        ("services/worker/x.py", "import asyncio"),
        ("core/clock.py", "import random\nimport time\ntime.time()"),
        ("core/x.py", "import time\ntime.sleep(0)\nclock.now()"),
        ("cli/x.py", "from aijobs.http import app\nimport typer\nmethod = 'DELETE'"),
    ],
)
def test_what_is_allowed_is_not_reported(place: str, source: str) -> None:
    assert list(faults(place, source)) == []


def test_every_library_we_require_has_a_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]]
    modules = {"pyyaml": "yaml", "prometheus-client": "prometheus_client", "tzdata": "tzdata"}

    required = {modules.get(name, name) for name in names} - {"tzdata"}  # data only, read by zoneinfo

    assert required - set(THIRD_PARTIES) == set()
