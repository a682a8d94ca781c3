"""`python -m tests.fuzz.idle [--connections N]`: what a server answers while clients only hold connections.

Prints for each kind of client how many connections were opened, how many of the requests beside them were
answered 200, and how long the slowest took.
"""

import argparse
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from aijobs.services.surroundings import allow_many_files
from aijobs.store.engine import open_store
from tests.support.serving import Served, serving

REQUESTS = 50
KINDS = {
    "silent": b"",
    "half a header": b"GET /readyz HTTP/1.1\r\nHos",
    "half a body": b"POST /webhooks/p HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
}


def main() -> None:
    """Read the arguments, hold connections, ask, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.idle", description=__doc__)
    parser.add_argument("--connections", type=int, default=1000)
    options = parser.parse_args()
    allow_many_files()
    print(f"{'clients':14} {'held':>6} {'asked':>6} {'200':>6} {'slowest ms':>11}")
    for kind, begun in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(f"sqlite:///{Path(folder) / 'idle.db'}", create=True)
            with serving(store) as served:
                good, slowest = _ask(served, begun, options.connections)
            store.close()
        print(f"{kind:14} {options.connections:6} {REQUESTS:6} {good:6} {slowest * 1000:11.0f}", flush=True)


def _ask(served: Served, begun: bytes, count: int) -> tuple[int, float]:
    good, slowest = 0, 0.0
    with ExitStack() as held:
        for _ in range(count):
            client = held.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            client.sendall(begun)
        for _ in range(REQUESTS):
            began = time.perf_counter()
            answer = httpx.get(f"{served.url}/readyz", trust_env=False, verify=False, timeout=30)
            slowest = max(slowest, time.perf_counter() - began)
            good += answer.status_code == 200
    return good, slowest


if __name__ == "__main__":
    main()
