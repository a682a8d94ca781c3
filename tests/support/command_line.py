"""Run the command line inside the test's process, with streams of its own, and look at what it said."""

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aijobs.cli.app import build
from aijobs.cli.context import Context
from aijobs.cli.program import run
from aijobs.core.clock import Clock

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Result:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def records(self) -> list[Any]:
        """The JSON objects on stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class _Stream(io.TextIOWrapper):
    """A stream that may claim to be a terminal."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`aijobs`, ready to be called with its arguments."""

    database: str | None
    clock: Clock | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    columns: int | None = None

    def __call__(
        self,
        *args: str,
        stdin: str | bytes = b"",
        environ: Mapping[str, str] | None = None,
        terminal: bool = False,
        database: str | None = None,
    ) -> Result:
        """Run `aijobs ARGS...`; with *terminal*, all three streams say they are one.

        It is `columns` wide, else 100; without a terminal only `columns` says how wide it may be.
        """
        surroundings = {"AIJOBS_ACTOR": "tester", "TERM": "xterm", **self.environ, **(environ or {})}
        if self.columns is not None:
            surroundings["COLUMNS"] = str(self.columns)
        url = database or self.database
        if url is not None:
            surroundings.setdefault("AIJOBS_DATABASE", url)
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with _streams(data, terminal=terminal) as (out, err), _columns(self.columns or 100):
            code = run(args, environ=surroundings, clock=self.clock)
            out.flush()
            err.flush()
            return Result(code, _text(out), _text(err))

    def process(self, *args: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None) -> Result:
        """The same in a process of its own, by the machine's clock."""
        done = subprocess.run(
            command(*args), input=stdin, env=self.process_environ(environ), capture_output=True, check=False
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def process_environ(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of such a process."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        named = {"AIJOBS_DATABASE": self.database} if self.database else {}
        return {**kept, "PYTHONPATH": str(ROOT), "AIJOBS_ACTOR": "tester", **named, **(environ or {})}


def command(*args: str) -> list[str]:
    """The words that start `aijobs ARGS...` with this Python."""
    return [sys.executable, "-m", "aijobs", *args]


def parse(typed: str) -> None:
    """Read the line *typed* as the program would, without carrying it out; raises what a wrong one would."""
    program, *words = shlex.split(typed)
    assert program == "aijobs"
    group: Any = build()
    while words and words[0] in ("--config", "--database"):  # they may stand before the command, too
        del words[:2]
    while words and words[0] in getattr(group, "entries", {}):
        group = group.commands[words.pop(0)]
    alone = not getattr(group, "entries", {}) or group.invoke_without_command
    assert alone, f"{typed}: no such command"
    group.make_context("aijobs", words, obj=Context(environ={}))


@contextmanager
def _streams(stdin: bytes, *, terminal: bool) -> Iterator[tuple[_Stream, _Stream]]:
    kept = sys.stdin, sys.stdout, sys.stderr
    streams = [_Stream(io.BytesIO(data), encoding="utf-8", write_through=True) for data in (stdin, b"", b"")]
    for stream in streams:
        stream.terminal = terminal
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield streams[1], streams[2]
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept


@contextmanager
def _columns(count: int) -> Iterator[None]:
    """rich and typer read the width from the process's environment."""
    kept = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(count)
    try:
        yield
    finally:
        if kept is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = kept


def _text(stream: _Stream) -> str:
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()
