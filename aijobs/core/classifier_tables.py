"""The tables of the classifier: which words and statuses mean which class. Data, in order of evaluation.

The facts are the providers' documentation, their clients' sources and reports of operators. Words decide
before statuses: the same trouble comes under many statuses, and one status means many things. Messages are
read last, only on client errors, and never a whole body: it may repeat the prompt.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from aijobs.core.envelope import Envelope, at
from aijobs.core.model import ErrorClass

_E = ErrorClass

SLOW_DOWN = frozenset({"slow_down", "ramp_limit_exceeded"})
"""Codes of a `rate_limited` that ask for less load, not only for a pause."""

RESULT_LOST = "result_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a rule may look at. *status* is the HTTP status, or the body's own where HTTP said 200."""

    kind: str
    status: int
    envelope: Envelope
    waits: bool  # the provider gave a delay, in a header or in the body

    @property
    def limit_source(self) -> object:
        """OpenRouter's word on whose budget it was."""
        return self.envelope.at("metadata", "limit_source")

    @property
    def moderated(self) -> bool:
        """Whether OpenRouter says what in the input it did not like."""
        return any(self.envelope.at("metadata", name) for name in ("reasons", "flagged_input"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row. Every condition given must hold; *words* are codes or the type, *message* a last resort."""

    gives: ErrorClass
    words: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None  # of one code or the type, in full
    unless: frozenset[str] = frozenset()  # codes that contradict it
    statuses: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    message: re.Pattern[str] | None = None
    when: Callable[[Seen], bool] | None = None
    code: str | None = None  # what to call it where the provider has no word of its own
    quota: bool = False  # left out where `quota_patterns` says what means that money ran out


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _has(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _statuses(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


_REQUEST_STATUSES = _statuses(400, 403, 413, 414, 415, 422)
_CONTEXT_MESSAGE = _has(
    r"maximum context length|context window|context length|exceed(?:s|ed)? (?:the )?context (?:limit|size)"
    r"|prompt is too long|maximum number of tokens allowed|available context size|input tokens exceed"
    r"|max_tokens must be at least 1, got -|contextwindowexceedederror"
)


def _quota_of_google(seen: Seen) -> str:
    """The quota ids of Google's QuotaFailure, joined."""
    details = seen.envelope.at("details")
    ids: list[str] = []
    for detail in details[:20] if isinstance(details, list) else []:
        violations = at(detail, "violations")
        ids += [str(at(v, "quotaId")) for v in violations[:20]] if isinstance(violations, list) else []
    return " ".join(ids)


RULES: tuple[Rule, ...] = (
    # --- Money in flight is not money spent (OpenRouter) ---
    Rule(gives=_E.RATE_LIMITED, statuses=_statuses(402), code="in_flight_budget",
         when=lambda seen: seen.limit_source == "openrouter_in_flight_budget"),
    Rule(gives=_E.RATE_LIMITED, statuses=_statuses(402), kinds=_words("openai-chat openai-responses http"),
         when=lambda seen: seen.waits and not seen.limit_source, code="payment_pending"),
    Rule(gives=_E.QUOTA_EXHAUSTED, statuses=_statuses(402, 403), code="spend_limit", quota=True,
         when=lambda seen: bool(seen.limit_source)),
    # --- One request that is larger than the whole limit never fits ---
    Rule(gives=_E.INVALID_REQUEST, statuses=_statuses(429), words=_words("rate_limit_exceeded tokens"),
         message=_has(r"request too large"), code="request_too_large"),
    # --- Google tells per day from per minute ---
    Rule(gives=_E.QUOTA_EXHAUSTED, statuses=_statuses(429), code="quota_per_day", quota=True,
         when=lambda seen: "perday" in _quota_of_google(seen).lower()),
    Rule(gives=_E.RATE_LIMITED, statuses=_statuses(429), code="quota_per_minute",
         when=lambda seen: "perminute" in _quota_of_google(seen).lower()),
    # --- The money is gone, whatever the status ---
    Rule(gives=_E.QUOTA_EXHAUSTED, quota=True, unless=_words("rate_limit_exceeded slow_down"), words=_words(
        "credit_balance_exhausted organization_spend_limit_exceeded project_spend_limit_exceeded"
        " organization_usage_limit_exceeded insufficient_quota billing_hard_limit_reached billing_not_active"
        " enforced_spend_limit_reached contract_spend_limit_reached billing_error budget_exceeded"
        " quota_exceeded usage_limit_reached usage_not_included insufficient_credits")),
    Rule(gives=_E.QUOTA_EXHAUSTED, statuses=_statuses(400), code="spend_limit", quota=True,
         message=_has(r"\AYou have reached your specified (?:workspace )?API usage limits")),
    Rule(gives=_E.QUOTA_EXHAUSTED, statuses=_statuses(400), code="credit_balance_too_low", quota=True,
         message=_has(r"\AYour credit balance is too low")),
    Rule(gives=_E.QUOTA_EXHAUSTED, statuses=_statuses(429), code="insufficient_quota", quota=True,
         unless=_words("rate_limit_exceeded slow_down"), when=lambda seen: not seen.waits,
         message=_has(r"exceeded your current quota|check your plan and billing")),
    Rule(gives=_E.QUOTA_EXHAUSTED, statuses=_statuses(403), code="quota_exceeded", quota=True,
         message=_has(r"\bcall volume quota\b|\bquota (?:is |has been |was )?(?:exceeded|exhausted)\b")),
    # --- Throttling ---
    Rule(gives=_E.RATE_LIMITED, words=SLOW_DOWN),
    Rule(gives=_E.UNAVAILABLE, statuses=_statuses(429), words=_words("resource_unavailable"),
         code="resource_unavailable"),
    Rule(gives=_E.UNAVAILABLE, statuses=_statuses(429), message=_has(r"\bresource unavailable\b"),
         code="resource_unavailable"),
    Rule(gives=_E.UNAVAILABLE, words=_words("overloaded_error")),
    # --- Credentials and permissions ---
    Rule(gives=_E.AUTH, statuses=_statuses(400, 401, 403), words=_words(
        "api_key_invalid expired_key token_not_found_in_db invalid_api_key")),
    Rule(gives=_E.PERMISSION, statuses=_statuses(400, 403), words=_words(
        "organization_on_hold workspace_policy_violation failed_precondition")),
    Rule(gives=_E.PERMISSION, pattern=_has(r".*_model_access_denied")),
    Rule(gives=_E.UNAVAILABLE, words=_words("no_db_connection auth_provider_unavailable")),
    # --- Content ---
    Rule(gives=_E.CONTENT_POLICY, statuses=_statuses(400, 403, 422), words=_words(
        "content_filter content_policy_violation responsibleaipolicyviolation moderation_blocked"
        " invalid_prompt contentpolicyviolationerror")),
    Rule(gives=_E.CONTENT_POLICY, statuses=_statuses(400, 403, 422),
         pattern=_has(r".*_policy(?:_violation)?")),
    Rule(gives=_E.CONTENT_POLICY, statuses=_statuses(403), code="moderation",
         when=lambda seen: seen.moderated),
    Rule(gives=_E.CONTENT_POLICY, statuses=_statuses(400), code="content_filter",
         message=_has(r"content filtering policy|contentpolicyviolationerror")),
    # --- Size ---
    Rule(gives=_E.CONTEXT_LENGTH, statuses=_REQUEST_STATUSES, words=_words(
        "context_length_exceeded model_context_window_exceeded exceed_context_size_error"
        " max_tokens_exceeded contextwindowexceedederror")),
    Rule(gives=_E.CONTEXT_LENGTH, statuses=_REQUEST_STATUSES, unless=_words("string_above_max_length"),
         message=_CONTEXT_MESSAGE, code="context_length_exceeded"),
)  # fmt: skip
"""What a provider's words mean, before its status is looked at. The first row that fits decides."""

WORDS: Mapping[str, ErrorClass] = MappingProxyType(
    {
        word: gives
        for gives, words in {
            _E.UNAVAILABLE: "server_error internal_error internal_server_error internalservererror internal"
            " vector_store_timeout server_is_overloaded service_unavailable_error service_unavailable"
            " unavailable overloaded api_error aborted conflict_error",
            _E.RATE_LIMITED: "rate_limit_exceeded rate_limit_error rate_limited too_many_requests requests"
            " tokens resource_exhausted ratelimitreached ratelimiterror all_deployments_in_cooldown",
            _E.NETWORK_TIMEOUT: "timeout_error timeout deadline_exceeded request_timeout",
            _E.AUTH: "authentication_error invalid_api_key unauthenticated unauthorized auth_error",
            _E.PERMISSION: "permission_error permission_denied forbidden failed_precondition",
            _E.NOT_FOUND: "not_found_error model_not_found not_found notfounderror deploymentnotfound",
            _E.CONTENT_POLICY: "content_filter content_policy_violation invalid_prompt moderation_blocked"
            " image_content_policy_violation responsibleaipolicyviolation safety",
            _E.CONTEXT_LENGTH: "context_length_exceeded model_context_window_exceeded max_tokens_exceeded",
            _E.INVALID_REQUEST: "invalid_request_error badrequesterror invalid_argument request_too_large"
            " data_residency_mismatch failed_to_download_image unsupported_image_media_type empty_image_file"
            " out_of_range bad_request unprocessable_entity",
        }.items()
        for word in words.split()
    }
)
"""What a code or type means where no error status goes with it: behind a 200, or in a failed response."""

WORD_PATTERNS: tuple[tuple[re.Pattern[str], ErrorClass], ...] = (
    (_has(r".*_policy(?:_violation)?"), _E.CONTENT_POLICY),
    (_has(r"(?:invalid_)?image_.*|invalid_image.*"), _E.INVALID_REQUEST),
)
"""The same for whole families of codes."""

STATUSES: Mapping[int, ErrorClass] = MappingProxyType(
    {
        status: gives
        for gives, statuses in {
            _E.INVALID_REQUEST: (400, 405, 413, 414, 415, 422, 501, 505, 511, 526),
            _E.AUTH: (401, 407),
            _E.QUOTA_EXHAUSTED: (402,),
            _E.PERMISSION: (403,),
            _E.NOT_FOUND: (404, 410),
            _E.NETWORK_TIMEOUT: (408, 504, 522, 524, 598),
            _E.UNAVAILABLE: (409, 423, 425, 500, 502, 503, 520, 521, 523, 525, 527, 529, 530),
            _E.RATE_LIMITED: (429,),
            _E.NETWORK: (499,),
        }.items()
        for status in statuses
    }
)
"""What a status means when nothing else is known. Other 5xx are unavailable, the rest invalid_request."""

NOT_TAKEN = frozenset({503, 521, 523, 525, 526, 529, 530})
"""Server errors that say the request was never begun; behind the others it may have run and been billed."""

FINISHES: Mapping[str, ErrorClass | None] = MappingProxyType(
    {
        # Chat completions
        "stop": None, "tool_calls": None, "function_call": None, "eos": None, "eos_token": None,
        "length": _E.OUTPUT_TRUNCATED, "model_length": _E.OUTPUT_TRUNCATED,
        "content_filter": _E.CONTENT_POLICY,
        "insufficient_system_resource": _E.UNAVAILABLE,
        # Anthropic Messages
        "end_turn": None, "stop_sequence": None, "tool_use": None,
        "max_tokens": _E.OUTPUT_TRUNCATED, "model_context_window_exceeded": _E.OUTPUT_TRUNCATED,
        "refusal": _E.CONTENT_POLICY,
        "pause_turn": _E.BAD_RESPONSE,
        # Responses, `incomplete_details.reason`
        "max_output_tokens": _E.OUTPUT_TRUNCATED, "max_messages": _E.OUTPUT_TRUNCATED,
        "steered": _E.BAD_RESPONSE,
        # Gemini
        "safety": _E.CONTENT_POLICY, "recitation": _E.CONTENT_POLICY, "blocklist": _E.CONTENT_POLICY,
        "prohibited_content": _E.CONTENT_POLICY, "spii": _E.CONTENT_POLICY, "model_armor": _E.CONTENT_POLICY,
        "image_safety": _E.CONTENT_POLICY, "jailbreak": _E.CONTENT_POLICY,
        "malformed_function_call": _E.BAD_RESPONSE, "malformed_response": _E.BAD_RESPONSE,
        "other": _E.BAD_RESPONSE,
    }
)  # fmt: skip
"""Why an answer ended, in lower case: None is a proper end, the rest is a failure. An unknown reason is one
too, because only the protocol's own mark says that an answer is whole."""
