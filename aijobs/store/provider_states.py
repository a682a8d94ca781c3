"""What all workers share about a provider: breaker, pause, hold, rate, trial calls, the retry budget."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Text, bindparam, delete, func, or_, select, update

from aijobs.core.breaker import CLOSED, OPENED, RESET, Health
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import events, provider_calls, provider_trials, providers


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderState(Health):
    """The row of one provider; the defaults are those of one that has never been in trouble."""

    name: str
    rate_tokens: float | None = None
    rate_at: datetime | None = None
    last_headers: str | None = None
    version: int = 0
    updated_at: datetime | None = None


_NAMES = tuple(field.name for field in fields(ProviderState))
_p = providers.c
_SELECT = select(*(_p[name] for name in _NAMES)).where(_p.name.in_(bindparam("names", expanding=True)))
_LOCKED = _SELECT.order_by(_p.name).with_for_update()
_CREATE = PerDialect(
    lambda dialect: (
        dialect.insert(providers).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    )
)
_SAVE = (
    update(providers)
    .where(_p.name == bindparam("of_name"), _p.version == bindparam("expected"))
    .values({name: bindparam(f"new_{name}") for name in _NAMES if name != "name"})
)

_t = provider_trials.c
_TRIALS = select(_t.provider, func.count()).where(_t.locked_until > bindparam("now")).group_by(_t.provider)
_ADD_TRIAL = PerDialect(
    lambda dialect: dialect.insert(provider_trials).on_conflict_do_update(
        index_elements=[_t.provider, _t.job_id],
        set_={
            "fence": dialect.insert(provider_trials).excluded.fence,
            "locked_until": dialect.insert(provider_trials).excluded.locked_until,
        },
    )
)
_DROP_TRIALS = delete(provider_trials).where(_t.job_id.in_(bindparam("job_ids", expanding=True)))
_FORGET_TRIALS = delete(provider_trials).where(_t.provider == bindparam("of_name"))
_DEAD_TRIALS = select(_t.job_id).where(_t.locked_until <= bindparam("now"))
_DROP_DEAD_TRIALS = _DROP_TRIALS.where(_t.locked_until <= bindparam("now"))

_k = provider_calls.c
_COUNT = PerDialect(
    lambda dialect: dialect.insert(provider_calls).on_conflict_do_update(
        index_elements=[_k.provider, _k.bucket],
        set_={
            "first_calls": _k.first_calls + dialect.insert(provider_calls).excluded.first_calls,
            "retries": _k.retries + dialect.insert(provider_calls).excluded.retries,
        },
    )
)
_LATEST = 2000
"""So many events of no job are looked through at most; those of providers have no index of their own."""
_e = events.c
_before = (
    select(_e.at, _e.kind, _e.detail)
    .where(_e.job_id.is_(None), _e.at <= bindparam("until"))
    .order_by(_e.at.desc())
    .limit(_LATEST)
    .subquery()
)
_heads = {word: bindparam(f"head_{n}", type_=Text) for n, word in enumerate((OPENED, CLOSED, RESET))}
_LAST_TURN = (
    select(_before.c.detail)
    .where(
        _before.c.kind == "provider",
        or_(*(func.substr(_before.c.detail, 1, func.length(head)) == head for head in _heads.values())),
    )
    .order_by(_before.c.at.desc())
    .limit(1)
)
_CALLS = (
    select(_k.provider, func.sum(_k.first_calls), func.sum(_k.retries))
    .where(_k.bucket > bindparam("since"))
    .group_by(_k.provider)
)


def states(tx: Connection, names: Iterable[str]) -> dict[str, ProviderState]:
    """The state of each of *names*, as it is now; one that has no row yet has never been in trouble."""
    return _found(tx, _SELECT, names)


def locked(tx: Connection, names: Iterable[str], now: datetime) -> dict[str, ProviderState]:
    """As `states`, each with a row, locked until the transaction ends."""
    wanted = sorted(set(names))
    found = _found(tx, _LOCKED, wanted)
    missing = [name for name in wanted if found[name].updated_at is None]
    if missing:
        tx.execute(_CREATE[tx.dialect.name], [{"name": name, "updated_at": now} for name in missing])
        found |= _found(tx, _LOCKED, missing)
    return found


def save(tx: Connection, state: ProviderState, now: datetime) -> bool:
    """Write *state* over the version it was read as; False when somebody else was first."""
    values = {f"new_{name}": value for name, value in asdict(state).items() if name != "name"}
    values |= {"new_version": state.version + 1, "new_updated_at": now}
    return tx.execute(_SAVE, {"of_name": state.name, "expected": state.version, **values}).rowcount == 1


def trials_out(tx: Connection, now: datetime) -> dict[str, int]:
    """How many trial calls of each provider are under way; one whose owner died stops counting by itself."""
    return dict(tx.execute(_TRIALS, {"now": now}).all())


def add_trials(tx: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Note trial calls: rows of {provider, job_id, fence, locked_until}."""
    tx.execute(_ADD_TRIAL[tx.dialect.name], list(rows))


def drop_trials(tx: Connection, job_ids: Sequence[str]) -> None:
    """Trial calls that have ended."""
    tx.execute(_DROP_TRIALS, {"job_ids": list(job_ids)})


def forget_trials(tx: Connection, name: str) -> None:
    """The trial calls of a provider that needs none any more; those still out end without being asked for."""
    tx.execute(_FORGET_TRIALS, {"of_name": name})


def dead_trials(tx: Connection, now: datetime) -> list[str]:
    """The jobs of trial calls whose owner died."""
    return list(tx.execute(_DEAD_TRIALS, {"now": now}).scalars())


def drop_dead_trials(tx: Connection, job_ids: Sequence[str], now: datetime) -> int:
    """Those of *job_ids* whose owner is still dead; how many there were. One that lives again stays."""
    return tx.execute(_DROP_DEAD_TRIALS, {"job_ids": list(job_ids), "now": now}).rowcount


def count_calls(tx: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Add to the counts of calls: rows of {provider, bucket, first_calls, retries}."""
    tx.execute(_COUNT[tx.dialect.name], list(rows))


def calls_since(tx: Connection, since: datetime) -> dict[str, tuple[int, int]]:
    """(first calls, retries) of each provider in the buckets that began after *since*."""
    rows: Any = tx.execute(_CALLS, {"since": since})
    return {name: (int(first), int(retries)) for name, first, retries in rows}


def why_opened(tx: Connection, name: str, until: datetime) -> str | None:
    """What the breaker of *name* opened for last, *until* then; None when it was closed since, or that is no
    longer on record. With *until* the moment at which it opened, that is the first row that is read.
    """
    heads = {head.key: _head(name, word) for word, head in _heads.items()}
    detail = tx.execute(_LAST_TURN, {"until": until, **heads}).scalar()
    what = str(json.loads(detail)["what"]) if detail else ""
    return what.removeprefix(OPENED) if what.startswith(OPENED) else None


def _head(name: str, word: str) -> str:
    """How the detail of an event begins that says of *name* what begins with *word*."""
    return json.dumps({"provider": name, "what": word}, ensure_ascii=False).removesuffix('"}')


def _found(tx: Connection, query: Any, names: Iterable[str]) -> dict[str, ProviderState]:
    wanted = list(names)
    rows = tx.execute(query, {"names": wanted}) if wanted else ()
    kept = (ProviderState(**dict(zip(_NAMES, row, strict=True))) for row in rows)
    found = {state.name: state for state in kept}
    return {name: found.get(name) or ProviderState(name=name) for name in wanted}
