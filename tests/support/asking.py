"""Requests to the simulator, each API in its own words."""

from typing import Any

import httpx

ANTHROPIC = {"anthropic-version": "2023-06-01"}


def response(
    http: httpx.Client, text: str = "Why is the sky blue?", *, fault: str | None = None, **body: Any
) -> httpx.Response:
    """POST /v1/responses."""
    return http.post("/v1/responses", json={"model": "m", "input": text, **body}, headers=_headers(fault))


def chat(
    http: httpx.Client, text: str = "Why is the sky blue?", *, fault: str | None = None, **body: Any
) -> httpx.Response:
    """POST /v1/chat/completions."""
    asked = {"model": "m", "messages": [{"role": "user", "content": text}], **body}
    return http.post("/v1/chat/completions", json=asked, headers=_headers(fault))


def message(
    http: httpx.Client, text: str = "Why is the sky blue?", *, fault: str | None = None, **body: Any
) -> httpx.Response:
    """POST /v1/messages."""
    asked = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **body}
    return http.post("/v1/messages", json=asked, headers={**ANTHROPIC, **_headers(fault)})


def echo(
    http: httpx.Client, text: str = "Why is the sky blue?", *, fault: str | None = None, **body: Any
) -> httpx.Response:
    """POST /v1/echo."""
    return http.post("/v1/echo", json={"text": text, **body}, headers=_headers(fault))


def _headers(fault: str | None) -> dict[str, str]:
    return {} if fault is None else {"x-simulator-fault": fault}
