"""An end to an exchange as a whole: who sends a byte now and then never hits a limit for each read."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any, Self

_CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


class HangUp:
    """Shuts the connection of one request down when *seconds* are over.

    `trace` goes into the request's extensions: it is how the HTTP client tells which connection it made.
    Whoever reads then finds its end. *passed* says afterwards that this is why.
    """

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Hear that a connection was made."""
        if event in _CONNECTED:
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket")
                self._shut()

    def _end(self) -> None:
        with self._lock:
            self.passed = True
            self._shut()

    def _shut(self) -> None:
        if self.passed and self._socket is not None:
            with contextlib.suppress(OSError):
                # Below TLS, which another thread reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
