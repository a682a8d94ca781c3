"""`aijobs` as processes of their own: started, killed, put to sleep, and never left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aijobs
from aijobs.services.drill import leashed

_OURS = ("AIJOBS_", "PROVIDER_FAULT")
"""What a person has set for their own workers; a drill's know nothing of it."""


class Process:
    """One `aijobs ARGS...`. What it says goes to files beside its configuration."""

    def __init__(self, args: Sequence[str], environ: Mapping[str, str], said: Path) -> None:
        self.name = said.name
        self._out, self._err = said.with_suffix(".out"), said.with_suffix(".err")
        # -P: a folder that holds a random.py must not become the place where modules are found first.
        words = [sys.executable, "-P", leashed.__file__, *args]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                words, env=dict(environ), stdin=subprocess.PIPE, stdout=out, stderr=err
            )
        self.killed = False

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it as a power cut would: nothing is handed back, nothing written."""
        self.killed = True
        self._process.kill()
        self._process.communicate()

    def sleep(self) -> None:
        """Stop it in the midst of whatever it does, as a machine that is suspended."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on as if no time had passed."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self, *, patience: float) -> bool:
        """Ask it to end; whether it did in so many seconds."""
        self._process.terminate()
        return self.ended(patience)

    def ended(self, patience: float) -> bool:
        """Whether it ends by itself in so many seconds."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True

    def document(self) -> dict[str, Any]:
        """The JSON it printed last; empty when there is none."""
        lines = self._out.read_text(encoding="utf-8").splitlines()
        found = json.loads(lines[-1]) if lines else {}
        return found if isinstance(found, dict) else {}

    def last_words(self) -> str:
        """The last line of its log."""
        lines = self._err.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")


def environ_for(environ: Mapping[str, str], database: str) -> dict[str, str]:
    """The environment of a drill's processes. The URL goes there and not among the arguments, which others
    can read: it may hold a password.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith(_OURS)}
    return {**kept, "AIJOBS_DATABASE": database, "PYTHONPATH": _with_us(environ.get("PYTHONPATH"))}


def _with_us(path: str | None) -> str:
    """A module path on which the children find the same aijobs, also where it runs from its sources."""
    home = str(Path(aijobs.__file__).resolve().parents[1])
    parts = [path] if path else []
    return os.pathsep.join([*parts, *([] if home.endswith("-packages") else [home])])
