"""The providers that people hold back, as `provider hold` does; what the program holds is not among them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from aijobs.core.breaker import NEVER
from aijobs.store.provider_states import ProviderState, states
from aijobs.store.tables import events

_e = events.c
_LATEST = 2000
_BY_PEOPLE = (
    select(_e.at, _e.actor, _e.reason, _e.detail)
    .where(_e.job_id.is_(None), _e.kind == "provider", _e.actor != "system")
    .order_by(_e.at.desc(), _e.id.desc())
    .limit(_LATEST)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A provider that a person holds, till *until* (None: till it is reset). *actor* is None when that is no
    longer on record."""

    provider: str
    since: datetime
    until: datetime | None
    actor: str | None
    reason: str


def by_people(tx: Connection, names: Iterable[str], now: datetime) -> list[Hold]:
    """The holds of people that are in force at *now*, by provider."""
    held = {
        name: one for name, one in states(tx, names).items() if one.paused_until and one.paused_until > now
    }
    said = _said(tx) if held else {}
    found = (_hold(one, said) for _, one in sorted(held.items()))
    return [one for one in found if one is not None]


def _hold(state: ProviderState, said: dict[tuple[str, str], tuple[datetime, str]]) -> Hold | None:
    """The hold of a person that is behind *state*: whoever asked for the longest gave its reason."""
    reason = state.pause_reason or ""
    at, actor = said.get((state.name, reason), (None, None))
    since = at or state.held_at
    if since is None or (actor is None and state.paused_until != NEVER):  # only people hold without an end
        return None
    until = None if state.paused_until == NEVER else state.paused_until
    return Hold(provider=state.name, since=since, until=until, actor=actor, reason=reason)


def _said(tx: Connection) -> dict[tuple[str, str], tuple[datetime, str]]:
    """When and by whom a provider was last held for a reason, by provider and reason."""
    found: dict[tuple[str, str], tuple[datetime, str]] = {}
    for at, actor, reason, detail in tx.execute(_BY_PEOPLE):
        found.setdefault((json.loads(detail)["provider"], reason), (at, actor))
    return found
