"""Error bodies as providers write them, and what the classifier makes of a response."""

import json
from datetime import UTC, datetime

from aijobs.core.classifier import CallContext, classify_response
from aijobs.core.envelope import read_body
from aijobs.core.model import Failure

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CURRENT_QUOTA = "You exceeded your current quota, please check your plan and billing details."


def context(kind: str = "openai-chat", **changes: object) -> CallContext:
    """What is known of a call to a provider of *kind*."""
    return CallContext(kind=kind, now=NOW, **changes)


def failure(
    status: int, body: object = None, *, headers: object = (), kind: str = "openai-chat", **changes: object
) -> Failure | None:
    """What the classifier makes of a response: *body* is bytes, or what becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify_response(context(kind, **changes), status=status, headers=headers, body=read_body(data))


def openai(
    code: object = None, kind: object = "invalid_request_error", message: str = "no", **more: object
) -> object:
    """An error of OpenAI and of what speaks its language."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def anthropic(kind: str, message: str = "no", code: str | None = None) -> object:
    """An error of Anthropic; *code* is its stable discriminator."""
    details = {"details": {"error_code": code}} if code else {}
    return {"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "req_1"}


def openrouter(code: int, message: str = "no", **metadata: object) -> object:
    """An error of OpenRouter."""
    return {"error": {"code": code, "message": message, "metadata": metadata}}


def gemini(code: int, status: str, *details: object, message: str = "no") -> object:
    """An error of Gemini."""
    return {"error": {"code": code, "status": status, "message": message, "details": list(details)}}
