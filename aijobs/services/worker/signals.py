"""SIGTERM and SIGINT: the first asks a worker to finish up, the second to go at once. SIGHUP: reload.

Read by a thread of its own from the interpreter's wake-up descriptor, so that they are heard whatever the
main thread does: a python job that blocks the event loop cannot keep a worker from giving its jobs back. They
are caught explicitly, because a process that is PID 1 has no default action for them.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from aijobs.core.clock import Clock, SystemClock
from aijobs.core.errors import Interrupted, StoreUnreachable

ECHO_SECONDS = 0.1
"""The same signal again within this time is the same order: `timeout` tells a process, and then its group."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CAUGHT = (*SIGNALS, signal.SIGHUP)


class Obedient(Protocol):
    """What is told to stop; called from the signals' thread."""

    @property
    def grace_seconds(self) -> float:
        """How long stopping may take after the first signal."""
        ...

    @property
    def leave_seconds(self) -> float:
        """How long stopping may take after the second."""
        ...

    def stop(self, why: str) -> None:
        """Finish what runs, within the grace."""
        ...

    def stop_now(self, why: str) -> None:
        """Hand everything back at once."""
        ...

    def reload(self, why: str) -> None:
        """Look at the configuration."""
        ...

    def release(self) -> bool:
        """The same without the event loop, which does not answer; False when something is not saved."""
        ...


class Signals:
    """While this is entered (in the main thread), signals are orders. Elsewhere it does nothing."""

    def __init__(self, worker: Obedient, *, clock: Clock | None = None) -> None:
        self._worker = worker
        self._ours, self._theirs = socket.socketpair()
        self._before: dict[int, Any] = {}
        self._fd_before = -1
        self._thread = threading.Thread(target=self._listen, name="aijobs-signals", daemon=True)
        self._clock = clock or SystemClock()
        self._deadline: float | None = None  # when the event loop must have ended; monotonic
        self._last: tuple[str, float] | None = None  # the order heard last, and when
        self.heard: list[str] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._theirs.setblocking(False)
            self._fd_before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
            self._before = {number: signal.signal(number, _heard_elsewhere) for number in _CAUGHT}
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._fd_before)
        with contextlib.suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)
        if self._before:
            self._thread.join(1)
        self._ours.close()
        self._theirs.close()

    def _listen(self) -> None:
        while True:
            try:
                self._ours.settimeout(self._left())
                data = self._ours.recv(64)
            except (TimeoutError, BlockingIOError):
                self._leave_anyway()
                return
            except OSError:
                return
            if not data:
                return
            for number in data:
                if number == signal.SIGHUP:
                    self._worker.reload("SIGHUP")
                elif number in SIGNALS:
                    self._obey(signal.Signals(number).name)

    def _obey(self, name: str) -> None:
        now = self._clock.monotonic()
        if self._last is not None and name == self._last[0] and now - self._last[1] < ECHO_SECONDS:
            return
        self._last = name, now
        self.heard.append(name)
        if len(self.heard) == 1:
            self._deadline = now + self._worker.grace_seconds
            self._worker.stop(name)
        elif len(self.heard) == 2:
            self._deadline = now + self._worker.leave_seconds
            self._worker.stop_now(name)

    def _left(self) -> float | None:
        """Seconds to the deadline. More signals do not move it: who presses again wants out, not time."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - self._clock.monotonic())

    def _leave_anyway(self) -> None:
        """A job that does not yield blocks the event loop: give its leases back and end the process."""
        saved = self._worker.release()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        asked = Interrupted.exit_code if len(self.heard) > 1 else 0
        os._exit(asked if saved else StoreUnreachable.exit_code)


def _heard_elsewhere(number: int, frame: FrameType | None) -> None:
    """The thread hears it from the descriptor."""
