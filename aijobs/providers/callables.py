"""Finding and running a python job's function: by `package.module:name`, in the event loop or in a thread."""

import asyncio
import contextlib
import importlib
import inspect
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CannotLoad(Exception):  # like the rest of our errors
    """The function is not where the configuration says, or its module fails when imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function, and how it wants to be called."""

    function: Callable[..., Any]
    is_coroutine: bool
    wants_context: bool


def load(path: str) -> Target:
    """The function at *path*; the working directory is searched too. Raises CannotLoad."""
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise CannotLoad(f"cannot import {module_name}: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CannotLoad(f"{module_name} has no function {name}")
    return Target(
        function=found,
        is_coroutine=inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(found.__call__),
        wants_context=_wants_context(found),
    )


async def in_thread(function: Callable[..., Any], *args: object) -> Any:
    """Run *function* in a daemon thread of its own and wait for it.

    Not in a pool: a function that never ends must neither take the place of others nor keep the process from
    ending, and the event loop's own pool resolves host names. Cancelling stops the waiting, not the thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(value: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        value: object = None
        failure: BaseException | None = None
        try:
            value = context.run(function, *args)
        except StopIteration as error:  # asyncio refuses this one as a future's exception
            failure = RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # SystemExit too: it must not end a thread silently
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile: nobody waits
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name="aijobs-python-job", daemon=True).start()
    return await done


def _wants_context(function: Callable[..., Any]) -> bool:
    """Whether *function* takes a second argument by position without a default, or one called `context`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False  # a builtin that does not tell
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    second = places[1:2]
    return any(p.default is p.empty or p.name == "context" for p in second)
