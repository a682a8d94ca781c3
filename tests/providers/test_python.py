"""Kind `python`: functions of every sort, and every way one can go wrong."""

import asyncio
import json
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aijobs.core.clock import SystemClock
from aijobs.core.model import Done, ErrorClass, Failure, Phase, Reply
from aijobs.providers.contract import Call, CallFailed, PollFailed
from aijobs.providers.python import PythonAdapter
from tests.support.calls import make_call

HERE = __name__
RELEASE = threading.Event()


def submit(function: str, call: Call | None = None, **options: Any) -> Reply:
    adapter = PythonAdapter("mine", f"{HERE}:{function}", clock=SystemClock(), **options)
    return asyncio.run(adapter.submit(call or make_call()))


class Context:
    """What a worker would hand over."""

    job_id = "j"
    attempt = 2
    fence = 7

    def cancelled(self) -> bool:
        return False


# --- The functions ---------------------------------------------------------------------------------


def plain(data: object) -> object:
    return {"thread": threading.current_thread().name, "got": data}


async def coroutine(data: object) -> object:
    await asyncio.sleep(0)
    return {"got": data, "main": threading.current_thread() is threading.main_thread()}


def with_context(data: object, context: Any) -> object:
    return [context.job_id, context.attempt, context.fence, context.cancelled()]


async def coroutine_with_context(data: object, context: Any) -> object:
    return context.fence


def with_default(data: object, repeat: int = 3) -> object:
    return repeat


def with_optional_context(data: object, context: Any = None) -> object:
    return context is not None


class Callable:
    async def __call__(self, data: object) -> str:
        return "from an object"


an_object = Callable()
a_value = 3
holder = SimpleNamespace(inner=plain)


def returns_what_json_lacks(data: object) -> object:
    return {1, 2}


def raises(data: object) -> object:
    raise KeyError(f"lost {data}")


def exits(data: object) -> object:
    sys.exit(3)


async def coroutine_exits(data: object) -> object:
    sys.exit(3)


def stops(data: object) -> object:
    raise StopIteration


async def times_out_by_itself(data: object) -> object:
    raise TimeoutError("the other system")


def interrupts(data: object) -> object:
    raise KeyboardInterrupt


async def coroutine_interrupts(data: object) -> object:
    raise KeyboardInterrupt


class _OfItsOwn(BaseException):
    """What no `except Exception` catches."""


def raises_its_own(data: object) -> object:
    raise _OfItsOwn("mine")


def raises_a_group(data: object) -> object:
    raise BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError("one")])


class _UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raises_the_unprintable(data: object) -> object:
    raise _UnprintableError


async def cancels_itself(data: object) -> object:
    raise asyncio.CancelledError


async def never_ends(data: object) -> object:
    await asyncio.Event().wait()


SEEN: list[bool] = []


def blocks(data: object, context: Any) -> object:
    RELEASE.wait(30)
    SEEN.append(context.cancelled())
    return None


def fails_by_a_call(data: object) -> object:
    raise CallFailed(Failure(error_class=ErrorClass.RATE_LIMITED, code="slow_down", message="inner"))


def leaks(data: object) -> object:
    raise RuntimeError(f"token sk-abcdefghijkl was refused for {data}")


# --- Tests -----------------------------------------------------------------------------------------


def test_a_plain_function_runs_in_a_thread_and_its_value_is_the_result() -> None:
    reply = submit("plain", make_call(input={"a": "é"}))

    assert isinstance(reply, Done)
    assert reply.result == '{"thread":"aijobs-python-job","got":{"a":"é"}}'
    assert reply.facts.provider == "mine"
    assert reply.facts.elapsed_seconds is not None


def test_a_coroutine_runs_in_the_event_loop() -> None:
    reply = submit("coroutine", make_call(input=[1]))

    assert isinstance(reply, Done)
    assert reply.result == '{"got":[1],"main":true}'


@pytest.mark.parametrize(
    ("function", "result"),
    [
        ("with_context", '["j",2,7,false]'),
        ("coroutine_with_context", "7"),
        ("with_default", "3"),
        ("with_optional_context", "true"),
        ("an_object", '"from an object"'),
        ("holder.inner", '{"thread":"aijobs-python-job","got":{}}'),
    ],
)
def test_the_context_is_handed_to_functions_that_ask_for_it(function: str, result: str) -> None:
    reply = submit(function, make_call(context=Context()))

    assert isinstance(reply, Done)
    assert reply.result == result


@pytest.mark.parametrize(
    "path", ["no.such.module:f", f"{HERE}:no_such_function", f"{HERE}:a_value", f"{HERE}:holder.nothing"]
)
def test_a_function_that_is_not_there_is_an_invalid_request_and_was_never_begun(path: str) -> None:
    adapter = PythonAdapter("mine", path, clock=SystemClock())

    reply = asyncio.run(adapter.submit(make_call()))

    assert isinstance(reply, Failure)
    assert (reply.error_class, reply.code) == (ErrorClass.INVALID_REQUEST, "cannot_load")
    assert reply.facts.phase is Phase.PREPARING
    assert not reply.maybe_billed


def test_a_module_that_breaks_on_import_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_jobs.py").write_text("import nothing_of_that_name\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    adapter = PythonAdapter("mine", "broken_jobs:f", clock=SystemClock())

    reply = asyncio.run(adapter.submit(make_call()))

    assert isinstance(reply, Failure)
    assert "nothing_of_that_name" in reply.message


def test_a_function_in_the_working_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs_of_this_folder.py").write_text("def f(data):\n    return 'found'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    adapter = PythonAdapter("mine", "jobs_of_this_folder:f", clock=SystemClock())

    reply = asyncio.run(adapter.submit(make_call()))

    assert isinstance(reply, Done)
    assert reply.result == '"found"'


def test_a_value_that_json_lacks_fails_for_good() -> None:
    reply = submit("returns_what_json_lacks")

    assert isinstance(reply, Failure)
    assert reply.error_class is ErrorClass.INVALID_REQUEST


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("raises", "KeyError"),
        ("exits", "SystemExit"),
        ("coroutine_exits", "SystemExit"),
        ("stops", "RuntimeError"),
        ("times_out_by_itself", "TimeoutError"),
        ("cancels_itself", "CancelledError"),
        ("interrupts", "KeyboardInterrupt"),
        ("coroutine_interrupts", "KeyboardInterrupt"),
        ("raises_its_own", "_OfItsOwn"),
        ("raises_a_group", "BaseExceptionGroup"),
        ("raises_the_unprintable", "_UnprintableError"),
    ],
)
def test_whatever_a_function_raises_is_an_internal_failure_with_its_name_and_place(
    function: str, code: str
) -> None:
    reply = submit(function)

    assert isinstance(reply, Failure)
    assert (reply.error_class, reply.code) == (ErrorClass.INTERNAL, code)
    assert reply.message.startswith(f"{code} at ")


def test_a_message_holds_neither_keys_nor_the_input() -> None:
    secret_input = {"text": "a very private sentence about somebody"}

    reply = submit("leaks", make_call(input=secret_input))

    assert isinstance(reply, Failure)
    assert "sk-abcdefghijkl" not in reply.message
    assert "private sentence" not in reply.message


def test_a_failed_call_inside_a_function_is_the_failure_of_the_attempt() -> None:
    reply = submit("fails_by_a_call")

    assert reply == Failure(error_class=ErrorClass.RATE_LIMITED, code="slow_down", message="inner")


def test_a_coroutine_that_takes_too_long_is_stopped() -> None:
    reply = submit("never_ends", make_call(seconds=0.05))

    assert isinstance(reply, Failure)
    assert (reply.error_class, reply.code) == (ErrorClass.NETWORK_TIMEOUT, "timeout")


def test_a_plain_function_that_takes_too_long_is_left_alone_and_told_that_it_is_over() -> None:
    async def run() -> Reply:
        adapter = PythonAdapter("mine", f"{HERE}:blocks", clock=SystemClock())
        return await adapter.submit(make_call(seconds=0.05, context=Context()))

    RELEASE.clear()
    SEEN.clear()

    reply = asyncio.run(run())
    RELEASE.set()
    for thread in threading.enumerate():
        if thread.name == "aijobs-python-job":
            thread.join(timeout=10)

    assert isinstance(reply, Failure)
    assert reply.maybe_billed
    assert SEEN == [True]


def test_cancelling_the_call_goes_through() -> None:
    async def run() -> None:
        adapter = PythonAdapter("mine", f"{HERE}:never_ends", clock=SystemClock())
        task = asyncio.create_task(adapter.submit(make_call()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_functions_side_by_side_do_not_wait_for_each_other() -> None:
    barrier = threading.Barrier(50)

    def meet(data: object) -> int:
        return barrier.wait(30)

    async def run() -> list[Reply]:
        adapter = PythonAdapter("mine", f"{HERE}:meet", clock=SystemClock())
        sys.modules[HERE].meet = meet  # type: ignore[attr-defined]
        calls: list[Coroutine[Any, Any, Reply]] = [adapter.submit(make_call()) for _ in range(50)]
        return await asyncio.gather(*calls)

    replies = asyncio.run(run())

    assert sorted(int(r.result) for r in replies if isinstance(r, Done)) == list(range(50))


def test_there_is_nothing_to_ask_after_in_the_background() -> None:
    adapter = PythonAdapter("mine", f"{HERE}:plain", clock=SystemClock())

    answers = [asyncio.run(ask(make_call(), "x")) for ask in (adapter.poll, adapter.cancel)]

    assert all(isinstance(answer, PollFailed) and answer.gone for answer in answers)


def large(data: object) -> object:
    return ["é" * 1000, "the end"]


def test_a_result_above_the_limit_is_cut_and_says_so() -> None:
    cut, whole = submit("large", make_call(result_bytes=1024)), submit("large", make_call())

    assert isinstance(cut, Done)
    assert isinstance(whole, Done)
    assert len(cut.result.encode()) <= 1024
    assert json.loads(cut.result)["aijobs_truncated"]["max_bytes"] == 1024
    assert json.loads(whole.result) == large(None)
