"""Webhook intake: `serve` takes 500 signed deliveries, 50 at once, a fifth of them copies.

`python -m tests.benchmarks.intake [--json] [--deliveries N] [--rounds N] [--database NAME...]` compares it
with the least a Starlette handler can do: read the body, write one row, commit, answer. Both are processes of
their own under uvicorn, on a store with its default durability. Deliveries a second, medians of the rounds.
With `--latency`: how many milliseconds `serve` takes to answer, for one at a time and for 50 at once.
With `--together` no server is asked: what it costs to write them down, by how many are in a transaction.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
from sqlalchemy import event

from aijobs.core.clock import SystemClock, system_chance
from aijobs.core.settings import Settings
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.services.coordinator import Coordinator
from aijobs.services.webhooks import Webhooks
from aijobs.store.engine import open_store
from tests.benchmarks.places import fresh
from tests.benchmarks.report import Row, as_json, in_turns, table

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
AT_ONCE = 50
CONFIG = {
    "providers": {
        "p": {"kind": "openai-responses", "api_key": "${API_KEY}", "webhook_secret": "${SECRET}"},
    },
    "types": {"t": {"provider": "p", "model": "m"}},
}
Delivery = tuple[dict[str, str], bytes]


def deliveries(count: int, prefix: str) -> list[Delivery]:
    """Signed ones in any order, every fifth a copy of an earlier one."""
    now, keys = SystemClock().now(), [decode_key(SECRET)]
    made = []
    for n in range(count):
        name = f"{prefix}_{n - 1 if n % 5 == 4 else n}"
        event = {"object": "event", "type": "response.completed", "data": {"id": f"resp_{name}"}}
        body = json.dumps(event).encode()
        made.append(({"content-type": "application/json", **sign(name, body, keys=keys, now=now)}, body))
    random.Random(1).shuffle(made)
    return made


async def _deliver(url: str, made: Sequence[Delivery], at_once: int = AT_ONCE) -> list[float]:
    """The seconds that each answer took, and in the last place those of all together."""
    left, took = iter(made), []
    async with aiohttp.ClientSession() as session:

        async def lane() -> None:
            for headers, body in left:
                sent = time.perf_counter()
                async with session.post(url, data=body, headers=headers) as response:
                    assert response.status == 200, await response.text()
                took.append(time.perf_counter() - sent)

        began = time.perf_counter()
        await asyncio.gather(*(lane() for _ in range(at_once)))
        return [*took, time.perf_counter() - began]


def bare_app(url: str) -> Any:
    """The least: one row, one commit."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    write = _sqlite_writer(url) if url.startswith("sqlite") else _postgresql_writer(url)

    async def take(request: Request) -> JSONResponse:
        await run_in_threadpool(write, (await request.body()).decode())
        return JSONResponse({"outcome": "taken"})

    return Starlette(routes=[Route("/webhooks/p", take, methods=["POST"])])


def _sqlite_writer(url: str) -> Any:
    connection = sqlite3.connect(
        url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE taken (body text NOT NULL)")
    alone = threading.Lock()

    def write(body: str) -> None:
        with alone:
            connection.execute("INSERT INTO taken VALUES (?)", (body,))

    return write


def _postgresql_writer(url: str) -> Any:
    mine = threading.local()
    with psycopg.connect(url) as server:
        server.execute("CREATE TABLE taken (body text NOT NULL)")

    def write(body: str) -> None:
        if not hasattr(mine, "connection"):
            mine.connection = psycopg.connect(url, autocommit=True)
        mine.connection.execute("INSERT INTO taken VALUES (%s)", (body,))

    return write


@contextlib.contextmanager
def serving(command: Sequence[str], port: int, environ: dict[str, str]) -> Iterator[str]:
    """The URL of *command*, once it takes connections."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, **environ}, **quiet)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/webhooks/p"
    finally:
        process.terminate()
        process.wait()


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def ours(database: str, count: int) -> float:
    """Deliveries a second that `serve` takes."""
    with our_server(database) as address:
        return _measured(address, count)


def latency(database: str, count: int) -> None:
    """Print how long `serve` takes to answer."""
    with our_server(database) as address:
        _measured(address, AT_ONCE)
        for at_once in (1, AT_ONCE):
            *took, _ = asyncio.run(_deliver(address, deliveries(count, f"by{at_once}"), at_once))
            cuts = statistics.quantiles((one * 1000 for one in took), n=20)
            print(f"{database}, {at_once} at once: p50 {cuts[9]:.1f} ms, p95 {cuts[18]:.1f} ms")


@contextlib.contextmanager
def our_server(database: str) -> Iterator[str]:
    """The URL of a `serve` over an empty store."""
    with fresh(database) as url, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "aijobs.yaml"
        config.write_text(json.dumps(CONFIG))
        environ = {"AIJOBS_DATABASE": url, "AIJOBS_CONFIG": str(config), "SECRET": SECRET, "API_KEY": "k"}
        program, port = [sys.executable, "-c", "from aijobs.cli.main import main; main()"], _port()
        upgrade = [*program, "-q", "db", "upgrade"]
        subprocess.run(upgrade, env={**os.environ, **environ}, check=True, stdout=subprocess.DEVNULL)
        with serving([*program, "-q", "serve", "--port", str(port)], port, environ) as address:
            yield address


def bare(database: str, count: int) -> float:
    """Deliveries a second that the bare handler takes."""
    with fresh(database) as url:
        port = _port()
        command = [sys.executable, "-m", "tests.benchmarks.intake", "--bare", url, "--port", str(port)]
        with serving(command, port, {}) as address:
            return _measured(address, count)


def together(database: str, count: int) -> None:
    """Print processor time (of this process) and statements a delivery, for transactions of several sizes."""
    settings = Settings.model_validate(
        {**CONFIG, "providers": {"p": CONFIG["providers"]["p"] | {"api_key": "k", "webhook_secret": SECRET}}}
    )
    with fresh(database) as url, contextlib.closing(open_store(url, create=True)) as store:
        webhooks = Webhooks(Coordinator(store, settings, chance=system_chance()), settings)
        statements: list[object] = []
        event.listen(store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
        for size in (1, 5, 20, 50):
            found = [webhooks.read("p", *one) for one in deliveries(count, f"of{size}")]
            batches = [found[n : n + size] for n in range(0, count, size)]
            webhooks.record(batches.pop())  # connections and statements are there afterwards
            statements.clear()
            began = time.process_time()
            for batch in batches:
                webhooks.record(batch)
            spent = (time.process_time() - began) / sum(map(len, batches))
            each = len(statements) / sum(map(len, batches))
            print(f"{database}, {size} together: {spent * 1e6:.0f} us, {each:.2f} statements a delivery")


def _measured(address: str, count: int) -> float:
    async def run() -> float:
        await _deliver(address, deliveries(AT_ONCE, "first"))  # threads and connections are there afterwards
        return count / (await _deliver(address, deliveries(count, "wh")))[-1]

    return asyncio.run(run())


def measure(database: str, *, count: int, rounds: int) -> Row:
    """Both, in turns."""
    found = in_turns(rounds, {"serve": lambda: ours(database, count), "bare": lambda: bare(database, count)})
    return Row(
        bar="P10", what=f"{count} webhook deliveries, {AT_ONCE} at once", database=database,
        ours=found["serve"], beside="a bare handler", theirs=found["bare"], at_least=0.5,
    )  # fmt: skip


def main() -> None:
    """Measure and print; with --bare be the bare handler."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--together", action="store_true", help="write them down, without a server")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        import uvicorn

        uvicorn.run(bare_app(asked.bare), port=asked.port, log_level="error")
        return
    if asked.together or asked.latency:
        for name in asked.database:
            (together if asked.together else latency)(name, asked.deliveries)
        return
    rows = [measure(name, count=asked.deliveries, rounds=asked.rounds) for name in asked.database]
    print(json.dumps(as_json(rows)) if asked.json else table(rows))


if __name__ == "__main__":
    main()
