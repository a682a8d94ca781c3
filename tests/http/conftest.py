"""One simulator for all tests of this folder, made new for each by a reset."""

from collections.abc import Iterator

import httpx
import pytest

from aijobs.core.clock import seeded_chance
from aijobs.http.simulator import RunningSimulator, start_in_thread


@pytest.fixture(scope="session")
def running_simulator() -> Iterator[RunningSimulator]:
    """Runs for the whole session; tests take `simulator`."""
    with start_in_thread(chance=seeded_chance(7)) as running:
        yield running


@pytest.fixture
def simulator(running_simulator: RunningSimulator) -> RunningSimulator:
    """A simulator nobody has called yet, without faults, latency or webhooks."""
    running_simulator.set_fault(None)
    running_simulator.set_latency(0)
    running_simulator.set_webhook(None)
    running_simulator.reset()
    return running_simulator


@pytest.fixture
def http(simulator: RunningSimulator) -> Iterator[httpx.Client]:
    """A plain client of the simulator."""
    with httpx.Client(base_url=simulator.url, timeout=10, trust_env=False) as client:
        yield client
