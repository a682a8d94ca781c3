"""Mutants: one small change to a module of `core/` at a time, and whether its tests notice.

`python -m tests.mutation [MODULE…] [--every N] [--jobs N]` copies what is needed, changes a comparison, an
operator, a number, a truth or a negation in the copy, runs the tests of the module, and lists the changes
that went unnoticed. Such a line is either without a test, or the change makes no difference; a person has to
say which.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
TESTS = {
    "answers": ("test_answers.py",),
    "breaker": ("test_breaker.py",),
    "classifier": ("test_classifier.py", "test_classifier_tables.py"),
    "hints": ("test_hints.py",),
    "limits": ("test_limits.py",),
    "rates": ("test_rates.py",),
    "retry": ("test_retry.py",),
    "retry_budget": ("test_retry_budget.py",),
    "usage": ("test_usage.py",),
}
"""The tests in `tests/core` that answer for each module."""

LONGEST = 120
"""Seconds after which a mutant counts as noticed: it made something go on for ever."""

_OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed source, and where and what the change is."""

    source: str
    line: int
    change: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of *source*, in the order of its syntax tree."""
    count = sum(1 for _ in _places(ast.parse(source)))
    for index in range(count):
        tree = ast.parse(source)
        node, which = list(_places(tree))[index]
        before = ast.unparse(node)
        _change(node, which)
        yield Mutant(ast.unparse(tree), node.lineno, f"{before}  ->  {ast.unparse(node)}")


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.AugAssign, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=ops):
                yield from ((node, index) for index, op in enumerate(ops) if type(op) in _OTHER)
            case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in _OTHER:
                yield node, 0
            case ast.Constant(value=bool() | int() | float()) | ast.UnaryOp(op=ast.Not()):
                yield node, 0


def _change(node: ast.expr | ast.AugAssign, which: int) -> None:
    match node:
        case ast.Compare():
            node.ops[which] = _OTHER[type(node.ops[which])]()
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign():
            node.op = _OTHER[type(node.op)]()
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1
        case ast.UnaryOp():
            node.operand = ast.UnaryOp(ast.Not(), node.operand)


class Yard:
    """Copies of the tree, one a worker, in which mutants are let loose."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = folder / str(number)
            for name in ("aijobs", "tests"):
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            for name in ("pyproject.toml", "config.example.yaml"):
                shutil.copy(ROOT / name, copy / name)
            self._free.put(copy)

    def passes(self, module: str, source: str) -> bool:
        """Whether the tests of *module* pass with *source* in its place."""
        copy = self._free.get()
        path = copy / "aijobs" / "core" / f"{module}.py"
        own = path.read_text()
        tests = [f"tests/core/{name}" for name in TESTS[module]]
        environ = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            path.write_text(source)
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
            done = subprocess.run(
                command, cwd=copy, env=environ, capture_output=True, check=False, timeout=LONGEST
            )
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            path.write_text(own)
            self._free.put(copy)


def main() -> int:
    """Run, print the table and the mutants left alive; 1 when a module fails its tests as it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(TESTS), metavar="MODULE")
    parser.add_argument("--every", type=int, default=1, help="try only every Nth mutant")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        yard = Yard(Path(folder), options.jobs)
        for module in options.modules:
            source = (ROOT / "aijobs" / "core" / f"{module}.py").read_text()
            if not yard.passes(module, source):
                print(f"{module}: its tests fail without any change")
                return 1
            tried = list(mutants(source))[:: options.every]
            passed = pool.map(lambda one, module=module: yard.passes(module, one.source), tried)
            alive = [one for one, lives in zip(tried, passed, strict=True) if lives]
            print(f"{module}: {len(tried)} mutants, {len(alive)} not noticed", flush=True)
            for one in alive:
                print(f"  {module}.py:{one.line}  {one.change}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
