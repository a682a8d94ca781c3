"""uvicorn without its tenths of a second: one until it sees that it is to stop, one more while it stops."""

import asyncio
from typing import Any

from uvicorn import server

_LONGEST = 0.005


class _Quick:
    """`asyncio`, as uvicorn's server sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, _LONGEST))


def be_quick() -> None:
    """From now on in this process."""
    server.asyncio = _Quick()  # type: ignore[attr-defined]
