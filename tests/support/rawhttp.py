"""HTTP spoken by hand over a socket, to see exactly which bytes come back and how the connection ends."""

import socket
from dataclasses import dataclass
from typing import Literal

from aijobs.http.simulator import RunningSimulator

Ending = Literal["closed", "reset", "open"]

BODY = b'{"model":"m","input":"Why is the sky blue? Nobody asks."}'


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came back, and whether the peer then closed, reset, or kept the connection."""

    received: bytes
    ending: Ending

    @property
    def head(self) -> dict[str, str]:
        """The header fields, names in lower case."""
        lines = self.received.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def body(self) -> bytes:
        """Whatever followed the header."""
        return self.received.partition(b"\r\n\r\n")[2]


def exchange(
    simulator: RunningSimulator, fault: str, *, path: str = "/v1/responses", patience: float = 0.3
) -> Exchange:
    """POST one request and read until the connection ends, or nothing comes for *patience* seconds."""
    with socket.create_connection(("127.0.0.1", simulator.port)) as connection:
        connection.settimeout(patience)
        connection.sendall(request(fault, path))
        return read_to_end(connection)


def request(fault: str, path: str = "/v1/responses") -> bytes:
    """The bytes of one request that asks for *fault*."""
    lines = [f"POST {path} HTTP/1.1", "host: simulator", "content-type: application/json"]
    lines += [f"content-length: {len(BODY)}", f"x-simulator-fault: {fault}", "", ""]
    return "\r\n".join(lines).encode() + BODY


def read_to_end(connection: socket.socket) -> Exchange:
    """Read until the connection ends or its timeout passes."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        return Exchange(received, "reset")
    except TimeoutError:
        return Exchange(received, "open")
    return Exchange(received, "closed")
