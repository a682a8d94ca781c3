"""Kind `python`: the work is a function of yours, in the worker's own process.

It is called with the job's input, and with the worker's context (see `contract.PythonContext`) when it has a
second parameter. What it returns must be JSON and is the result as it is, up to the limit on results. A
coroutine runs in the worker's event loop, a plain function in a thread. When the time is over nobody waits
for a plain function any longer, but nothing can stop it: one that takes long should look at
`context.cancelled()` now and then.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

from aijobs.core.clock import Clock
from aijobs.core.errors import InvalidInput
from aijobs.core.model import CallFacts, Done, ErrorClass, Failure, Phase, Reply
from aijobs.core.payload import clean_json, dump_json
from aijobs.core.redaction import redact
from aijobs.providers.callables import CannotLoad, Target, in_thread, load
from aijobs.providers.contract import Call, CallFailed, PythonContext
from aijobs.providers.foreground import Foreground


class PythonAdapter(Foreground):
    """Runs the function at *path*; loaded with the first call, so that a worker starts without it."""

    def __init__(self, name: str, path: str, *, clock: Clock, secrets: tuple[str, ...] = ()) -> None:
        self.name = name
        self._path = path
        self._clock = clock
        self._secrets = secrets
        self._target: Target | None = None

    async def submit(self, call: Call) -> Reply:
        """Call the function and wait for it, for `call.timeout` at most."""
        started = self._clock.monotonic()
        try:
            outcome, phase = await self._outcome(call)
        except CallFailed as error:  # a call inside it failed: that is the attempt's failure, facts and all
            return error.failure
        facts = CallFacts(
            provider=self.name,
            model=call.model,
            client_request_id=call.client_request_id,
            phase=phase,
            elapsed_seconds=self._clock.monotonic() - started,
        )
        return replace(outcome, facts=facts)

    async def _outcome(self, call: Call) -> tuple[Done | Failure, Phase]:
        try:
            target = self._target = self._target or load(self._path)
        except CannotLoad as error:
            return self._failure(call, error, ErrorClass.INVALID_REQUEST, "cannot_load"), Phase.PREPARING
        try:
            value = await self._run(target, call)
            return Done(result=_result(value, call.result_bytes)), Phase.BODY
        except CallFailed:
            raise
        except _TimeIsOver:
            return _time_is_over(call), Phase.SENT
        except InvalidInput as error:
            return self._failure(call, error, ErrorClass.INVALID_REQUEST, "unusable"), Phase.BODY
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            return self._failure(call, error, ErrorClass.INTERNAL, "CancelledError"), Phase.SENT
        except GeneratorExit:
            raise
        except BaseException as error:  # whatever it is, it is the job's: it must not end the worker
            return self._failure(call, error, ErrorClass.INTERNAL, type(error).__name__), Phase.SENT

    async def _run(self, target: Target, call: Call) -> Any:
        context = _Bounded(call.context)
        args = (call.input, context) if target.wants_context else (call.input,)
        try:
            async with asyncio.timeout(call.timeout.total_seconds()) as limit:
                if target.is_coroutine:
                    return await target.function(*args)
                return await in_thread(target.function, *args)
        except TimeoutError as error:
            if limit.expired():
                raise _TimeIsOver from error
            raise
        finally:
            context.over = True

    def _failure(self, call: Call, error: BaseException, error_class: ErrorClass, code: str) -> Failure:
        own = isinstance(error, CannotLoad | InvalidInput)
        text = str(error) if own else f"{type(error).__name__}{_place(error)}: {_words(error)}"
        echo = json.dumps(call.input, ensure_ascii=False, default=str)
        message = redact(text, secrets=self._secrets, echo_of=echo)
        return Failure(error_class=error_class, code=code, message=message)


class _TimeIsOver(Exception):
    """The limit of the call, as opposed to a TimeoutError of the function's own."""


class _Bounded:
    """The worker's context, which says `cancelled` also once nobody waits for the function any more."""

    def __init__(self, context: PythonContext | None) -> None:
        self._context = context
        self.over = False

    def cancelled(self) -> bool:
        return self.over or (self._context is not None and self._context.cancelled())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _result(value: object, most_bytes: int) -> str:
    text = dump_json(value)
    return text if len(text.encode()) <= most_bytes else clean_json(value, max_bytes=most_bytes)


def _time_is_over(call: Call) -> Failure:
    return Failure(
        error_class=ErrorClass.NETWORK_TIMEOUT,
        code="timeout",
        message=f"the function did not return within {call.timeout.total_seconds():g} s",
        maybe_billed=True,  # a plain function still runs
    )


def _is_cancelled() -> bool:
    """Whether the task itself is being cancelled, as opposed to something the function waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"it cannot be printed ({type(broken).__name__})"


def _place(error: BaseException) -> str:
    frames = extract_tb(error.__traceback__)
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
