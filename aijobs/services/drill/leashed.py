"""Run as a script: `aijobs` as ever, but that it ends with whoever started it, however that one ended.

A drill that is killed can tell its workers nothing. They hold the other end of a pipe to it, which the system
closes, and would else go on for ever.
"""

import os
import runpy
import signal
import threading


def _follow() -> None:
    os.read(0, 1)  # nothing is ever written there
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_follow, name="leash", daemon=True).start()
    runpy.run_module("aijobs", run_name="__main__", alter_sys=True)
