"""A provider that is not there: real HTTP, real webhooks, and every way to fail (named in core/faults.py).

    with start_in_thread(fault="429x2") as simulator:
        ...  # call simulator.url + "/v1/responses"
        assert simulator.billed() == 1

It speaks the OpenAI Responses API (background mode too), chat completions, Anthropic's Messages, and a
plain `/v1/echo` that honours Idempotency-Key. Faults apply to everybody (`start_in_thread(fault=...)`,
`POST /_faults`) or to one request: a header `x-simulator-fault`, or an object `simulator` in its body, its
metadata (as JSON text) or an input that is JSON, with any of `fault`, `latency`, `key` and `reply`.
`GET /_calls` tells what was asked.
"""

from aijobs.http.simulator.app import app
from aijobs.http.simulator.ledger import CallRecord
from aijobs.http.simulator.server import RunningSimulator, start_in_thread
from aijobs.http.simulator.simulator import Simulator, SimulatorSettings
from aijobs.http.simulator.webhooks import TEST_SECRET, WebhookTarget

__all__ = [
    "TEST_SECRET",
    "CallRecord",
    "RunningSimulator",
    "Simulator",
    "SimulatorSettings",
    "WebhookTarget",
    "app",
    "start_in_thread",
]
