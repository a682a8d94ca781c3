"""What to do about what checks find, in words and commands that several of them give."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from aijobs.core.diagnosis.findings import Layer
from aijobs.core.model import ErrorClass, Job
from aijobs.core.overview import ProviderSeen
from aijobs.core.switches import ALL, BELOW_PRIORITY, Pauses, Switch, SwitchKind

_E = ErrorClass
_CURES = MappingProxyType(
    {
        _E.NETWORK: "see that the workers reach providers.{provider}.base_url",
        _E.AUTH: "mend the key behind providers.{provider}.api_key, and restart the workers",
        _E.PERMISSION: "let the key of {provider} use this model, at the provider",
        _E.QUOTA_EXHAUSTED: "raise the budget at {provider}",
        _E.NOT_FOUND: "check types.{type}.model and providers.{provider}.base_url",
        _E.OUTPUT_TRUNCATED: "raise the output limit in types.{type}.request",
        _E.CONTEXT_LENGTH: "shorten the input, or give type {type} a model with a larger context",
        _E.CONTENT_POLICY: "change the prompt of type {type} or the input: the same request is refused again",
        _E.INVALID_REQUEST: "change types.{type} or the input: the same request is refused again",
        _E.INTERNAL: "look at the log of the worker that had it",
    }
)

LIMIT_STEPS = ("aijobs inspect --status processing", "raise the limit in the configuration, or wait")
"""What to do about a limit that is reached."""

_DUE = "a probe, "
_RATE = "rate "
_SHOW = "aijobs provider show {provider}"
_RESET = "aijobs provider reset {provider} --reason '...'"
_PROBE = "aijobs doctor --probe"
_REMEDIES = (
    ("held: the provider refuses our credentials", (_CURES[_E.AUTH], _PROBE, _RESET)),
    ("held: the quota is used up", (_CURES[_E.QUOTA_EXHAUSTED], _RESET)),
    (
        ("paused: rate limited", "slowed down"),
        (_SHOW, "wait{until}, or lower providers.{provider}.rate or providers.{provider}.concurrency"),
    ),
    (_RATE, (_SHOW, "wait{until}, or raise providers.{provider}.rate")),
    ("the breaker", (_SHOW, _PROBE, "wait: the breaker closes by itself when calls succeed again")),
    ("slow start", (_SHOW, "wait: each call that succeeds lets more through")),
)
"""What to do about a provider, by how the reason begins for which calls to it are held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A pause that keeps a job: why, since when, and the command that ends it."""

    why: str
    since: datetime
    resume: str


def pause_of(pauses: Pauses, switches: Sequence[Switch], type_name: str, priority: int) -> Kept | None:
    """The pause among *switches* that keeps a job of that type and priority, if one does."""
    why = pauses.why(type_name, priority)
    if why is None:
        return None
    scope = ALL if pauses.everything else type_name if type_name in pauses.types else BELOW_PRIORITY
    switch = next(one for one in switches if one.kind is SwitchKind.PAUSE and one.scope == scope)
    by = f"by {switch.actor}" if scope == ALL else f"by {switch.actor}: {switch.reason}"
    option = {ALL: "--all", BELOW_PRIORITY: "--below-priority"}.get(scope, type_name)
    return Kept(
        why=f"{why} ({by}){until(switch.expires_at)}",
        since=switch.set_at,
        resume=f"aijobs resume {option} --reason '...'",
    )


def until(end: datetime | None) -> str:
    """`, until ...` when it ends by itself."""
    return f", until {instant(end)}" if end else ""


def instant(at: datetime) -> str:
    """A time to the second, as these texts have it."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def not_called(seen: ProviderSeen) -> str:
    """That a provider is not called now, why, and how long that stays so."""
    return f"{seen.name} is not called now: {seen.reason}{until_called(seen)}"


def until_called(seen: ProviderSeen) -> str:
    """How long a provider that is not called stays so; one held, or with an open breaker, is first tried."""
    if seen.held and seen.again_at is None:
        return "" if seen.reason.startswith(_DUE) else ", until a person resets it"
    if seen.again_at is None or not (seen.held or seen.breaker == "open"):
        return until(seen.again_at)
    return f", next {'probe' if seen.held else 'trial'} at {instant(seen.again_at)}"


def provider_steps(seen: ProviderSeen) -> tuple[str, ...]:
    """What to do about a provider that holds calls back; a reset only where time alone does not help."""
    why = seen.reason.removeprefix(_DUE)
    steps = next((steps for begins, steps in _REMEDIES if why.startswith(begins)), (_SHOW, _RESET))
    until = f" until {instant(seen.again_at)}" if seen.again_at else ""
    return tuple(step.format(provider=seen.name, until=until) for step in steps)


def layer_at(seen: ProviderSeen) -> Layer:
    """Whose it is that a provider holds calls back: a rate is a limit of ours."""
    return Layer.QUEUE if seen.reason.startswith(_RATE) else Layer.PROVIDER


def cures(job: Job) -> list[str]:
    """What takes away the cause of the last error, where only a person can."""
    known = {one.value for one in _CURES}
    if job.last_error_class not in known:
        return []
    cure = _CURES[_E(job.last_error_class)]
    return [cure.format(provider=job.provider or "its provider", type=job.type)]
