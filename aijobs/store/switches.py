"""The switches in force. Setting one again replaces it; expired ones are passed over and later removed."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, or_, select

from aijobs.core.switches import Switch, SwitchKind
from aijobs.store.dialect import PerDialect
from aijobs.store.tables import switches

_c = switches.c
_NAMES = ("kind", "scope", "value", "actor", "reason", "set_at", "expires_at")
_IN_FORCE = (
    select(*(_c[name] for name in _NAMES))
    .where(or_(_c.expires_at.is_(None), _c.expires_at > bindparam("now")))
    .order_by(_c.kind, _c.scope)
)
_SET = PerDialect(
    lambda dialect: dialect.insert(switches).on_conflict_do_update(
        index_elements=[_c.kind, _c.scope],
        set_={column: dialect.insert(switches).excluded[column] for column in _NAMES[2:]},
    )
)
_CLEAR = delete(switches).where(_c.kind == bindparam("of_kind"), _c.scope == bindparam("of_scope"))
_FORGET = delete(switches).where(_c.expires_at <= bindparam("now"))


def in_force(tx: Connection, now: datetime) -> list[Switch]:
    """Every switch that is on now."""
    return [Switch(**_named(row)) for row in tx.execute(_IN_FORCE, {"now": now})]


def throw(tx: Connection, switch: Switch) -> None:
    """Turn a switch on, or replace it."""
    row = {name: getattr(switch, name) for name in _NAMES} | {"kind": switch.kind.value}
    tx.execute(_SET[tx.dialect.name], row)


def clear(tx: Connection, kind: SwitchKind, scope: str) -> bool:
    """Turn a switch off; False when it was not on."""
    return tx.execute(_CLEAR, {"of_kind": kind.value, "of_scope": scope}).rowcount == 1


def forget_expired(tx: Connection, now: datetime) -> int:
    """Remove switches whose time is over; how many there were."""
    return tx.execute(_FORGET, {"now": now}).rowcount


def _named(row: Row[Any]) -> dict[str, Any]:
    values = dict(zip(_NAMES, row, strict=True))
    values["kind"] = SwitchKind(values["kind"])
    return values
