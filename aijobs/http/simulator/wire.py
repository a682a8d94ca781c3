"""Puts an answer on the wire: as it is, or broken in the ways sockets break.

A broken answer is written past uvicorn, straight to the connection that `SimulatorProtocol` hands over.
"""

import asyncio
import contextlib
import gzip
import socket
import struct
from asyncio import Transport
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from aijobs.http.simulator.reply import Reply

Pause = Callable[[float], Awaitable[None]]


class SimulatorProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with the connection in the state of each request."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # ours is always a stream
        """Remember the connection, for answers that break it."""
        self.app_state = {**self.app_state, "transport": transport}
        super().connection_made(transport)


async def send(reply: Reply, scope: Scope, receive: Receive, *, send: Send, pause: Pause) -> None:
    """Send *reply*, broken as its wire fault says. Raises RuntimeError on a server that keeps its sockets."""
    fault = reply.wire
    if fault and fault.name in _BROKEN:
        _BROKEN[fault.name](_transport(scope), reply)
        if fault.name in _HANGING:
            await _unless_gone(pause(_FOR_EVER if fault.number is None else fault.number), receive)
        await hang_up(scope, receive)
        return
    body, headers = _encoded(reply)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if fault and fault.name == "drip":
        for index in range(len(body) - 1):
            await send({"type": "http.response.body", "body": body[index : index + 1], "more_body": True})
            await pause(0.3 if fault.number is None else fault.number)
        body = body[-1:]
    await send({"type": "http.response.body", "body": body})
    if fault and fault.name == "close_after_reply":
        _transport(scope).close()


async def hang_up(scope: Scope, receive: Receive) -> None:
    """Close the connection and wait until it is gone, so that uvicorn sends nothing of its own."""
    _transport(scope).close()
    await _gone(receive)


def breaks(reply: Reply) -> bool:
    """Whether no whole answer arrives."""
    return reply.wire is not None and reply.wire.name in _BROKEN


def is_wire(name: str) -> bool:
    """Whether the fault *name* is one of the sending."""
    return name in _BROKEN or name in ("drip", "close_after_reply", "gzip_truncated", "gzip_bad")


def _transport(scope: Scope) -> Transport:
    transport = scope.get("state", {}).get("transport")
    if transport is None:
        raise RuntimeError(
            "this fault needs the simulator's own server: start_in_thread or `aijobs simulate`"
        )
    return cast("Transport", transport)


def _encoded(reply: Reply) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    body = reply.body
    headers = dict(reply.headers)
    match reply.wire.name if reply.wire else "":
        case "gzip_truncated":
            whole = gzip.compress(body, mtime=0)
            body, headers["content-encoding"] = whole[: len(whole) // 2], "gzip"
        case "gzip_bad":
            headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(body))
    return body, [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _head(reply: Reply, name: str, value: str) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    lines += [f"{key}: {content}" for key, content in {**reply.headers, name: value}.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _nothing(_: Transport, __: Reply) -> None:
    """Close before the headers, at once or after hanging."""


def _rst(transport: Transport, _: Reply) -> None:
    connection: socket.socket = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # the caller was faster, and the socket is closed
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _not_http(transport: Transport, _: Reply) -> None:
    transport.write(b"\x15\x03\x01\x00\x02\x02\x16 220 smtp.example ready\r\n")


def _short_body(transport: Transport, reply: Reply) -> None:
    transport.write(_head(reply, "content-length", str(len(reply.body) + 100)) + reply.body)


def _chunked_cut(transport: Transport, reply: Reply) -> None:
    half = reply.body[: len(reply.body) // 2 + 1]
    chunk = f"{len(half):x}\r\n".encode() + half + b"\r\n"
    transport.write(_head(reply, "transfer-encoding", "chunked") + chunk)


def _half_body(transport: Transport, reply: Reply) -> None:
    half = reply.body[: len(reply.body) // 2]
    transport.write(_head(reply, "content-length", str(len(reply.body))) + half)


async def _unless_gone(hang: Awaitable[None], receive: Receive) -> None:
    """Wait for *hang*, but no longer than the caller does."""
    waits = {asyncio.ensure_future(hang), asyncio.ensure_future(_gone(receive))}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_FOR_EVER = 86_400.0
_HANGING = ("header_hang", "body_hang")
_BROKEN: dict[str, Callable[[Transport, Reply], None]] = {
    "close_before_headers": _nothing,
    "header_hang": _nothing,
    "body_hang": _half_body,
    "rst": _rst,
    "not_http": _not_http,
    "short_body": _short_body,
    "chunked_cut": _chunked_cut,
}
