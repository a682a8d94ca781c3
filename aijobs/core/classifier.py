"""One answer to "what kind of failure is this?", from the fault, the provider's words, and the status.

Pure: adapters hand in what they saw and get a classified, redacted `Failure`. Nothing of httpx is known here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from aijobs.core.classifier_tables import (
    NOT_TAKEN,
    RESULT_LOST,
    RULES,
    STATUSES,
    WORD_PATTERNS,
    WORDS,
    Rule,
    Seen,
)
from aijobs.core.envelope import Body, Envelope, Form, find_error
from aijobs.core.hints import Headers, Hint, delay_hint
from aijobs.core.model import NO_CALL, CallFacts, ErrorClass, Failure, Phase
from aijobs.core.redaction import redact

_E = ErrorClass
_LONGEST_CODE = 100


class FaultKind(StrEnum):
    """How a call can fail without a response."""

    CONNECT_ERROR = "connect_error"  # refused, no route, unknown host
    PROXY_ERROR = "proxy_error"  # on the way to the tunnel
    CONNECT_TIMEOUT = "connect_timeout"
    POOL_TIMEOUT = "pool_timeout"  # no connection was free
    WRITE_TIMEOUT = "write_timeout"
    WRITE_ERROR = "write_error"
    READ_TIMEOUT = "read_timeout"
    TOTAL_DEADLINE = "total_deadline"  # of the whole call
    READ_ERROR = "read_error"
    CLOSE_ERROR = "close_error"
    REMOTE_PROTOCOL = "remote_protocol"  # hung up early, or did not speak HTTP
    DECODING = "decoding"  # said to be compressed, and is not
    TOO_LARGE = "too_large"  # above max_response_bytes
    TLS_CONFIG = "tls_config"  # certificate refused, or TLS spoken to a plain port
    LOCAL_PROTOCOL = "local_protocol"  # a header that must not be sent
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    INVALID_URL = "invalid_url"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    UNEXPECTED = "unexpected"  # a fault of our own code


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportFault:
    """A call that brought no response: what happened, how far it had got, in whose words, after how long."""

    kind: FaultKind
    phase: Phase
    detail: str = ""
    elapsed_seconds: float | None = None


_K = FaultKind

FAULTS: Mapping[FaultKind, tuple[ErrorClass, str]] = MappingProxyType(
    {
        _K.CONNECT_ERROR: (_E.NETWORK, "no connection"),
        _K.PROXY_ERROR: (_E.NETWORK, "no connection through the proxy"),
        _K.CONNECT_TIMEOUT: (_E.NETWORK_TIMEOUT, "no connection in time"),
        _K.POOL_TIMEOUT: (_E.INTERNAL, "no connection was free in time"),
        _K.WRITE_TIMEOUT: (_E.NETWORK_TIMEOUT, "the request could not be sent in time"),
        _K.WRITE_ERROR: (_E.NETWORK, "the connection broke while sending"),
        _K.READ_TIMEOUT: (_E.NETWORK_TIMEOUT, "no answer in time"),
        _K.TOTAL_DEADLINE: (_E.NETWORK_TIMEOUT, "not done within the time for the whole call"),
        _K.READ_ERROR: (_E.NETWORK, "the connection broke before the end of the answer"),
        _K.CLOSE_ERROR: (_E.NETWORK, "the connection broke while closing"),
        _K.REMOTE_PROTOCOL: (_E.NETWORK, "the provider hung up, or did not speak HTTP"),
        _K.DECODING: (_E.BAD_RESPONSE, "the answer could not be decompressed"),
        _K.TOO_LARGE: (_E.BAD_RESPONSE, "the answer is too large"),
        _K.TLS_CONFIG: (_E.INVALID_REQUEST, "TLS failed: see base_url and the certificates"),
        _K.LOCAL_PROTOCOL: (_E.INVALID_REQUEST, "the request can't be sent as configured"),
        _K.UNSUPPORTED_PROTOCOL: (_E.INVALID_REQUEST, "base_url can't be called"),
        _K.INVALID_URL: (_E.INVALID_REQUEST, "base_url is not a URL"),
        _K.TOO_MANY_REDIRECTS: (_E.INVALID_REQUEST, "redirected in a circle"),
        _K.UNEXPECTED: (_E.INTERNAL, "a fault in aijobs itself"),
    }
)
"""The class of each fault, and what to say of it. The phase tells whether the work may have been done."""

_NEVER_SENT = frozenset(
    {
        _K.CONNECT_ERROR, _K.PROXY_ERROR, _K.CONNECT_TIMEOUT, _K.POOL_TIMEOUT, _K.TLS_CONFIG,
        _K.LOCAL_PROTOCOL, _K.UNSUPPORTED_PROTOCOL, _K.INVALID_URL,
    }
)  # fmt: skip


class Operation(StrEnum):
    """What the call asked for."""

    SUBMIT = "submit"
    POLL = "poll"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What is known of a call before its outcome: whose dialect, when, and what must not be repeated.

    *secrets* are the provider's credentials, *echo_of* tells the job's input; neither is in any `Failure`.
    *quota_patterns*, if given, replace the built-in words for "the money is gone": regular expressions over
    code and message of a refusal; an empty tuple says that this provider has none (some call a rate limit
    "insufficient quota").
    """

    kind: str
    now: datetime
    operation: Operation = Operation.SUBMIT
    secrets: tuple[str, ...] = ()
    echo_of: Callable[[], str] | None = None  # asked of a failure only: to write an input out takes time
    quota_patterns: tuple[str, ...] | None = None
    expects_json: bool = False
    facts: CallFacts = NO_CALL


def classify_fault(fault: TransportFault, context: CallContext) -> Failure:
    """The failure that a call without a response is."""
    error_class, words = FAULTS[fault.kind]
    facts = replace(context.facts, phase=fault.phase, elapsed_seconds=fault.elapsed_seconds)
    return failure_of(
        replace(context, facts=facts),
        error_class,
        code=fault.kind.value,
        message=f"{words}: {fault.detail}" if fault.detail else words,
        maybe_billed=fault.phase.maybe_billed and fault.kind not in _NEVER_SENT,
    )


def classify_response(context: CallContext, *, status: int, headers: Headers, body: Body) -> Failure | None:
    """The failure that a response is; None for a 2xx that names no error (`core/answers.py` looks further).

    A number that a gateway hides in the body of a 200 is taken for the status.
    """
    failed = not 200 <= status < 300
    envelope = find_error(body.value, failed=failed)
    if envelope is None:
        if not failed:
            return None
        envelope = Envelope(error={})  # a page, a text, nothing: no pattern is held against those
    headers = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    context = replace(context, facts=replace(context.facts, http_status=status))
    waits = delay_hint(headers, body.value, context.now, throttled=False)  # said in so many words
    apparent = status if failed else envelope.status or 0
    seen = Seen(kind=context.kind, status=apparent, envelope=envelope, waits=waits.delay is not None)
    error_class, code = classify(seen, context)
    hint = delay_hint(
        headers, body.value, context.now, message=envelope.message, throttled=error_class in _THROTTLED
    )
    return failure_of(
        context,
        error_class,
        code=code,
        message=_message(status, envelope.message or _page(body), hint),
        hint=hint,
        maybe_billed=_maybe_billed(context, status, code),
        force_retry=_should_retry(headers),
    )


_THROTTLED = frozenset({_E.RATE_LIMITED, _E.QUOTA_EXHAUSTED})


def classify(seen: Seen, context: CallContext) -> tuple[ErrorClass, str | None]:
    """The class of an error and the code to call it by: provider's words, then status, then general words."""
    envelope, status = seen.envelope, seen.status
    if context.operation is Operation.POLL and status in (404, 410):
        return _E.BAD_RESPONSE, RESULT_LOST
    if context.quota_patterns is not None and _any_matches(context.quota_patterns, seen):
        return _E.QUOTA_EXHAUSTED, envelope.code
    for rule in RULES:
        if not (rule.quota and context.quota_patterns is not None) and fits(rule, seen):
            return rule.gives, rule.code or _word_for(rule, envelope)
    if status >= 300:
        by_status = _E.UNAVAILABLE if status >= 500 else _E.INVALID_REQUEST
        return STATUSES.get(status, by_status), envelope.code or str(status)
    return _by_words(envelope), envelope.code or "error_in_answer"


def fits(rule: Rule, seen: Seen) -> bool:
    """Whether every condition of *rule* holds."""
    envelope = seen.envelope
    if rule.statuses and seen.status not in rule.statuses:
        return False
    if rule.kinds and seen.kind not in rule.kinds:
        return False
    if rule.unless.intersection(envelope.codes):
        return False
    if (rule.words or rule.pattern) and _word_for(rule, envelope) is None:
        return False
    if rule.message and not rule.message.search(envelope.message):
        return False
    return rule.when is None or rule.when(seen)


def _word_for(rule: Rule, envelope: Envelope) -> str | None:
    """The code or type that *rule* is about; where it is about something else, what the provider calls it."""
    words: list[str] = [*envelope.codes, *([envelope.type] if envelope.type else [])]
    if not rule.words and not rule.pattern:
        return envelope.code
    for word in words:
        if word in rule.words or (rule.pattern and rule.pattern.fullmatch(word)):
            return word
    return None


def _by_words(envelope: Envelope) -> ErrorClass:
    for word in (*envelope.codes, envelope.type or ""):
        if word in WORDS:
            return WORDS[word]
        for pattern, gives in WORD_PATTERNS:
            if pattern.fullmatch(word):
                return gives
    return _E.BAD_RESPONSE


def _any_matches(patterns: tuple[str, ...], seen: Seen) -> bool:
    texts = (*seen.envelope.codes, seen.envelope.type or "", seen.envelope.message)
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns for text in texts)


def _maybe_billed(context: CallContext, status: int, code: str | None) -> bool:
    if context.operation is not Operation.SUBMIT:
        return True  # there is work that somebody was asked about
    if status >= 500:
        return status not in NOT_TAKEN or code == "change_outcome_unknown"
    return status < 300 or status in (408, 499)


def _should_retry(headers: list[tuple[str, str]]) -> bool | None:
    said = [value.strip().lower() for name, value in headers if name.lower() == "x-should-retry"]
    return {"true": True, "false": False}.get(said[-1]) if said else None


_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{1,300})", re.IGNORECASE)


def _page(body: Body) -> str:
    """What there is to say of a body that has no error in it."""
    match body.form:
        case Form.EMPTY:
            return "no body"
        case Form.HTML:
            title = _TITLE.search(body.text)
            return f"a page instead of JSON: {title[1].strip() if title else body.text}"
        case _:
            return body.text


def _message(status: int, said: str, hint: Hint) -> str:
    if status < 300:
        lead = "the answer is an error"
    elif status < 400:
        lead = f"HTTP {status}, moved elsewhere (redirects are not followed)"
    else:
        lead = f"HTTP {status}"
    notes = f" ({'; '.join(hint.notes)})" if hint.notes else ""
    return f"{lead}{notes}: {said}" if said else lead + notes


def failure_of(
    context: CallContext,
    error_class: ErrorClass,
    *,
    code: str | None,
    message: str,
    hint: Hint | None = None,
    maybe_billed: bool,
    force_retry: bool | None = None,
) -> Failure:
    """A `Failure` of *context*'s call; code and message lose secrets, addresses and the job's input here."""
    return Failure(
        error_class=error_class,
        code=redact(code, secrets=context.secrets, limit=_LONGEST_CODE) if code else None,
        message=redact(message, secrets=context.secrets, echo_of=context.echo_of and context.echo_of()),
        hint=hint.delay if hint else None,
        maybe_billed=maybe_billed,
        force_retry=force_retry,
        facts=context.facts,
    )
