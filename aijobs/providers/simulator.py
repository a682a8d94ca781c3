"""Kind `simulator`: our own stand-in for a provider, which speaks the Responses API and fails on request.

The configured fault and latency go along as headers; everything else is the ordinary adapter.
"""

from dataclasses import replace
from typing import Final

from aijobs.core.durations import format_duration
from aijobs.core.model import Reply
from aijobs.core.settings import ProviderSettings
from aijobs.providers.contract import Call
from aijobs.providers.openai_responses import ResponsesAdapter

FAULT_HEADER: Final = "X-Simulator-Fault"
LATENCY_HEADER: Final = "X-Simulator-Latency"
MODEL: Final = "simulator-1"
"""What is asked for when the type names no model: the API wants one."""


class SimulatorAdapter(ResponsesAdapter):
    """The Responses adapter, which is happy without a model."""

    async def submit(self, call: Call) -> Reply:
        """Create a response."""
        return await super().submit(call if call.model else replace(call, model=MODEL))


def address(settings: ProviderSettings) -> str | None:
    """Where its API begins; the configuration may name the server alone."""
    if settings.base_url is None:
        return None
    url = settings.base_url.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def orders(settings: ProviderSettings) -> dict[str, str]:
    """The headers that tell the simulator what to do."""
    headers: dict[str, str] = {}
    if settings.fault:
        headers[FAULT_HEADER] = settings.fault
    if settings.latency:
        headers[LATENCY_HEADER] = format_duration(settings.latency)
    return headers
