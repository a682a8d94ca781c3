"""A transaction pooler for the tests: it lends its few server connections out for one transaction each.

Like PgBouncer in that mode it forgets what a session was told: a client may get another server connection for
its next transaction, and what a server connection says between transactions (a notification) reaches nobody.
"""

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import make_url

_SSL_REQUEST, _GSS_REQUEST, _CANCEL = 80877103, 80877104, 80877102
_STARTUP_ONLY = ("database", "user", "client_encoding", "application_name")


@dataclass(kw_only=True)
class Pooler:
    """What it saw: statements prepared on the server by name, and settings asked for at start-up."""

    folder: Path
    prepared: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)


@contextlib.contextmanager
def running_pooler(folder: Path, *, url: str, connections: int = 2) -> Iterator[Pooler]:
    """A pooler on a socket in *folder*, before the PostgreSQL whose socket and schema are in *url*."""
    pooler = Pooler(folder=folder)
    backends: queue.Queue[_Peer] = queue.Queue()
    for _ in range(connections):
        backends.put(_backend(url))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / ".s.PGSQL.5432"))
    listener.listen()
    accepting = threading.Thread(target=_accept, args=(listener, pooler, backends), daemon=True)
    accepting.start()
    try:
        yield pooler
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        while not backends.empty():
            backends.get().close()


class _Peer:
    """One side of the wire: whole messages of the PostgreSQL protocol."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb")
        self.greeting = b""

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def message(self) -> tuple[bytes, bytes]:
        kind = self.exactly(1)
        (length,) = struct.unpack("!i", self.exactly(4))
        return kind, self.exactly(length - 4)

    def close(self) -> None:
        self._file.close()
        self._sock.close()


def _packed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _backend(text: str) -> _Peer:
    url = make_url(text)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(f"{url.query['host']}/.s.PGSQL.5432")
    backend = _Peer(sock)
    settings = {"user": url.username, "database": url.database, "options": url.query["options"]}
    parameters = "".join(f"{name}\0{value}\0" for name, value in settings.items()) + "\0"
    body = struct.pack("!i", 196608) + parameters.encode()
    backend.send(struct.pack("!i", len(body) + 4) + body)
    while True:
        kind, data = backend.message()
        backend.greeting += _packed(kind, data)
        if kind == b"Z":
            return backend


def _accept(listener: socket.socket, pooler: Pooler, backends: "queue.Queue[_Peer]") -> None:
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(_Peer(sock), pooler, backends), daemon=True).start()


def _serve(client: _Peer, pooler: Pooler, backends: "queue.Queue[_Peer]") -> None:
    with contextlib.suppress(EOFError, OSError), contextlib.closing(client):
        if not _greet(client, pooler, backends):
            return
        while True:
            first = client.message()
            if first[0] == b"X":
                return
            backend = backends.get()
            try:
                _one_transaction(client, backend, first, pooler)
            finally:
                backends.put(backend)


def _greet(client: _Peer, pooler: Pooler, backends: "queue.Queue[_Peer]") -> bool:
    while True:
        (length,) = struct.unpack("!i", client.exactly(4))
        body = client.exactly(length - 4)
        (code,) = struct.unpack("!i", body[:4])
        if code == _CANCEL:
            return False
        if code not in (_SSL_REQUEST, _GSS_REQUEST):
            break
        client.send(b"N")
    names = body[4:].split(b"\0")[:-2:2]
    pooler.settings += [n.decode() for n in names if n.decode() not in _STARTUP_ONLY]
    backend = backends.get()
    client.send(backend.greeting)
    backends.put(backend)
    return True


def _one_transaction(client: _Peer, backend: _Peer, message: tuple[bytes, bytes], pooler: Pooler) -> None:
    """Pass messages on until the server says it is idle and has answered every Sync and simple query."""
    while True:
        pending = 0
        while True:
            kind, body = message
            if kind == b"P" and (name := body.split(b"\0", 1)[0]):
                pooler.prepared.append(name.decode())
            backend.send(_packed(kind, body))
            if kind in (b"S", b"Q"):
                pending += 1
                break
            message = client.message()
        while pending:
            kind, body = backend.message()
            if kind != b"A":
                client.send(_packed(kind, body))
            if kind == b"Z":
                pending -= 1
                idle = body == b"I"
        if idle:
            return
        message = client.message()
