"""Error answers: every refusal in its API's own envelope, with the headers that come with it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.utils import format_datetime

from aijobs.core.faults import Fault
from aijobs.http.simulator.reply import HTML, JSON, Reply, as_json
from aijobs.http.simulator.request import Api, Asked, Refused


@dataclass(frozen=True, slots=True)
class _Refusal:
    """One way to say no: *code* and *type* as OpenAI writes them, *anthropic* the two words of Messages."""

    status: int
    message: str
    code: str | None = None
    type: str | None = None
    anthropic: str | None = None
    detail: str | None = None  # Anthropic's error.details.error_code
    param: str | None = None


_RATE = "Rate limit reached for requests. Please slow down."
_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_LIMIT = "rate_limit_exceeded"

_REFUSALS = {
    "429": _Refusal(429, _RATE, _LIMIT, "requests", "rate_limit_error"),
    "429_slow_down": _Refusal(
        429, "Your traffic grew too fast. Please slow down.", "slow_down", "rate_limit_error",
        "rate_limit_error", "ramp_limit_exceeded",
    ),
    "429_too_large": _Refusal(
        429, "Request too large for this model: tokens per min (TPM): Limit 30000, Requested 90000.", _LIMIT,
        "tokens", "rate_limit_error",
    ),
    "429_flex": _Refusal(429, "Flex: resource unavailable, try later.", "resource_unavailable", "tokens"),
    "429_spend_limit": _Refusal(
        429, _QUOTA, "insufficient_quota", "insufficient_quota", "rate_limit_error",
        "enforced_spend_limit_reached",
    ),
    "400": _Refusal(400, "The request is not valid.", None, "invalid_request_error"),
    "400_spend_limit": _Refusal(
        400, "You have reached your specified API usage limits. You will regain access next month.", None,
        "invalid_request_error",
    ),
    "400_context": _Refusal(
        400, "This model's maximum context length is 8192 tokens: the prompt is too long.",
        "context_length_exceeded", "invalid_request_error", param="input",
    ),
    "400_policy": _Refusal(
        400, "The output was blocked by the content filtering policy.", "content_policy_violation",
        "invalid_request_error",
    ),
    "400_should_retry": _Refusal(400, "The request is not valid just now.", None, "invalid_request_error"),
    "401": _Refusal(
        401, "Incorrect API key provided.", "invalid_api_key", "invalid_request_error",
        "authentication_error",
    ),
    "402": _Refusal(402, "Your credit balance is too low.", None, "billing_error", "billing_error"),
    "402_inflight": _Refusal(402, "Too much spend in flight.", "402", "billing_error", "billing_error"),
    "403": _Refusal(
        403, "Your project may not use this model.", None, "invalid_request_error", "permission_error",
    ),
    "404": _Refusal(
        404, "There is no such thing here.", "model_not_found", "invalid_request_error", "not_found_error",
    ),
    "408": _Refusal(408, "The request took too long.", None, "timeout", "timeout_error"),
    "409": _Refusal(409, "It is locked by another request.", None, "conflict", "conflict_error"),
    "413": _Refusal(413, "The request is too large.", None, "invalid_request_error", "request_too_large"),
    "422_budget": _Refusal(422, "Budget has been exceeded.", "422", "budget_exceeded"),
    "500": _Refusal(500, "The server had an error with your request.", "server_error", "server_error"),
    "503_overloaded": _Refusal(
        503, "The server is overloaded.", "server_is_overloaded", "service_unavailable_error",
        "overloaded_error",
    ),
    "504": _Refusal(504, "The gateway gave up waiting.", None, "server_error", "timeout_error"),
    "529": _Refusal(529, "Overloaded.", "server_is_overloaded", "overloaded_error", "overloaded_error"),
}  # fmt: skip

_LIKE = {
    "429_ms": "429",
    "429_httpdate": "429",
    "429_reset": "429",
    "429_azure": "429",
    "429_nonsense": "429",
    "429_no_hint": "429",
    "500_no_retry": "500",
    "503": "503_overloaded",
    "rate_limit": "429",
    "concurrency_limit": "429",
}
_MONEY = (
    "429_insufficient_quota",
    "429_credit_balance_exhausted",
    "429_organization_spend_limit_exceeded",
    "429_project_spend_limit_exceeded",
    "429_organization_usage_limit_exceeded",
)
_PAGES = {"500_html": 500, "524_html": 524}
_ODD = ("429_scaleway_string", "524_problem_json", "302", "400_echo", "401_echo_key")


def is_refusal(name: str) -> bool:
    """Whether the fault *name* answers with an error status."""
    return (
        name.isdigit()
        or name in _LIKE
        or name in _MONEY
        or name in _PAGES
        or name in _ODD
        or name in _REFUSALS
    )


def refuse(fault: Fault, asked: Asked, now: datetime) -> Reply:
    """The error answer *fault* stands for."""
    name = fault.name
    if name in _PAGES:
        return Reply(status=_PAGES[name], headers=HTML, body=_page(_PAGES[name]))
    if name in _ODD:
        return _odd(name, asked)
    if name in _MONEY:
        refusal = _Refusal(429, _QUOTA, name.removeprefix("429_"), "insufficient_quota", "rate_limit_error",
                           "enforced_spend_limit_reached")  # fmt: skip
    else:
        refusal = _REFUSALS.get(_LIKE.get(name, name)) or _plain(int(name))
    return _answer(asked.api, refusal, _hint(fault, asked.api, now), asked.request_id)


def refuse_plainly(api: Api, refused: Refused, request_id: str) -> Reply:
    """The error answer to a request that the real API would not take either."""
    refusal = _REFUSALS.get(str(refused.status)) or _plain(refused.status)
    mine = _Refusal(
        refused.status, refused.message, refused.code, refusal.type, refusal.anthropic, None, refused.param
    )
    return _answer(api, mine, {}, request_id)


def error_object(asked: Asked, name: str) -> dict[str, object]:
    """The body of refusal *name*, for answers that hide it behind another status."""
    return _envelope(asked.api, _REFUSALS[name], asked.request_id)


def _plain(status: int) -> _Refusal:
    if status >= 500:
        return _Refusal(
            status, f"The server had an error ({status}).", "server_error", "server_error", "api_error"
        )
    return _Refusal(status, f"The request failed ({status}).", None, "invalid_request_error")


def _answer(api: Api, refusal: _Refusal, headers: dict[str, str], request_id: str) -> Reply:
    body = as_json(_envelope(api, refusal, request_id))
    return Reply(status=refusal.status, headers={**JSON, **headers}, body=body)


def _envelope(api: Api, refusal: _Refusal, request_id: str) -> dict[str, object]:
    if api is Api.ECHO:
        return {"error": {"code": refusal.code or refusal.type, "message": refusal.message}}
    if api is Api.MESSAGES:
        error: dict[str, object] = {"type": _anthropic_type(refusal), "message": refusal.message}
        if refusal.detail:
            error["details"] = {"error_code": refusal.detail}
        return {"type": "error", "error": error, "request_id": request_id}
    return {
        "error": {
            "message": refusal.message, "type": refusal.type, "param": refusal.param, "code": refusal.code,
        }
    }  # fmt: skip


def _anthropic_type(refusal: _Refusal) -> str:
    if refusal.anthropic:
        return refusal.anthropic
    if refusal.status == 429:
        return "rate_limit_error"
    return "api_error" if refusal.status >= 500 else "invalid_request_error"


def _hint(fault: Fault, api: Api, now: datetime) -> dict[str, str]:
    """The headers that say, well or badly, when to come back."""
    seconds = 1.0 if fault.number is None else fault.number
    match fault.name:
        case "429" | "429_slow_down" | "429_flex" | "402_inflight" | "503" | "503_overloaded":
            return {"retry-after": f"{seconds:g}", **_exhausted(api, now, timedelta(seconds=seconds))}
        case "rate_limit" | "concurrency_limit":
            return {"retry-after": "1", **_exhausted(api, now, timedelta(seconds=1))}
        case "429_ms":
            millis = 1500 if fault.number is None else fault.number
            return {"retry-after-ms": f"{millis:g}", "retry-after": "2"}
        case "429_httpdate":
            ahead = timedelta(seconds=2 if fault.number is None else fault.number)
            return {"retry-after": format_datetime(now + ahead, usegmt=True)}
        case "429_reset":
            return _exhausted(api, now, timedelta(minutes=6))
        case "429_azure":
            return {
                f"x-ratelimit-{what}-tokens": value for what, value in (("remaining", "-1"), ("reset", "0"))
            }
        case "429_nonsense":
            return {"retry-after": "soon"}
        case "500_no_retry":
            return {"x-should-retry": "false"}
        case "400_should_retry":
            return {"x-should-retry": "true"}
        case _:
            return {}


def _exhausted(api: Api, now: datetime, wait: timedelta) -> dict[str, str]:
    if api is Api.MESSAGES:
        reset = (now + wait).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": reset}
    return {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": go_duration(wait),
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "12000",
        "x-ratelimit-reset-tokens": "1.2s",
    }


def go_duration(wait: timedelta) -> str:
    """*wait* as Go prints it: `6m0s`, `1.5s`, `12ms`."""
    seconds = wait.total_seconds()
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest:g}s"


def _odd(name: str, asked: Asked) -> Reply:
    match name:
        case "429_scaleway_string":
            body = {"error": "INSUFFICIENT QUOTA", "message": "Requests per minute exceeded.", "status": 429}
            return Reply(status=429, headers=JSON, body=as_json(body))
        case "524_problem_json":
            problem = {"type": "about:blank", "title": "Error 524: a timeout occurred", "status": 524,
                       "detail": "The origin did not answer in time."}  # fmt: skip
            return Reply(
                status=524, headers={"content-type": "application/problem+json"}, body=as_json(problem)
            )
        case "302":
            return Reply(status=302, headers={"location": "/elsewhere"})
        case "400_echo":
            refusal = _Refusal(400, f"Invalid input: {asked.text}", None, "invalid_request_error")
            return _answer(asked.api, refusal, {}, asked.request_id)
        case _:
            key = asked.headers.get("authorization") or asked.headers.get("x-api-key") or ""
            said = f"Incorrect API key provided: {key.removeprefix('Bearer ')}"
            return _answer(asked.api, replace(_REFUSALS["401"], message=said), {}, asked.request_id)


def _page(status: int) -> bytes:
    return (
        f"<!DOCTYPE html><html><head><title>{status}</title></head>"
        f"<body><center><h1>Error {status}</h1></center><hr><center>edge</center></body></html>"
    ).encode()
