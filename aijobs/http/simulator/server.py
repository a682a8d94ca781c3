"""Runs the simulator on a real socket, in a thread of its own."""

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Self, TypeVar

import uvicorn

from aijobs.core.clock import Chance, Clock, SystemClock, system_chance
from aijobs.http.listening import BACKLOG, listen, url_of
from aijobs.http.simulator.app import app
from aijobs.http.simulator.ledger import CallRecord
from aijobs.http.simulator.request import parse_latency
from aijobs.http.simulator.simulator import Simulator, SimulatorSettings
from aijobs.http.simulator.webhooks import TEST_SECRET, WebhookTarget
from aijobs.http.simulator.wire import SimulatorProtocol

T = TypeVar("T")

_PATIENCE = 10.0


def start_in_thread(
    *,
    fault: str | None = None,
    latency: str | float | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    webhook_url: str | None = None,
    webhook_secret: str = TEST_SECRET,
    poll_after: float | None = None,
    models: tuple[str, ...] = (),
    clock: Clock | None = None,
    chance: Chance | None = None,
) -> "RunningSimulator":
    """A simulator that answers when this returns. *port* 0 takes a free one; *poll_after* is in seconds.
    Without *models* every model exists.

    Raises ValueError on an unknown fault or latency, OSError when the port is taken.
    """
    settings = SimulatorSettings(
        fault=fault or "",
        latency=parse_latency(str(latency or 0)),
        webhook=WebhookTarget(url=webhook_url, secret=webhook_secret) if webhook_url else None,
        poll_after=poll_after,
        models=models,
    )
    simulator = Simulator(settings, clock=clock or SystemClock(), chance=chance or system_chance())
    return RunningSimulator(simulator, listen(host, port))


class RunningSimulator:
    """A simulator at work. Usable from any thread, and as a context manager that closes it."""

    def __init__(self, simulator: Simulator, listener: socket.socket) -> None:
        self._url = url_of(listener)
        self.port: int = listener.getsockname()[1]
        self._simulator = simulator
        self._server = _Server(simulator)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="aijobs-simulator", daemon=True
        )
        self._thread.start()
        if not self._server.ready.wait(_PATIENCE):
            raise RuntimeError("the simulator did not start")

    @property
    def url(self) -> str:
        """Where it answers, without a path."""
        return self._url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def calls(self, path: str | None = None) -> list[CallRecord]:
        """Every call so far, in order; with *path* only those to it."""
        return self._inside(
            lambda: [call for call in self._simulator.ledger.calls if path is None or call.path == path]
        )

    def snapshot(self) -> dict[str, object]:
        """What `GET /_calls` shows: the calls, the counts, the most there were at once."""
        return self._inside(self._simulator.ledger.snapshot)

    def asked(self) -> int:
        """How many calls asked for work."""
        return self._inside(self._simulator.ledger.submits.total)

    def billed(self, job: str | None = None) -> int:
        """How often the model did the work: in all, or for one job."""
        return self._inside(
            lambda: (
                self._simulator.ledger.billed.total() if job is None else self._simulator.ledger.billed[job]
            )
        )

    def peak(self, key: str = "all") -> int:
        """The most calls at once under *key*: `all`, `model:M`, `user:U`, `key:K`."""
        return self._inside(lambda: self._simulator.ledger.in_flight.peak[key])

    def peak_running(self, key: str = "all") -> int:
        """The most background responses at once under *key*."""
        return self._inside(lambda: self._simulator.ledger.running.peak[key])

    def set_fault(self, fault: str | None) -> None:
        """From now on this fault (None: none). Raises ValueError."""
        self._change(lambda settings: replace(settings, fault=fault or ""))

    def set_latency(self, latency: str | float) -> None:
        """From now on this latency: seconds, or text such as `100ms-2s`. Raises ValueError."""
        wanted = parse_latency(str(latency))
        self._change(lambda settings: replace(settings, latency=wanted))

    def set_webhook(self, url: str | None, secret: str = TEST_SECRET) -> None:
        """From now on webhooks go there (None: nowhere). Raises ValueError."""
        wanted = WebhookTarget(url=url, secret=secret) if url else None
        self._change(lambda settings: replace(settings, webhook=wanted))

    def reset(self) -> None:
        """Forget every call and every response; faults count anew."""
        self._inside(self._simulator.reset)

    def close(self) -> None:
        """Hang up on everybody and stop. Safe to call again."""
        self._server.should_exit = True
        self._server.wake()
        self._thread.join(_PATIENCE)

    def _change(self, change: Callable[[SimulatorSettings], SimulatorSettings]) -> None:
        self._inside(lambda: self._simulator.configure(change(self._simulator.settings)))

    def _inside(self, work: Callable[[], T]) -> T:
        """Do *work* in the server's thread, so that nothing changes under it; here once that is gone."""
        loop = self._server.loop
        if loop is None or not self._thread.is_alive():
            return work()
        done: Future[T] = Future()
        try:
            loop.call_soon_threadsafe(_settle, done, work)
        except RuntimeError:  # it stopped meanwhile
            return work()
        return done.result(_PATIENCE)


def _settle(done: "Future[T]", work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except ValueError as error:
        done.set_exception(error)


class _Server(uvicorn.Server):
    """uvicorn, told when it is ready and stopped without waiting for callers that hang."""

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(
            uvicorn.Config(
                app(simulator),
                http=SimulatorProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                date_header=False,
                server_header=False,
                timeout_keep_alive=75,
                backlog=BACKLOG,
            )
        )
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._simulator = simulator
        self._stop = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.ready.set()

    async def main_loop(self) -> None:
        """Wait to be stopped; there is nothing to do every tenth of a second."""
        await self.on_tick(0)
        await self._stop.wait()

    def wake(self) -> None:
        """Have the main loop look whether it should end. From any thread."""
        if self.loop and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._stop.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hang up on whoever is still being answered, then close."""
        self._simulator.close()
        for task in list(self.server_state.tasks):
            task.cancel()
        await super().shutdown(sockets)
