"""What is known about dead letters and what they depend on, gathered for `core/replaying.py` to judge."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from aijobs.core.errors import InvalidInput
from aijobs.core.model import Job, Status
from aijobs.core.payload import check_schema, parse_json
from aijobs.core.replaying import GroupFacts, JobFacts, ProviderFacts
from aijobs.core.settings import Settings
from aijobs.core.switches import Pauses
from aijobs.store import dead_letters, jobs, provider_states, replays, switches
from aijobs.store.engine import Tx
from aijobs.store.provider_states import ProviderState


def group_facts(
    tx: Tx, settings: Settings, kinds: Iterable[tuple[str, str]], now: datetime
) -> dict[tuple[str, str], GroupFacts]:
    """What is known of each (type, error class)."""
    wanted = list(kinds)
    pauses = Pauses.of(switches.in_force(tx, now), now)
    states = provider_states.states(tx, settings.providers)
    found = {}
    for type_name, error_class in wanted:
        kind = settings.types.get(type_name)
        provider = provider_facts(settings, kind.provider, states, now) if kind else None
        found[type_name, error_class] = GroupFacts(
            type=type_name,
            error_class=error_class,
            configured=kind is not None,
            provider=provider,
            code_now=settings.code_version_of(type_name),
            paused=pauses.why(type_name, kind.priority if kind else 0),
        )
    return found


def provider_facts(
    settings: Settings, name: str, states: dict[str, ProviderState], now: datetime
) -> ProviderFacts:
    """What is known of one provider."""
    provider = settings.providers.get(name)
    state = states.get(name) or ProviderState(name=name)
    return ProviderFacts(
        name=name,
        configured=provider is not None,
        has_credentials=provider is None or not provider.lacks_credentials,
        keyless=provider is not None and provider.api_key is None and not provider.headers,
        trouble=trouble_of(state, now),
        limits=f"{name} last said: {_said(state.last_headers)}" if state.last_headers else None,
    )


def _said(headers: str) -> str:
    """What the last headers said of the limits, in words: `requests: limit 500, remaining 499`."""
    return "; ".join(
        f"{what}: " + ", ".join(f"{name} {value}" for name, value in limit.items())
        for what, limit in json.loads(headers).items()
        if isinstance(limit, dict)
    )


PASSING = timedelta(minutes=1)
"""A pause that ends sooner (a rate limit that was hit) is no trouble: what is replayed waits for its end."""


def trouble_of(state: ProviderState, now: datetime) -> str | None:
    """What keeps calls from a provider for longer than a passing pause, in words, or None."""
    if state.held_at is not None:
        return f"{state.name} is held: {state.hold_reason}"
    if state.paused_until is not None and now + PASSING < state.paused_until:
        return f"{state.name} is paused until {state.paused_until:%H:%M:%S} UTC: {state.pause_reason}"
    if state.breaker in ("open", "half_open"):
        return f"the breaker of {state.name} is {state.breaker.replace('_', '-')}"
    return None


def job_facts(
    tx: Tx, settings: Settings, found: Sequence[tuple[str, int]], *, present: dict[str, Job] | None = None
) -> dict[str, JobFacts]:
    """What is known of each (job id, round that died); a job that is gone is left out."""
    ids = [job_id for job_id, _ in found]
    present = jobs.many(tx, ids) if present is None else present
    codes = replays.facts_of(tx, ids)
    open_rounds = dead_letters.open_round(tx, ids)
    owners = _newer_owners(tx, present.values())
    facts = {}
    for job_id, round_number in found:
        job = present.get(job_id)
        if job is None:
            continue
        code_then, input_there = codes.get(job_id, (None, False))
        kind = settings.types.get(job.type)
        facts[job_id] = JobFacts(
            job=job,
            round=round_number,
            state="open" if open_rounds.get(job_id) == round_number else "settled",
            code_then=code_then,
            input_there=input_there,
            input_faults=_input_faults(tx, settings, job) if input_there else (),
            key_owner=owners.get(job_id),
            max_replays=kind.max_replays if kind else None,
        )
    return facts


def _newer_owners(tx: Tx, found: Iterable[Job]) -> dict[str, Job]:
    """For each job whose key has passed to another: that other one, unless it was cancelled."""
    keyed = [(job, (job.user, job.type, job.key)) for job in found if job.key is not None]
    owners: dict[tuple[str, str, str], Job] = {}
    for start in range(0, len(keyed), 500):
        owners |= jobs.by_key(tx, [key for _, key in keyed[start : start + 500]])
    taken = {}
    for job, key in keyed:
        owner = owners.get(key)
        if owner is not None and owner.id != job.id and owner.status is not Status.CANCELLED:
            taken[job.id] = owner
    return taken


def _input_faults(tx: Tx, settings: Settings, job: Job) -> tuple[str, ...]:
    kind = settings.types.get(job.type)
    if kind is None or kind.input_schema is None:
        return ()
    try:
        value = parse_json(jobs.payload_of(tx, job.id) or "null", what="the input")
    except InvalidInput as error:
        return (error.message,)
    return tuple(check_schema(value, kind.input_schema))
