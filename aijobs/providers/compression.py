"""Response bodies as they were meant: gzip and deflate, bounded, and one that is cut short is an error."""

import zlib
from typing import Final

import httpx

ACCEPTED: Final = "gzip, deflate"

_GZIP: Final = 31  # window bits that make zlib read the gzip container
_ZLIB: Final = 15
_RAW: Final = -15


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
    out = b""
    while body:
        stream = zlib.decompressobj(window)
        try:
            out += stream.decompress(body, limit - len(out) + 1)
        except zlib.error as exc:
            raise httpx.DecodingError("the response's compression is broken") from exc
        if len(out) > limit:
            raise ResponseTooLarge(f"more than {limit} bytes once decompressed")
        if not stream.eof:
            raise httpx.DecodingError("the response's compression ends too early")
        body = stream.unused_data.lstrip(b"\0")  # gzip allows several members, and padding after them
    return out
