"""A worker with real adapters, over real sockets."""

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance, SystemClock
from aijobs.core.model import Status
from aijobs.core.settings import Settings
from aijobs.http.simulator import start_in_thread
from aijobs.providers.registry import Providers
from aijobs.services.coordinator import Coordinator
from aijobs.services.worker import WorkerReport
from aijobs.store import jobs
from aijobs.store.engine import Store, open_store
from tests.support.jobs import history, new_job, present, settings_of
from tests.support.workers import make_worker

AT_ONCE = {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}


@pytest.fixture
def real_time_store(database_url: str) -> Iterator[Store]:
    """A store by the clock on the wall: what goes over a socket takes its time."""
    store = open_store(database_url, create=True)
    yield store
    store.close()


@pytest.fixture
def black_hole() -> Iterator[tuple[str, list[socket.socket]]]:
    """A server that accepts everything and says nothing."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    accepted.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", accepted
        server.shutdown(socket.SHUT_RDWR)
    for connection in accepted:
        connection.close()


def drain(store: Store, settings: Settings, **options: Any) -> WorkerReport:
    one = make_worker(store, settings=settings, drain=True, **options)
    one.worker._providers = Providers(settings, clock=SystemClock())
    one.thread.start()
    return one.ended(30)


def test_a_provider_that_never_answers_costs_one_attempt_and_no_lease(
    real_time_store: Store, chance: Chance, black_hole: tuple[str, list[socket.socket]]
) -> None:
    url, accepted = black_hole
    settings = settings_of(
        providers={"p": {"kind": "http", "base_url": url, "connect_timeout": "100ms"}},
        types={"t": {"provider": "p", "timeout": "700ms"}},
    )
    coordinator = Coordinator(real_time_store, settings, chance=chance)
    job_id = coordinator.enqueue(new_job(max_attempts=1), actor="test").job.id

    # The lease is shorter than the call: it is renewed meanwhile.
    lease = timedelta(milliseconds=400)
    report = drain(real_time_store, settings, lease=lease, renew_every=lease / 4)

    (attempt,) = history(real_time_store, job_id)
    assert (report.dead_letter, report.lost) == (1, 0)
    assert (attempt["error_class"], attempt["maybe_billed"]) == ("network_timeout", True)
    assert len(accepted) == 1


def test_jobs_run_against_the_simulator_and_its_failures_are_retried(
    real_time_store: Store, chance: Chance
) -> None:
    with start_in_thread(fault="500:0.3") as simulator:
        provider = {"kind": "openai-responses", "base_url": f"{simulator.url}/v1", "api_key": "sk-test"}
        settings = settings_of(
            providers={"p": provider | {"breaker": {"failures": 1000}}},
            types={"t": {"provider": "p", "model": "m", "prompt": "say {{ n }}"}},
            retry={"unavailable": AT_ONCE, "budget": {"floor": 1000}},
        )
        coordinator = Coordinator(real_time_store, settings, chance=chance)
        ids = [coordinator.enqueue(new_job({"n": n}, max_attempts=9), actor="test").job.id for n in range(30)]
        report = drain(real_time_store, settings)

    assert report.succeeded == 30
    assert {present(real_time_store, job_id).status for job_id in ids} == {Status.SUCCEEDED}
    with real_time_store.read() as tx:
        assert all(jobs.result_of(tx, job_id) for job_id in ids)
