"""Response bodies as they were meant: gzip and deflate, bounded, and one that is cut short is an error."""

import re
import zlib
from typing import Final

import httpx

ACCEPTED: Final = "gzip, deflate"

_GZIP: Final = 31  # window bits that make zlib read the gzip container
_ZLIB: Final = 15
_RAW: Final = -15
_PIECE: Final = 256 * 1024
_MOST_MEMBERS: Final = 10_000  # each costs some work even when nothing comes out of it
_PADDING: Final = re.compile(rb"\0*+")


class ResponseTooLarge(httpx.DecodingError):
    """The response is larger than the cap, as sent or once decompressed; reading stopped there."""


def decode(body: bytes, coding: str, *, limit: int) -> bytes:
    """*body* without its content coding; at most *limit* bytes come out. Raises httpx.DecodingError."""
    match coding:
        case "identity":
            return body
        case "gzip" | "x-gzip":
            return _inflate(body, _GZIP, limit=limit)
        case "deflate":
            return _inflate(body, _ZLIB if body[0] & 0x0F == 8 else _RAW, limit=limit)
        case _:
            raise httpx.DecodingError("the response has a content coding that was not asked for")


def _inflate(body: bytes, window: int, *, limit: int) -> bytes:
    out = bytearray()
    at = 0
    for _ in range(_MOST_MEMBERS):
        if at == len(body):
            return bytes(out)
        end = _member(body, at, window, out, limit=limit)
        at = end + len(_PADDING.match(body, end)[0])  # type: ignore[index]
    if at == len(body):
        return bytes(out)
    raise httpx.DecodingError(f"the response's compression has more than {_MOST_MEMBERS} members")


def _member(body: bytes, at: int, window: int, out: bytearray, *, limit: int) -> int:
    """Unpack into *out* what begins *at*, and return where it ends: gzip allows several, one after another.

    Piece by piece, because zlib copies what it leaves over, and that would be the whole rest for each member.
    """
    stream = zlib.decompressobj(window)
    while at < len(body) and not stream.eof:
        piece = body[at : at + _PIECE]
        try:
            out += stream.decompress(piece, limit - len(out) + 1)
        except zlib.error as exc:
            raise httpx.DecodingError("the response's compression is broken") from exc
        if len(out) > limit:
            raise ResponseTooLarge(f"more than {limit} bytes once decompressed")
        at += len(piece) - len(stream.unused_data)
    if not stream.eof:
        raise httpx.DecodingError("the response's compression ends too early")
    return at
