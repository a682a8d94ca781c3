"""What can go wrong at a provider, by name, and the small grammar that asks a simulator for it.

    SPEC = RULE ("," RULE)*              RULE = NAME ["=" NUMBER] [":" CHANCE] ["x" TIMES]

`429` always · `429=2` its number (here Retry-After: 2) · `429:0.3` with that chance · `429x3` the first
three times for each job, then well again · `429x2,500x1` one after the other. Rules are tried in order, and
the first that applies at a stage of a job wins. The stages are apart from each other, so that
`complete_after_n_polls=2,webhook_duplicate` does both. In front of any name of the first stage, `poll_` moves
it to the question what became of background work, and `cancel_` to the request to stop it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType

from aijobs.core.clock import Chance


class Stage(StrEnum):
    """Where in a job's life at a provider a fault strikes."""

    SUBMIT = ""  # the answer to the call that asks for the work
    WORK = "work"  # the work itself: how it ends, when, or that it never does
    POLL = "poll"
    CANCEL = "cancel"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One rule of a specification: *name* strikes at *stage*.

    *number* belongs to the name (seconds, polls, a limit), *chance* is in (0, 1], *times* counts per job.
    None means the name's default, always, and for ever.
    """

    name: str
    stage: Stage
    number: float | None = None
    chance: float | None = None
    times: int | None = None

    def __str__(self) -> str:
        prefix = f"{self.stage}_" if self.stage in (Stage.POLL, Stage.CANCEL) else ""
        number = "" if self.number is None else f"={self.number:g}"
        chance = "" if self.chance is None else f":{self.chance:g}"
        times = "" if self.times is None else f"x{self.times}"
        return f"{prefix}{self.name}{number}{chance}{times}"


REPLIES: Mapping[str, str] = MappingProxyType(
    {
        "ok": "nothing is wrong (to begin a sequence: `okx1,500`)",
        "slow": "answers after NUMBER seconds (2)",
        "drip": "one byte every NUMBER seconds (0.3)",
        "429": "rate limited, Retry-After: NUMBER seconds (1)",
        "429_ms": "rate limited, retry-after-ms: NUMBER milliseconds (1500) beside Retry-After: 2",
        "429_httpdate": "rate limited, Retry-After is a date NUMBER seconds ahead (2)",
        "429_reset": "rate limited, only x-ratelimit-reset-*: requests 6m0s, tokens 1.2s",
        "429_azure": "rate limited, remaining -1 and reset 0: unknown",
        "429_nonsense": "rate limited, Retry-After: soon",
        "429_no_hint": "rate limited, no word on when to come back",
        "429_slow_down": "rate limited, code slow_down",
        "429_too_large": "one request above the limit: it never fits",
        "429_flex": "no capacity for the flex tier",
        "429_insufficient_quota": "out of money, the code older deployments send",
        "429_credit_balance_exhausted": "out of money",
        "429_organization_spend_limit_exceeded": "out of money",
        "429_project_spend_limit_exceeded": "out of money",
        "429_organization_usage_limit_exceeded": "out of money",
        "429_spend_limit": "out of money, as Anthropic says it: no Retry-After",
        "429_scaleway_string": "a rate limit that calls itself INSUFFICIENT QUOTA, the error being a string",
        "400_spend_limit": "out of money as a 400",
        "400_context": "the prompt is too long",
        "400_policy": "refused by the content policy",
        "402_inflight": "too much money in flight: a 402 that may be retried",
        "400_echo": "a bad request, and the error repeats the input",
        "401_echo_key": "a wrong key, and the error repeats it",
        "422_budget": "a gateway's budget is used up",
        "503_overloaded": "overloaded, Retry-After: NUMBER seconds (1)",
        "500_no_retry": "a server error with x-should-retry: false",
        "400_should_retry": "a bad request with x-should-retry: true",
        "500_html": "a proxy's page instead of JSON",
        "524_html": "the edge gave up waiting, as a page",
        "524_problem_json": "the edge gave up waiting, as problem+json",
        "302": "moved elsewhere",
        "200_error_obj": "200, and the body is an error",
        "200_null": "200, and the body is null",
        "200_array": "200, and the body is a list",
        "200_empty": "200 without a body",
        "200_html": "200 with a page",
        "200_truncated_json": "200, and the JSON stops half-way",
        "choices_empty": "no choices, no output",
        "choices_null": "choices and output are null",
        "finish_length": "the text is cut at the output limit",
        "finish_length_null_content": "the output limit was used up before any text",
        "finish_error": "a gateway's finish_reason: error",
        "finish_filter": "the text was filtered",
        "refusal": "the model refuses",
        "empty_output": "success, and no text",
        "status_in_progress": "a foreground call comes back unfinished",
        "status_unknown": "a status nobody has seen",
        "status_missing": "no status",
        "close_before_headers": "the connection closes before an answer",
        "rst": "the connection is reset before an answer",
        "not_http": "bytes that are no HTTP, then the end",
        "short_body": "fewer bytes than announced",
        "chunked_cut": "chunks without the last one",
        "header_hang": "no answer at all, for NUMBER seconds (until the caller leaves)",
        "body_hang": "headers and half a body, then nothing",
        "gzip_truncated": "compressed, cut, and the length is right",
        "gzip_bad": "said to be compressed, and is not",
        "close_after_reply": "a good answer, then the kept connection closes without a word",
        "rate_limit": "429 above NUMBER calls in a second (5)",
        "concurrency_limit": "429 above NUMBER calls at once (5)",
    }
)
"""Faults of an answer: by themselves to the call that asks for work, with `poll_` or `cancel_` to the others.
Any status from 400 to 599 is a name as well."""

WORK: Mapping[str, str] = MappingProxyType(
    {
        "queued_forever": "accepted and never begun",
        "in_progress_forever": "begun and never done",
        "stale_snapshot": "done, and still said to be in progress",
        "complete_after_n_polls": "done when asked for the NUMBERth time (3)",
        "incomplete_max": "incomplete: max_output_tokens",
        "incomplete_filter": "incomplete: content_filter",
        "failed_server_error": "failed: server_error",
        "failed_context": "failed: context_length_exceeded",
        "failed_429_in_200": "failed: rate_limit_exceeded, try again in NUMBER seconds (1.5)",
        "failed_null": "failed without an error",
        "cancelled_by_provider": "cancelled, and nobody asked",
        "cancelled_then_completed": "says cancelled when cancelled (or after a poll), and completed later",
        "expired": "a last status nobody has seen",
    }
)
"""How the work itself ends."""

WEBHOOKS: Mapping[str, str] = MappingProxyType(
    {
        "webhook_before_response": "sent before the answer to the call that asked for the work",
        "webhook_duplicate": "sent twice under one id",
        "webhook_late": "sent NUMBER seconds late (2)",
        "webhook_never": "not sent",
        "webhook_out_of_order": "a late contradiction: response.failed after response.completed",
        "webhook_bad_sig": "signed with another secret",
        "webhook_garbage_sig": "a signature header that is no signature",
        "webhook_two_sigs": "two signatures, the first by a retired secret",
        "webhook_old_ts": "signed well, NUMBER seconds ago (600)",
        "webhook_unknown_type": "an event type nobody knows",
    }
)
"""How the word that it is done arrives."""

_ALIASES: Mapping[str, tuple[str, int | None]] = MappingProxyType(
    {
        "timeout": ("header_hang", None),
        "429_seconds": ("429", None),
        "429_reset_6m0s": ("429_reset", None),
        "429_quota": ("429_insufficient_quota", None),
        "poll_404_then_ok": ("poll_404", 2),
        "poll_404_forever": ("poll_404", None),
    }
)

_RULE = re.compile(
    r"(?P<name>[a-z0-9_]+?)(?:=(?P<number>\d+(?:\.\d+)?))?(?::(?P<chance>\d+(?:\.\d+)?))?(?:x(?P<times>\d+))?",
    re.ASCII,
)


def parse_faults(spec: str) -> tuple[Fault, ...]:
    """The rules of *spec*, in order. Raises ValueError naming every rule that is wrong."""
    faults, wrong = [], []
    for text in filter(None, (part.strip().lower() for part in spec.split(","))):
        try:
            faults.append(_rule(text))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(faults)


def _rule(text: str) -> Fault:
    match = _RULE.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is not a fault: write NAME[=NUMBER][:CHANCE][xTIMES], such as 429=2:0.5x3"
        )
    known = _named(match["name"])
    if not known:
        near = get_close_matches(match["name"], names(), n=1)
        raise ValueError(
            f"unknown fault {match['name']!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
        )
    chance = float(match["chance"]) if match["chance"] else None
    if chance is not None and not 0 < chance <= 1:
        raise ValueError(
            f"{text!r}: a chance is above 0 and at most 1; NAMEx{chance:g} is the first {chance:g} times"
        )
    times = int(match["times"]) if match["times"] else known.times
    number = float(match["number"]) if match["number"] else None
    return replace(known, number=number, chance=chance, times=times)


def _named(name: str) -> Fault | None:
    name, times = _ALIASES.get(name, (name, None))
    if name in WORK:
        return Fault(name=name, stage=Stage.WORK, times=times)
    if name in WEBHOOKS:
        return Fault(name=name, stage=Stage.WEBHOOK, times=times)
    for stage in (Stage.POLL, Stage.CANCEL):
        bare = name.removeprefix(f"{stage}_")
        if bare != name and _is_reply(bare):
            return Fault(name=bare, stage=stage, times=times)
    return Fault(name=name, stage=Stage.SUBMIT, times=times) if _is_reply(name) else None


def _is_reply(name: str) -> bool:
    return name in REPLIES or re.fullmatch(r"[45][0-9]{2}", name) is not None


def names() -> tuple[str, ...]:
    """Every name that may be written, bare statuses and the prefixed ones aside."""
    return (*REPLIES, *WORK, *WEBHOOKS, *_ALIASES)


class FaultTable:
    """Rules and how often each has struck for each job. Not safe for use by two threads."""

    def __init__(self, faults: tuple[Fault, ...], chance: Chance) -> None:
        self.faults = faults
        self._chance = chance
        self._struck: dict[tuple[int, str], int] = {}

    def pick(
        self, stage: Stage, job: str, *, holds: Callable[[Fault], bool] = lambda _: True
    ) -> Fault | None:
        """The fault that strikes *job* now, counted; *holds* tells whether a rule's own condition is met."""
        for index, fault in enumerate(self.faults):
            if fault.stage is stage and holds(fault) and self._strikes(fault, (index, job)):
                return fault
        return None

    def _strikes(self, fault: Fault, key: tuple[int, str]) -> bool:
        if fault.times is not None and self._struck.get(key, 0) >= fault.times:
            return False
        if fault.chance is not None and self._chance.random() >= fault.chance:
            return False
        if fault.times is not None:
            self._struck[key] = self._struck.get(key, 0) + 1
        return True
