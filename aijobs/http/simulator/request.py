"""Reads one request: what it asks of the model, whose job it is, and what it asks of the simulator itself."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from hashlib import sha256
from typing import Any

from aijobs.core.clock import Chance
from aijobs.core.durations import parse_duration
from aijobs.core.faults import parse_faults

Body = dict[str, Any]

_OUR_CALL = re.compile(r"aijobs-(?P<job>.+)-\d+")
_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


class Api(StrEnum):
    """Whose dialect a path speaks."""

    RESPONSES = "responses"
    CHAT = "chat"
    MESSAGES = "messages"
    ECHO = "echo"


@dataclass(frozen=True, slots=True)
class Latency:
    """How long an answer takes: drawn evenly between two bounds, in seconds."""

    low: float = 0.0
    high: float = 0.0

    def draw(self, chance: Chance) -> float:
        """Seconds for one answer."""
        return self.low + (self.high - self.low) * chance.random() if self.high > self.low else self.low


NO_LATENCY = Latency()


def parse_latency(text: str) -> Latency:
    """Seconds or a duration, or two of them: `0.2`, `200ms`, `1s-3s`. Raises ValueError."""
    low, dash, high = text.strip().partition("-")
    latency = Latency(_seconds(low), _seconds(high) if dash else _seconds(low))
    if latency.high < latency.low:
        raise ValueError(f"latency {text!r}: the upper bound is below the lower one")
    return latency


def _seconds(text: str) -> float:
    if _SECONDS.fullmatch(text.strip()):
        return float(text)
    try:
        return parse_duration(text.strip()).total_seconds()
    except ValueError:
        raise ValueError(f"{text!r} is not a latency: write 0.2, 200ms, 2s or 100ms-2s") from None


class Refused(Exception):  # an answer, not an accident
    """The request is not one the real API would take."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a request asks of the simulator: its fault, latency and text, and a key to count it under."""

    fault: str | None = None
    latency: Latency | None = None
    key: str | None = None
    reply: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, understood. *job* is what faults are counted by: ours, or the nearest thing to one."""

    api: Api
    headers: Mapping[str, str]
    body: Body
    raw: bytes
    request_id: str
    model: str
    text: str
    job: str
    orders: Orders

    @property
    def background(self) -> bool:
        """Whether it may be answered before the work is done."""
        return self.api is Api.RESPONSES and self.body.get("background") is True

    @property
    def client_request_id(self) -> str | None:
        """The id the caller gave this call; every attempt has its own."""
        return self.headers.get("x-client-request-id")

    @property
    def idempotency_key(self) -> str | None:
        """The id the caller gave this work; the same over its attempts."""
        return self.headers.get("idempotency-key")

    @property
    def max_output_tokens(self) -> int | None:
        """The caller's bound on the answer, under whichever name this API has for it."""
        for name in ("max_output_tokens", "max_completion_tokens", "max_tokens"):
            if isinstance(limit := self.body.get(name), int):
                return limit
        return None


def understand(api: Api, headers: Mapping[str, str], *, raw: bytes, request_id: str) -> Asked:
    """The request behind *raw*; *request_id* is the name we give it. Raises Refused."""
    body = _json_object(raw)
    _check_client_id(headers)
    text = _CHECKS[api](body, headers)
    return Asked(
        api=api,
        headers=headers,
        body=body,
        raw=raw,
        request_id=request_id,
        model=str(body.get("model", "")),
        text=text,
        job=_job(headers, body, raw),
        orders=_orders(headers, body, text),
    )


def _json_object(raw: bytes) -> Body:
    try:
        body = json.loads(raw)
    except ValueError:
        raise Refused(400, "We could not parse the JSON body of your request.") from None
    if not isinstance(body, dict):
        raise Refused(400, "The body of the request must be a JSON object.")
    return body


def _check_client_id(headers: Mapping[str, str]) -> None:
    given = headers.get("x-client-request-id", "")
    if len(given) > 512 or not given.isascii():
        raise Refused(400, "X-Client-Request-Id must be ASCII and at most 512 characters.")


def _check_responses(body: Body, _: Mapping[str, str]) -> str:
    _require(body, "model", str)
    if not body.get("input") or not isinstance(body["input"], str | list):
        raise Refused(
            400, "Missing required parameter: 'input'.", param="input", code="missing_required_parameter"
        )
    _check_shared(body)
    if body.get("background_options") and body.get("background") is not True:
        raise Refused(400, "'background_options' needs 'background'.", param="background_options")
    return _join(body.get("instructions"), _content(body["input"]))


def _check_chat(body: Body, _: Mapping[str, str]) -> str:
    _require(body, "model", str)
    _require(body, "messages", list)
    _check_shared(body)
    return _content(body["messages"])


def _check_messages(body: Body, headers: Mapping[str, str]) -> str:
    version = headers.get("anthropic-version")
    if not version:
        raise Refused(400, "anthropic-version: header is required")
    _require(body, "model", str)
    _require(body, "max_tokens", int)
    _require(body, "messages", list)
    _check_shared(body)
    sampling = [name for name in ("temperature", "top_p", "top_k") if name in body]
    if sampling and version >= "2026":
        raise Refused(400, f"{sampling[0]}: not allowed in version {version}", param=sampling[0])
    return _join(_content(body.get("system")), _content(body["messages"]))


def _check_echo(body: Body, _: Mapping[str, str]) -> str:
    for name in ("prompt", "input", "text"):
        if isinstance(body.get(name), str):
            return str(body[name])
    return json.dumps(body, ensure_ascii=False)


_CHECKS = {
    Api.RESPONSES: _check_responses,
    Api.CHAT: _check_chat,
    Api.MESSAGES: _check_messages,
    Api.ECHO: _check_echo,
}


def _require(body: Body, name: str, kind: type) -> None:
    value = body.get(name)
    if not isinstance(value, kind) or not value:
        raise Refused(
            400, f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter"
        )


def _check_shared(body: Body) -> None:
    if body.get("stream"):
        raise Refused(400, "Streaming is not simulated.", param="stream", code="unsupported_value")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or len(metadata) > 16:
        raise Refused(400, "Invalid 'metadata': at most 16 pairs.", param="metadata")
    for name, value in metadata.items():
        if len(name) > 64 or not isinstance(value, str) or len(value) > 512:
            raise Refused(
                400, f"Invalid 'metadata.{name[:64]}': keys up to 64, string values up to 512 characters.",
                param="metadata",
            )  # fmt: skip


def _content(value: object) -> str:
    """The text in a message, a list of messages, or a list of parts of one."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _join(*map(_content, value))
    if isinstance(value, dict):
        return _content(value.get("text") or value.get("content"))
    return ""


def _join(*parts: object) -> str:
    return "\n".join(str(part) for part in parts if part)


def _job(headers: Mapping[str, str], body: Body, raw: bytes) -> str:
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("aijobs_job_id"):
        return str(metadata["aijobs_job_id"])
    given = headers.get("x-client-request-id")
    ours = _OUR_CALL.fullmatch(given or "")
    return ours["job"] if ours else headers.get("idempotency-key") or given or sha256(raw).hexdigest()


def _orders(headers: Mapping[str, str], body: Body, text: str) -> Orders:
    said = _said_inside(body, text)
    for name in ("fault", "latency", "key", "reply"):
        if header := headers.get(f"x-simulator-{name}"):
            said[name] = header
    if unknown := said.keys() - {field.name for field in fields(Orders)}:
        raise Refused(400, f"simulator: unknown {', '.join(sorted(unknown))}", param="simulator")
    texts = {name: str(value) for name, value in said.items() if value is not None}
    try:
        parse_faults(texts.get("fault", ""))
        latency = parse_latency(texts["latency"]) if "latency" in texts else None
    except ValueError as error:
        raise Refused(400, f"simulator: {error}", param="simulator") from None
    return Orders(fault=texts.get("fault"), latency=latency, key=texts.get("key"), reply=texts.get("reply"))


def _said_inside(body: Body, text: str) -> Body:
    """The `simulator` object in the body, in its metadata (as JSON text), or in an input that is JSON."""
    metadata = body.get("metadata")
    found = body.get("simulator") or (metadata.get("simulator") if isinstance(metadata, dict) else None)
    if not found and '"simulator"' in text and (start := text.find("{")) >= 0:
        inner = _lenient(text[start:])
        found = inner.get("simulator") if isinstance(inner, dict) else None
    if isinstance(found, str):
        found = _lenient(found) if found.startswith("{") else {"fault": found}
    return dict(found) if isinstance(found, dict) else {}


def _lenient(text: str) -> object:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    return value
