"""Calls over HTTP: 200 at once, to a stub that answers immediately; how many a second through each client.

`python -m tests.benchmarks.http_calls [--json]` compares, in one run and in turns, bare httpx on its own
engine, bare aiohttp, httpx over our transport, our client, and `httpx-aiohttp` where that is installed. A
stub in a process of its own answers. Medians of the rounds.
"""

import argparse
import asyncio
import importlib.util
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
import httpx

from aijobs.core.clock import SystemClock
from aijobs.core.payload import dump_json
from aijobs.providers.client import Client, Outgoing
from aijobs.providers.transport import AiohttpTransport

ANSWER = json.dumps(
    {"id": "r", "object": "response", "status": "completed", "output": [], "pad": "x" * 400}
).encode()
REQUEST = {"model": "m", "input": "x" * 400}

DEADLINE = timedelta(minutes=1)

Send = Callable[[], Awaitable[object]]


class _Stub(asyncio.Protocol):
    """Answers every request at once; knows just enough HTTP for its own callers."""

    _HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(self._HEAD + ANSWER)


def _serve(ready: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(_Stub, "127.0.0.1", 0, backlog=1000)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def _drive(send: Send, *, calls: int, concurrency: int) -> float:
    """Calls a second, with *concurrency* in flight all the time."""
    left = iter(range(calls))

    async def lane() -> None:
        for _ in left:
            await send()

    for _ in range(2):  # open the connections first
        await asyncio.gather(*(send() for _ in range(concurrency)))
    started = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(concurrency)))
    return calls / (time.perf_counter() - started)


async def _through_httpx(transport: httpx.AsyncBaseTransport | None, url: str, **size: int) -> float:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(transport=transport, limits=limits, timeout=60) as client:

        async def send() -> object:
            return (await client.post(url, json=REQUEST)).content

        return await _drive(send, **size)


async def _through_aiohttp(url: str, **size: int) -> float:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send() -> object:
            async with session.post(url, json=REQUEST) as response:
                return await response.read()

        return await _drive(send, **size)


async def _through_ours(url: str, **size: int) -> float:
    client = Client(clock=SystemClock())

    async def send() -> object:
        return await client.send(Outgoing(method="POST", url=url, body=dump_json(REQUEST)), deadline=DEADLINE)

    try:
        return await _drive(send, **size)
    finally:
        await client.close()


def _contenders() -> dict[str, Callable[..., Awaitable[float]]]:
    found: dict[str, Callable[..., Awaitable[float]]] = {
        "httpx": lambda url, **size: _through_httpx(None, url, **size),
        "aiohttp": _through_aiohttp,
        "httpx over our transport": lambda url, **size: _through_httpx(AiohttpTransport(), url, **size),
        "aijobs client": _through_ours,
    }
    if importlib.util.find_spec("httpx_aiohttp"):
        from httpx_aiohttp import AiohttpTransport as Peer

        found["httpx-aiohttp"] = lambda url, **size: _through_httpx(Peer(), url, **size)
    return found


def measure(*, calls: int, concurrency: int, rounds: int) -> dict[str, float]:
    """Median calls a second of every contender."""
    mine, theirs = multiprocessing.Pipe()
    stub = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    stub.start()
    url = f"http://127.0.0.1:{mine.recv()}/v1/responses"
    try:
        figures: dict[str, list[float]] = {name: [] for name in _contenders()}
        for _ in range(rounds):
            for name, run in _contenders().items():
                few = max(concurrency, calls // 10) if name == "httpx" else calls
                figures[name].append(_run(run(url, calls=few, concurrency=concurrency)))
        return {name: statistics.median(seen) for name, seen in figures.items()}
    finally:
        stub.terminate()
        stub.join()


def _run(awaitable: Awaitable[float]) -> float:
    async def main() -> float:
        return await awaitable

    return asyncio.run(main())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--concurrency", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    figures = measure(calls=asked.calls, concurrency=asked.concurrency, rounds=asked.rounds)
    document: dict[str, Any] = {
        "calls_per_second": {name: round(value, 1) for name, value in figures.items()},
        "ours_over_httpx": round(figures["aijobs client"] / figures["httpx"], 2),
        "versions": {"httpx": httpx.__version__, "aiohttp": aiohttp.__version__},
    }
    if "httpx-aiohttp" in figures:
        document["ours_over_httpx_aiohttp"] = round(figures["aijobs client"] / figures["httpx-aiohttp"], 2)
    if asked.json:
        print(json.dumps(document))
        return
    for name, value in figures.items():
        print(f"{name:<26}{value:>10.0f} calls/s")
    print(f"aijobs client over bare httpx: {document['ours_over_httpx']} times")


if __name__ == "__main__":
    main()
