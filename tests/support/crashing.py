"""`aijobs ARGS...` in a process of its own, killed for good at a point that has a name.

    before_call   the claim is committed, nothing was sent
    after_call    the provider has answered, nothing is saved
    after_park    the provider's id is saved and the job parked, nothing else happened
    in_poll       the question what became of the work is on its way
    before_final  the work is known to be done, nothing is written
    in_final      the result is written and not committed
    after_final   the result is committed, the worker does not know yet

Without a point it only hurries: orphans are looked for every few tenths of a second.
"""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from aijobs.core.lifecycle import Parked, Succeeded
from aijobs.providers.openai_responses import ResponsesAdapter
from aijobs.services import orphans
from aijobs.services.coordinator import Coordinator
from aijobs.services.coordinator.finishing import Finishing
from aijobs.services.worker import finder
from tests.support.forked import run_aijobs


def die() -> None:
    """As kill -9 from outside: no handler, no cleaning up, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def around(owner: type, name: str, wrapper: Callable[..., Any]) -> None:
    """Put *wrapper*, which is given the original first, in the place of a method."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *given, **named: wrapper(original, *given, **named))


def has(ends: Any, kind: type) -> bool:
    return any(isinstance(ended.end, kind) for ended in ends)


def before(original: Any, *given: Any) -> Any:
    die()


def after_commit(kind: type) -> Callable[..., Any]:
    def finish(original: Any, self: Any, ends: Any) -> Any:
        answers = original(self, ends)
        if has(ends, kind):
            die()
        return answers

    return finish


def before_commit(original: Any, self: Any, tx: Any, ends: Any, now: Any) -> Any:
    answers = original(self, tx, ends, now)
    if has(ends, Succeeded):
        die()
    return answers


async def after_submit(original: Any, self: Any, call: Any) -> Any:
    reply = await original(self, call)
    die()
    return reply


async def in_flight(original: Any, self: Any, call: Any, provider_job_id: str) -> Any:
    import asyncio

    asyncio.get_running_loop().call_later(0.005, die)
    reply = await original(self, call, provider_job_id)
    die()
    return reply


def before_write(original: Any, self: Any, ends: Any) -> Any:
    if has(ends, Succeeded):
        die()
    return original(self, ends)


POINTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "before_call": (ResponsesAdapter, "submit", before),
    "after_call": (ResponsesAdapter, "submit", after_submit),
    "after_park": (Coordinator, "finish", after_commit(Parked)),
    "in_poll": (ResponsesAdapter, "poll", in_flight),
    "before_final": (Coordinator, "finish", before_write),
    "in_final": (Finishing, "finish", before_commit),
    "after_final": (Coordinator, "finish", after_commit(Succeeded)),
}


def run_until(point: str, *words: str) -> None:
    """`aijobs WORDS...` to the end of this process, which is at *point* at the latest."""
    orphans.PATIENCE = timedelta(seconds=0.5)
    finder.EVERY_SECONDS = 0.2
    if point:
        around(*POINTS[point])
    run_aijobs(*words)
