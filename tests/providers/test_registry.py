"""Names become adapters: one each, lazily, over one pool of connections."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from aijobs.core.clock import SystemClock
from aijobs.core.errors import NotFound, UsageError
from aijobs.core.model import Done, Pending, Reply
from aijobs.core.settings import Kind, Settings
from aijobs.http.simulator import start_in_thread
from aijobs.providers.contract import PollFailed
from aijobs.providers.registry import Providers
from tests.support import hostile as peers
from tests.support.calls import make_call
from tests.support.hostile import hostile


def providers(**configured: dict[str, Any]) -> Providers:
    settings = Settings.model_validate({"providers": configured})
    return Providers(settings, clock=SystemClock())


def test_every_kind_has_an_adapter_that_knows_its_name() -> None:
    needed: dict[Kind, dict[str, str]] = {
        Kind.HTTP: {"base_url": "http://127.0.0.1"},
        Kind.SIMULATOR: {"base_url": "http://127.0.0.1"},
        Kind.PYTHON: {"callable": "json:dumps"},
    }
    there = providers(**{f"my-{kind}": {"kind": kind.value, **needed.get(kind, {})} for kind in Kind})

    for kind in Kind:
        adapter = there.get(f"my-{kind}")

        assert adapter.name == f"my-{kind}"
        assert there.get(f"my-{kind}") is adapter
    asyncio.run(there.close())


def test_a_name_nobody_configured_is_not_found() -> None:
    with pytest.raises(NotFound, match="opnai"):
        providers(openai={"kind": "openai-responses"}).get("opnai")


def test_a_simulator_without_an_address_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match="no address") as caught:
        providers().get("simulator")

    assert caught.value.hint == "set providers.simulator.base_url"


def test_two_providers_at_one_place_share_their_connections() -> None:
    async def run(url: str) -> None:
        there = providers(a={"kind": "http", "base_url": url}, b={"kind": "http", "base_url": url})
        for name in ("a", "b", "a"):
            assert isinstance(await there.get(name).submit(make_call()), Done)
        await there.close()

    with hostile(peers.answers_json({})) as server:
        asyncio.run(run(server.url))

        assert server.connections == 1
        assert len(server.requests) == 3


def test_after_closing_the_providers_can_be_used_again() -> None:
    async def run(url: str) -> None:
        there = providers(a={"kind": "http", "base_url": url})
        for _ in range(2):
            assert isinstance(await there.get("a").submit(make_call()), Done)
            await there.close()

    with hostile(peers.answers_json({})) as server:
        asyncio.run(run(server.url))

        assert server.connections == 2


def test_neither_httpx_nor_aiohttp_is_imported_before_something_remote_is_asked_for() -> None:
    program = """
import sys
from aijobs.core.clock import SystemClock
from aijobs.core.settings import Settings
from aijobs.providers.registry import Providers
settings = Settings.model_validate({"providers": {"p": {"kind": "python", "callable": "json:dumps"}}})
Providers(settings, clock=SystemClock()).get("p")
print(sorted({"httpx", "aiohttp"} & set(sys.modules)))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"


# --- The simulator, which speaks what the adapters speak -----------------------------------------------


def at_simulator(
    url: str, *, background: bool, fault: str | None = None
) -> tuple[Reply, Reply | PollFailed | None]:
    """One call through kind `simulator`, and a poll if it is pending."""

    async def run() -> tuple[Reply, Reply | PollFailed | None]:
        configured = {"kind": "simulator", "base_url": url, **({"fault": fault} if fault else {})}
        there = providers(sim=configured)
        call = make_call(input={"prompt": "hello"}, model=None, background=background)
        reply = await there.get("sim").submit(call)
        polled = (
            await there.get("sim").poll(call, reply.provider_job_id) if isinstance(reply, Pending) else None
        )
        await there.close()
        return reply, polled

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["", "/v1", "/v1/"])
def test_the_simulator_is_called_without_a_model_and_with_or_without_its_path(path: str) -> None:
    with start_in_thread() as simulator:
        reply, _ = at_simulator(simulator.url + path, background=False)

    assert isinstance(reply, Done)
    assert "hello" in reply.result


def test_background_work_at_the_simulator_is_polled_to_its_end() -> None:
    with start_in_thread() as simulator:
        reply, polled = at_simulator(simulator.url, background=True)

    assert isinstance(reply, Pending)
    assert isinstance(polled, Done)


def test_the_configured_fault_reaches_the_simulator() -> None:
    with start_in_thread() as simulator:
        reply, _ = at_simulator(simulator.url, background=False, fault="429_slow_down")

    assert not isinstance(reply, (Done, Pending))
    assert reply.code == "slow_down"
