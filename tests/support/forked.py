"""Processes that are real, and there at once: forks of one that has imported `aijobs` and done nothing else.

For tests about many processes or about their death, not about how one starts. The process that is forked has
no other thread, no connection and no open file of ours.

All of them order sets alike: what might depend on that is for processes that start by themselves, as those of
`tests.chaos` do.
"""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from tests.support.command_line import ROOT, Result

_numbers = itertools.count(1)


def fork_context() -> ForkServerContext:
    """Starts processes as every context of `multiprocessing` does, with all modules loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.preloaded"])
    kept = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)  # Python 3.11 does not tell it where the parent looks for modules
    try:
        forkserver.ensure_running()
    finally:
        if kept is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = kept
    return context


class Forked:
    """One such process, with the methods of `subprocess.Popen`; what it says goes to files in its folder."""

    def __init__(
        self, begin: Callable[..., None], *args: Any, environ: Mapping[str, str], folder: Path
    ) -> None:
        number = next(_numbers)
        self._out, self._err = (folder / f"{what}-{number}.txt" for what in ("out", "err"))
        there = (begin, args, dict(environ), folder, self._out, self._err)
        self._process = fork_context().Process(target=_child, args=there, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """How it ended, if it has; minus the number of the signal that killed it."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; how it ended."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("aijobs", timeout or 0)
        return code

    def ended(self, timeout: float = 60) -> Result:
        """Wait for its end; what it said."""
        code = self.wait(timeout)
        return Result(code, self._out.read_text(), self._err.read_text())

    def complained(self) -> str:
        """What it has said on stderr so far."""
        return self._err.read_text() if self._err.exists() else ""

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self, *, after: float = 0) -> None:
        """Kill it when it is so many seconds old, unless it has ended by then."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(after)
        self.send_signal(signal.SIGKILL)
        self.wait()


def run_aijobs(*words: str) -> None:
    """`aijobs WORDS...` from its entry point, to the end of this process."""
    from aijobs.cli.main import main

    sys.argv = ["aijobs", *words]
    main()


def _child(
    begin: Callable[..., None],
    args: tuple[Any, ...],
    environ: dict[str, str],
    folder: Path,
    out: Path,
    err: Path,
) -> None:
    for number, path in ((1, out), (2, err)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    begin(*args)
