"""Throwing switches: who, why, for how long, written down as an event beside the switch itself."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from aijobs.core.errors import Conflict, NotFound
from aijobs.core.model import Event
from aijobs.core.reasons import checked_reason
from aijobs.core.settings import Settings
from aijobs.core.switches import ALL, BELOW_PRIORITY, Switch, SwitchKind
from aijobs.store import history, switches, wake
from aijobs.store.engine import Store, Tx


class Switching:
    """What an operator may switch; every change is an event with actor and reason."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def in_force(self) -> list[Switch]:
        """Every switch that is on now."""
        with self.store.read() as tx:
            return switches.in_force(tx, self.store.clock.now())

    def pause(
        self, scopes: Sequence[str], *, below: int | None, actor: str, reason: str, lasting: timedelta | None
    ) -> list[Switch]:
        """Start nothing of *scopes* (job types, or ALL), or below a priority, until resumed or for *lasting*.

        What runs goes on, and what a provider works on is followed to its end. Raises NotFound for a type
        that is not configured.
        """
        self.check_scopes(scopes)
        wanted = [(scope, "on") for scope in scopes]
        if below is not None:
            wanted.append((BELOW_PRIORITY, str(below)))
        return [
            self._throw(SwitchKind.PAUSE, scope, value, actor=actor, reason=reason, lasting=lasting)
            for scope, value in wanted
        ]

    def check_scopes(self, scopes: Sequence[str]) -> None:
        """Raises NotFound for a type that is not configured."""
        for scope in scopes:
            if scope != ALL:
                self.settings.type(scope)

    def resume(self, scopes: Sequence[str], *, below: bool, actor: str, reason: str) -> list[str]:
        """End pauses; the scopes that were paused. Raises NotFound when one of them is not paused."""
        wanted = [*scopes, *([BELOW_PRIORITY] if below else [])]
        with self.store.write() as tx:
            for scope in wanted:
                if not switches.clear(tx, SwitchKind.PAUSE, scope):
                    raise _not_on(SwitchKind.PAUSE, scope)
                self._note(tx, "resumed", SwitchKind.PAUSE, scope, actor=actor, reason=reason)
            wake.notify(tx)
        return wanted

    def turn_on(
        self, kind: SwitchKind, type_name: str, *, actor: str, reason: str, lasting: timedelta | None
    ) -> Switch:
        """Let stale results or the fallback stand in for a type.

        Raises NotFound (no such type) and Conflict when the configuration does not allow it: what was not
        approved in calm is not switched on in a hurry.
        """
        self.check_allowed(kind, type_name)
        return self._throw(kind, type_name, "on", actor=actor, reason=reason, lasting=lasting)

    def turn_off(self, kind: SwitchKind, type_name: str, *, actor: str, reason: str) -> None:
        """Back to normal. Raises NotFound when it was not on."""
        with self.store.write() as tx:
            if not switches.clear(tx, kind, type_name):
                raise _not_on(kind, type_name)
            self._note(tx, "switched_off", kind, type_name, actor=actor, reason=reason)

    def check_allowed(self, kind: SwitchKind, type_name: str) -> None:
        """Raises what `turn_on` raises."""
        settings = self.settings.type(type_name)
        if kind is SwitchKind.STALE_RESULTS and not settings.stale_results.allowed:
            raise Conflict(
                f"stale results are not allowed for type {type_name}",
                hint=f"set types.{type_name}.stale_results.allowed in the configuration",
            )
        if kind is SwitchKind.FALLBACK:
            if settings.fallback is None:
                raise Conflict(
                    f"type {type_name} has no fallback",
                    hint=f"set types.{type_name}.fallback in the configuration",
                )
            missing = settings.fallback.missing_approvals
            if missing:
                raise Conflict(
                    f"the fallback of type {type_name} is not approved: {', '.join(missing)}",
                    hint=f"types.{type_name}.fallback.approved in the configuration says what was looked at",
                )

    def _throw(
        self, kind: SwitchKind, scope: str, value: str, *, actor: str, reason: str, lasting: timedelta | None
    ) -> Switch:
        now = self.store.clock.now()
        switch = Switch(
            kind=kind, scope=scope, value=value, actor=actor, reason=reason, set_at=now,
            expires_at=now + lasting if lasting else None,
        )  # fmt: skip
        with self.store.write() as tx:
            switches.throw(tx, switch)
            verb = "paused" if kind is SwitchKind.PAUSE else "switched_on"
            self._note(
                tx, verb, kind, scope, actor=actor, reason=reason, value=value, until=switch.expires_at
            )
            wake.notify(tx)  # a fallback takes what its provider's breaker keeps back
        return switch

    def _note(
        self, tx: Tx, verb: str, kind: SwitchKind, scope: str, *, actor: str, reason: str,
        value: str | None = None, until: datetime | None = None,
    ) -> None:  # fmt: skip
        detail: dict[str, object] = {
            "switch": kind.value, "scope": scope, "value": value,
            "until": until.isoformat() if until else None,
        }  # fmt: skip
        event = Event(
            kind=verb, actor=actor, at=self.store.clock.now(), reason=checked_reason(reason), detail=detail
        )
        history.add_events(tx, [event])


def find(thrown: Iterable[Switch], kind: SwitchKind, scope: str) -> Switch:
    """The switch of *kind* and *scope* among those *thrown*. Raises NotFound when it is not on."""
    for one in thrown:
        if (one.kind, one.scope) == (kind, scope):
            return one
    raise _not_on(kind, scope)


def _not_on(kind: SwitchKind, scope: str) -> NotFound:
    what = _not_paused(scope) if kind is SwitchKind.PAUSE else f"{kind} of type {scope} is not on"
    return NotFound(what, hint="'aijobs switch list' shows what is")


def _not_paused(scope: str) -> str:
    wide = {ALL: "no pause of everything is on", BELOW_PRIORITY: "no pause below a priority is on"}
    return wide.get(scope, f"type {scope} is not paused")
