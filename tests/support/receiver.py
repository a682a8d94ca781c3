"""A receiver of webhooks on a real socket: keeps what came in, and answers as it is told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery; header names in lower case."""

    headers: dict[str, str]
    body: bytes


class Receiver:
    """Where deliveries end up. *statuses* are answered one after the other, then 204."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.deliveries: list[Received] = []
        self.statuses: list[int] = []


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port of the loopback interface."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.kept = Receiver(f"http://127.0.0.1:{server.server_port}/hook")  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server.kept  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        kept: Receiver = self.server.kept  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["content-length"]))
        kept.deliveries.append(Received({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(kept.statuses.pop(0) if kept.statuses else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on stderr."""
