"""The world outside: receives the effects of jobs and the notices of their ends, and forgets nothing.

It is as good as a receiver can be: asked about an effect it answers with what it has, and from then on it
refuses the one that asked with an older fence. So a worker that slept through its lease between opening an
entry of the ledger and sending cannot send any more, once the next one has asked.
"""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Name = tuple[str, str]


@dataclass
class Outside:
    """What has arrived. Effects are counted by (job, name), notices by (job, round, kind of end)."""

    url: str = ""
    effects: Counter[Name] = field(default_factory=Counter)
    refused: int = 0
    notices: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    _fences: dict[Name, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, name: Name, fence: int) -> bool:
        """One effect; False when a later attempt has asked for it already."""
        with self._lock:
            if fence < self._fences.get(name, 0):
                self.refused += 1
                return False
            self._fences[name] = fence
            self.effects[name] += 1
            return True

    def ask(self, name: Name, fence: int) -> bool:
        """Whether the effect has happened; older fences are refused from now on."""
        with self._lock:
            self._fences[name] = max(fence, self._fences.get(name, 0))
            return self.effects[name] > 0

    def notice(self, body: dict[str, object]) -> None:
        """One notification of aijobs."""
        data = body["data"]
        assert isinstance(data, dict)
        with self._lock:
            self.notices[data["job_id"], data["round"], data["status"]] += 1


@contextlib.contextmanager
def outside() -> Iterator[Outside]:
    """One on a free port, for as long as the block lasts."""
    kept = Outside()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer: object = None
            if self.path == "/notice":
                kept.notice(body)
            else:
                verb = kept.send if self.path == "/send" else kept.ask
                answer = verb((body["job"], body["name"]), body["fence"])
            said = json.dumps(answer).encode()
            with contextlib.suppress(OSError):  # whoever asked was killed
                self.send_response(200)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing on stderr."""

        def handle(self) -> None:
            with contextlib.suppress(OSError, ValueError):  # or half a request is all it sent
                super().handle()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        kept.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()
