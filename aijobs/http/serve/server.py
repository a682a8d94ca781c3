"""uvicorn, as we run it: it hangs up on whoever is too slow, and stops without cutting answers short."""

import asyncio
import contextlib
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import ClassVar, Self

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from aijobs.http.listening import BACKLOG, url_of
from aijobs.http.serve.app import build
from aijobs.http.serve.serving import Bounds, Serving

GRACE = 10
"""Seconds for the answers under way when the server is stopped."""

_LONGEST_HEADER = 32 * 1024
_LINGER = 1.0
_LEAST_READ = 32 * 1024  # bytes that a client takes within `read_seconds` of what waits for it
_KEEP_ALIVE = 15
_PATIENCE = 15.0


class Server:
    """A server on *listener*. *make* makes what it serves, inside the event loop."""

    def __init__(
        self, make: Callable[[], Serving], listener: socket.socket, *, root_path: str = "",
        bounds: Bounds | None = None,
    ) -> None:  # fmt: skip
        self.url = url_of(listener) + root_path
        self._server = _Uvicorn(make, root_path=root_path, bounds=bounds or Bounds())
        self._listener = listener
        self._thread: threading.Thread | None = None

    def run(self, *, ready: Callable[[], object]) -> int | None:
        """Serve until SIGTERM or SIGINT; the number of the signal. *ready* is called once it answers."""
        self._server.on_ready = ready
        self._server.run([self._listener])
        return self._server.stopped_by

    def stop(self) -> None:
        """Stop, from any thread."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        """Serve in a thread of its own, until the block ends."""
        answers = threading.Event()
        self._thread = threading.Thread(target=lambda: self.run(ready=answers.set), daemon=True)
        self._thread.start()
        if not answers.wait(_PATIENCE):
            raise RuntimeError("the server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join(_PATIENCE)


class _Uvicorn(uvicorn.Server):
    def __init__(self, make: Callable[[], Serving], *, root_path: str, bounds: Bounds) -> None:
        self._make = make
        self._root_path = root_path
        self._bounds = bounds
        self._serving: Serving | None = None
        self.on_ready: Callable[[], object] = lambda: None
        self.stopped_by: int | None = None
        super().__init__(_config(self._unmade, bounds))

    async def _unmade(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # as an ASGI application
        raise RuntimeError("the application is made when the server starts")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Make the application, listen, and say so."""
        self._serving = self._make()
        self.config.loaded_app = build(self._serving, root_path=self._root_path)
        await super().startup(sockets)
        self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing more; end the event streams; let the other answers end."""
        assert self._serving is not None
        self._serving.stopping.set()
        await super().shutdown(sockets)
        if not self.force_exit:
            await self._serving.refused.close()
        self._serving.threads.close(timeout=1.0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Note the signal and stop; unlike uvicorn's own, don't raise it once more after all is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        self.force_exit = self.should_exit  # a second one does not wait
        self.should_exit = True
        self.stopped_by = self.stopped_by or number


def _config(app: ASGIApp, bounds: Bounds) -> uvicorn.Config:
    class Protocol(_Protocol):
        head_seconds = bounds.head
        read_seconds = bounds.read
        most = bounds.connections
        waiting: ClassVar[dict[_Protocol, None]] = {}

    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=_LONGEST_HEADER,
        backlog=BACKLOG,
    )


class _Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, with an end to waiting: for headers, for bodies nobody reads any more, for readers.

    *waiting* holds the connections whose client is to send something next, those who wait longest first. They
    make room when there are too many connections: idle ones must not keep a request out.
    """

    head_seconds = 10.0
    read_seconds = 30.0
    most = 1000
    waiting: ClassVar[dict["_Protocol", None]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # ours is always a stream
        """The clock for the first header starts."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._make_room()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._rest()
        self.resume_writing()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A header has to be whole in time, counted from its first byte. 503 while there is no room.

        Only connections count: requests of those that went just now may still be ending.
        """
        self.limit_concurrency = 0 if len(self.connections) > self.most else None
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """After an early answer the rest of a body is dropped for a moment, so that the answer is read."""
        super().on_response_complete()
        self._note_waiting()
        if self._state == "SEND_BODY":
            self.loop.call_later(_LINGER, self._hang_up, "SEND_BODY")
        elif self.conn.trailing_data[0]:
            self._watch()

    def pause_writing(self) -> None:
        """The client does not read as fast as we write: it has to go on reading, or it goes."""
        super().pause_writing()
        self._look_again_after(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def timeout_keep_alive_handler(self) -> None:
        """Nothing has come for a while; what it has not read until now, it will not read."""
        if self.transport.get_write_buffer_size():
            self._cut_off()
        super().timeout_keep_alive_handler()

    @property
    def _state(self) -> str:
        return repr(self.conn.their_state)

    def _watch(self) -> None:
        self._note_waiting()
        if self._state != "IDLE":
            self._rest()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._hang_up, "IDLE")

    def _note_waiting(self) -> None:
        if self._state in ("IDLE", "SEND_BODY"):
            self.waiting.setdefault(self)
        else:
            self.waiting.pop(self, None)

    def _make_room(self) -> None:
        while len(self.connections) > self.most and self.waiting:
            longest = next(iter(self.waiting))
            del self.waiting[longest]
            self.connections.discard(longest)
            longest.transport.abort()

    def _cut_off(self) -> None:
        """With a reset: otherwise the system goes on keeping what nobody reads."""
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _look_again_after(self, left: int) -> None:
        self._reading = self.loop.call_later(self.read_seconds, self._must_have_read, left)

    def _must_have_read(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left > before - _LEAST_READ:
            self._cut_off()
        else:
            self._look_again_after(left)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self, still: str) -> None:
        if self._state == still and not self.transport.is_closing():
            self.transport.close()
