"""What every request passes: who is it, how much does it bring, and does it arrive in time."""

import asyncio
import hashlib
import hmac
from collections.abc import Iterable

from starlette.requests import ClientDisconnect, Request

from aijobs.http.serve.answers import Refused

_LONGEST_ID = 64
_LARGEST_NUMBER = 18  # digits of a content-length we read


def check_token(request: Request, secret: str) -> None:
    """Raise Refused unless the request carries *secret* as its one bearer token.

    Digests are compared, in constant time: neither the content nor the length of the secret shows.
    """
    given = request.headers.getlist("authorization")
    scheme, _, token = (given[0] if len(given) == 1 else "").partition(" ")
    right = hmac.compare_digest(_digest(token.strip()), _digest(secret))
    if scheme.lower() != "bearer" or not right:
        headers = {"www-authenticate": "Bearer"}
        raise Refused(401, "unauthorized", "a valid bearer token is needed", headers=headers)


async def read_body(request: Request, *, limit: int, seconds: float) -> bytes:
    """The whole body, at most *limit* bytes of it, within *seconds*.

    Raises Refused: 413 as soon as it is known to be too long, 408 when it takes too long, 415 when it is
    compressed (a signature is over what was sent, and a small body must not become a large one), 400 when the
    caller leaves.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refused(415, "unsupported_encoding", "send the body uncompressed")
    if _announced(request) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        hang_up = {"connection": "close"}
        raise Refused(
            408, "timeout", f"the body did not arrive within {seconds:g} s", headers=hang_up
        ) from None
    except ClientDisconnect:
        raise Refused(400, "incomplete", "the body is incomplete") from None
    return bytes(body)


def ends_in_doubt(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a proxy in front may believe that the request ends elsewhere than we do.

    RFC 9112, section 6.3: what has both a length and chunks may be an attempt to hide a second request.
    """
    names = {name for name, _ in headers}
    return b"content-length" in names and b"transfer-encoding" in names


def job_id_of(request: Request) -> str:
    """The id in the path. Raises Refused 404 for text that is none and need not bother a database."""
    job_id: str = request.path_params["job_id"]
    if len(job_id) > _LONGEST_ID or not job_id.isascii() or not job_id.isprintable():
        raise Refused(404, "not_found", "no such job")
    return job_id


def _announced(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LARGEST_NUMBER else 0


def _too_large(limit: int) -> Refused:
    return Refused(413, "too_large", f"at most {limit} bytes are taken")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
