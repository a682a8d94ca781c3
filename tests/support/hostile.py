"""A server that misbehaves on purpose, on raw sockets: whatever a peer can do to a call, byte for byte.

A behaviour is a function of a :class:`Peer`, run once for each connection in a thread of its own. When it
returns, the connection is closed.
"""

import contextlib
import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.wait import eventually

CERTIFICATE = Path(__file__).parent / "tls" / "localhost.pem"
"""A self-signed certificate and key for localhost, made for these tests; nothing trusts it by default."""

Behaviour = Callable[["Peer"], None]


class Peer:
    """One connection, as the misbehaving server sees it."""

    def __init__(self, sock: socket.socket, server: "Hostile") -> None:
        self.sock = sock
        self.server = server
        self._buffer = b""

    def read_request(self) -> bytes | None:
        """Read one whole request and record it; None when the client closed instead."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._fill():
                return None
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        length = _content_length(head)
        while len(rest) < length:
            if not self._fill():
                return None
            rest = self._buffer.partition(b"\r\n\r\n")[2]
        request = head + b"\r\n\r\n" + rest[:length]
        self._buffer = rest[length:]
        self.server.requests.append(request)
        return request

    def send(self, data: bytes) -> None:
        """Write *data*; a client that has gone already does not matter."""
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def reset(self) -> None:
        """Close with a RST instead of a FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def hang(self) -> None:
        """Do nothing until the server is closed."""
        self.server.closing.wait(timeout=60)

    def _fill(self) -> bool:
        data = self.sock.recv(65536)
        self._buffer += data
        return bool(data)


class Hostile:
    """A misbehaving server on a loopback port. *requests* are the raw bytes of every whole request."""

    def __init__(self, behaviour: Behaviour, *, tls: bool = False) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.closing = threading.Event()
        self._behaviour = behaviour
        self._tls = _server_context() if tls else None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening, let every hanging connection go, and wait for the threads."""
        self.closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def body(self, index: int = -1) -> object:
        """The JSON body of a request that arrived."""
        return json.loads(self.requests[index].partition(b"\r\n\r\n")[2])

    def header(self, name: str, index: int = -1) -> str | None:
        """One header of a request that arrived; names compare without case."""
        for line in self.requests[index].partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode("latin-1")
        return None

    def first_line(self, index: int = -1) -> str:
        """Method, target and version of a request that arrived."""
        return self.requests[index].partition(b"\r\n")[0].decode("latin-1")

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        sock.settimeout(60)
        with contextlib.suppress(OSError):
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            self._behaviour(Peer(sock, self))
        sock.close()


@contextlib.contextmanager
def hostile(behaviour: Behaviour, *, tls: bool = False) -> Iterator[Hostile]:
    """Run *behaviour* for every connection while the block lasts."""
    server = Hostile(behaviour, tls=tls)
    try:
        yield server
    finally:
        server.close()


def closed_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def unanswered_port() -> Iterator[int]:
    """A port where connecting neither succeeds nor fails: its queue is full and nobody takes from it."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(8):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(address)
        yield int(address[1])


# --- Behaviours -----------------------------------------------------------------------------------


def response(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    headers: tuple[str, ...] = ("Content-Type: application/json",),
    length: int | None = None,
) -> bytes:
    """A well-formed response; *length* lies about the body's."""
    told = len(body) if length is None else length
    lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {told}", "", "")
    return "\r\n".join(lines).encode("latin-1") + body


def answers(*raw: bytes) -> Behaviour:
    """Answer the server's n-th request with the n-th of *raw*, the last one for ever; keeps alive."""

    def behave(peer: Peer) -> None:
        while peer.read_request() is not None:
            peer.send(raw[min(len(peer.server.requests), len(raw)) - 1])

    return behave


def answers_json(value: object, *, status: str = "200 OK", headers: tuple[str, ...] = ()) -> Behaviour:
    """Answer every request with *value*."""
    return answers(canned(value, status=status, headers=headers))


def canned(value: object, *, status: str = "200 OK", headers: tuple[str, ...] = ()) -> bytes:
    """The bytes of a JSON response."""
    return response(
        json.dumps(value).encode(), status=status, headers=("Content-Type: application/json", *headers)
    )


def answers_and_closes(raw: bytes) -> Behaviour:
    """Read one request, send *raw*, hang up."""

    def behave(peer: Peer) -> None:
        peer.read_request()
        peer.send(raw)

    return behave


def accepts_and_closes(peer: Peer) -> None:
    """Hang up at once."""


def resets_at_the_first_byte(peer: Peer) -> None:
    """Reset as soon as something arrives; earlier, the connecting itself might be what fails."""
    peer.sock.recv(1)
    peer.reset()


def speaks_plainly(peer: Peer) -> None:
    """Answer whatever comes, TLS included, with an HTTP error in plain text."""
    peer.sock.recv(1)
    peer.send(response(status="400 Bad Request"))


def reads_and_closes(peer: Peer) -> None:
    """Take the request and hang up: nobody can tell whether it was worked on."""
    peer.read_request()


def reads_and_resets(peer: Peer) -> None:
    """Take the request and reset."""
    peer.read_request()
    peer.reset()


def hangs(peer: Peer) -> None:
    """Take the connection and say nothing."""
    peer.hang()


def hangs_before_headers(peer: Peer) -> None:
    """Take the request and never answer."""
    peer.read_request()
    peer.hang()


def hangs_in_body(peer: Peer) -> None:
    """Send half of the body and stop."""
    peer.read_request()
    peer.send(response(b'{"half":', length=100))
    peer.hang()


def resets_in_body(peer: Peer) -> None:
    """Send half of the body and reset."""
    peer.read_request()
    peer.send(response(b'{"half":', length=100))
    peer.reset()


def drips(peer: Peer) -> None:
    """Send a byte now and then, for ever: every single read is quick, the whole never ends."""
    peer.read_request()
    peer.send(response(b"", length=1_000_000))
    while not peer.server.closing.wait(timeout=0.02):
        peer.sock.sendall(b" ")


def cuts_chunks(peer: Peer) -> None:
    """Begin a chunked body and hang up in the middle of a chunk."""
    peer.read_request()
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{")


def closes_when_reused(peer: Peer) -> None:
    """Answer a connection's first request and keep it alive; take its second and hang up."""
    if peer.read_request() is not None:
        peer.send(canned({"ok": True}))
        peer.read_request()


def redirects_to_itself(peer: Peer) -> None:
    """Redirect for ever."""
    while peer.read_request() is not None:
        peer.send(response(status="307 Temporary Redirect", headers=(f"Location: {peer.server.url}/again",)))


def gzipped(body: bytes, *, cut: int = 0, spoil: bool = False) -> bytes:
    """A gzip response; *cut* bytes are missing at its end while its length is told right."""
    packed = gzip.compress(body, mtime=0)
    packed = packed[: len(packed) - cut] if cut else packed
    packed = packed[:10] + b"\xff" * (len(packed) - 10) if spoil else packed
    return response(packed, headers=("Content-Type: application/json", "Content-Encoding: gzip"))


def wait_for_requests(server: Hostile, count: int) -> None:
    """Block until *count* requests have arrived whole."""
    eventually(lambda: len(server.requests) >= count, timeout=10)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == b"content-length":
            return int(value)
    return 0


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context
