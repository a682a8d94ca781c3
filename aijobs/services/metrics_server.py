"""`/metrics` on a port of a worker's own: a thread that reads the store and never disturbs the worker."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aijobs.core.errors import AijobsError
from aijobs.services.metrics import CONTENT_TYPE

_PATHS = ("/metrics", "/")
_REQUEST_SECONDS = 10


class MetricsServer:
    """Serves what *text* gives until it is closed."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop, and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(text: Callable[[], str], *, host: str, port: int) -> MetricsServer:
    """Listen on *host* and *port* (0: any free one). Raises OSError when the port cannot be had."""
    one_at_a_time = threading.Lock()  # a flood of scrapes must not become a flood of queries

    class Handler(BaseHTTPRequestHandler):
        """Answers GET; says nothing on stderr."""

        timeout = _REQUEST_SECONDS
        server_version = "aijobs"
        sys_version = ""

        def do_GET(self) -> None:  # the name is the library's
            """The metrics, or 503 while the store is away."""
            if self.path.partition("?")[0] not in _PATHS:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            try:
                with one_at_a_time:
                    body = text().encode()
            except AijobsError:
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "the job store is not available")
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's word
            """Nothing: a scrape every few seconds is no news."""

    return MetricsServer(_Server((host, port), Handler))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news either."""
