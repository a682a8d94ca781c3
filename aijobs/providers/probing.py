"""Asking providers, by one call that costs nothing, whether they take our credentials.

The kinds that speak of models are asked for their list of models. An endpoint of kind `http` has nothing that
is known to be free, so it is asked with OPTIONS, which by the rules of HTTP does nothing: a refusal shows, a
welcome does not prove much. A function in the workers cannot be asked from here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from aijobs.core.classifier import Operation, classify_response
from aijobs.core.clock import Clock
from aijobs.core.errors import AijobsError
from aijobs.core.model import ErrorClass, Failure
from aijobs.core.settings import Kind, Settings
from aijobs.providers.contract import Call, Probed
from aijobs.providers.endpoint import Endpoint, Exchange, Request
from aijobs.providers.registry import Providers

WITHIN: Final = timedelta(seconds=10)
"""How long a provider may take to answer."""

_NOT_OFFERED: Final = frozenset({404, 405, 501})
_REFUSED: Final = frozenset({ErrorClass.AUTH, ErrorClass.PERMISSION})


def probe(
    settings: Settings, names: Sequence[str], *, clock: Clock, within: timedelta = WITHIN
) -> Mapping[str, Probed]:
    """Ask the providers *names*, all at once, each one call and no longer than *within*."""
    return asyncio.run(_probe(settings, names, clock, within))


async def _probe(
    settings: Settings, names: Sequence[str], clock: Clock, within: timedelta
) -> dict[str, Probed]:
    providers = Providers(settings, clock=clock)
    try:
        found = await asyncio.gather(*(_ask(providers, settings, name, within) for name in names))
    finally:
        await providers.close()
    return dict(zip(names, found, strict=True))


async def _ask(providers: Providers, settings: Settings, name: str, within: timedelta) -> Probed:
    provider = settings.providers.get(name)
    if provider is None:
        return Probed(False, f"{name} is not configured: nobody was asked")
    if provider.kind is Kind.PYTHON:
        return Probed(True, f"{name} is a function in the workers: only a job shows whether it works")
    if provider.kind is Kind.SIMULATOR and provider.base_url is None:
        return Probed(True, f"{name} is the simulator inside the workers: it takes any credentials")
    try:
        endpoint = providers.endpoint(name)
    except AijobsError as error:
        return Probed(False, error.message)
    if provider.kind is Kind.HTTP:
        return await _options(endpoint, provider.path, within)
    return await _models(endpoint, within)


async def _models(endpoint: Endpoint, within: timedelta) -> Probed:
    name, asked = endpoint.name, "GET /models"
    failure, status = await _send(endpoint, "GET", "/models", within)
    if status in _NOT_OFFERED:
        doubt = "not known whether it takes them, or is its base_url wrong?"
        return Probed(True, f"{name} has no list of models ({status}): {doubt}")
    if failure is None:
        return Probed(True, f"{name} takes the credentials ({asked}: {status})")
    return Probed(False, _words(name, asked, failure))


async def _options(endpoint: Endpoint, path: str, within: timedelta) -> Probed:
    name = endpoint.name
    failure, status = await _send(endpoint, "OPTIONS", path, within)
    if failure is not None and (status is None or status >= 500 or failure.error_class in _REFUSED):
        return Probed(False, _words(name, "OPTIONS", failure))
    return Probed(True, f"{name} answers (OPTIONS: {status}); only a job shows whether it takes the key")


async def _send(
    endpoint: Endpoint, method: str, path: str, within: timedelta
) -> tuple[Failure | None, int | None]:
    """One request: the failure that its answer is, and the answer's status, as far as there are such."""
    request = Request(method=method, path=path, operation=Operation.POLL)
    answer = await endpoint.ask(_call(endpoint, within), request)
    if not isinstance(answer, Exchange):
        return answer, None
    response = answer.response
    failure = classify_response(
        answer.context, status=response.status, headers=response.headers, body=answer.body
    )
    return failure, response.status


def _call(endpoint: Endpoint, within: timedelta) -> Call:
    return Call(
        job_id="", type="", attempt=0, model=None, prompt=None, input=None, request={}, timeout=within,
        client_request_id=f"aijobs-probe-{endpoint.name}", idempotency_key="",
    )  # fmt: skip


def _words(name: str, asked: str, failure: Failure) -> str:
    does = "refuses the credentials" if failure.error_class in _REFUSED else "did not show that it takes them"
    return f"{name} {does} ({asked}: {failure.message or failure.error_class})"
