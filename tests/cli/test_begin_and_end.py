"""The first and the last moment of the program: signals while it starts, and threads that will not end."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from aijobs.cli import early_signals
from aijobs.cli.options import global_parameters
from tests.support.command_line import ROOT

SIGNALLED_AT_ITS_FIRST_IMPORT = """
import os, signal, sys

class Caller:
    def find_spec(self, name, path=None, target=None):
        if name == "aijobs.cli.program":
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Caller())
from aijobs.cli.main import main
main()
"""

WITH_A_THREAD_THAT_HANGS = """
import atexit, sys, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
atexit.register(print, "what was registered is done")
from aijobs.cli.main import main
main()
"""


def program(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", text, *words], env=environ, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(("command", "code"), [("worker", 0), ("inspect", -signal.SIGHUP)])
def test_a_worker_that_is_told_to_stop_while_it_starts_stops(command: str, code: int) -> None:
    done = program(SIGNALLED_AT_ITS_FIRST_IMPORT, command)

    assert (done.returncode, done.stderr) == (code, "")


def test_the_program_ends_though_a_thread_does_not() -> None:
    done = program(WITH_A_THREAD_THAT_HANGS, "no-such-command")

    assert (done.returncode, done.stdout) == (2, "what was registered is done\n")
    assert "no-such-command" in done.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("worker --drain", "worker"),
        ("--json --config serve.yaml worker", "worker"),
        ("--database=sqlite:///serve serve", "serve"),
        ("enqueue serve", "enqueue"),
        ("-q", None),
        ("--config", None),
    ],
)
def test_the_command_is_found_before_anything_is_parsed(words: str, found: str | None) -> None:
    assert early_signals.command_of(words.split()) == found


def test_it_knows_which_options_are_followed_by_a_value() -> None:
    options: Sequence[str] = [
        name for one in global_parameters() if not one.is_flag for name in (*one.opts, *one.secondary_opts)
    ]

    assert set(options) == early_signals.WITH_VALUE


def test_a_worker_that_has_run_is_ended_by_sigterm_as_any_program() -> None:
    before = signal.signal(signal.SIGTERM, early_signals._go)
    try:
        early_signals.over()
        after = signal.getsignal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert after is signal.SIG_DFL
