"""All drills by name, and how one is run."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from aijobs.core.errors import AijobsError, Conflict, StoreError
from aijobs.core.switches import Pauses
from aijobs.services.drill.dead_letter import dead_letter
from aijobs.services.drill.ground import Ground, Surroundings, ground
from aijobs.services.drill.idempotency import idempotency
from aijobs.services.drill.lease_recovery import lease_recovery
from aijobs.services.drill.leftovers import Leftover, clear
from aijobs.services.drill.outage import outage
from aijobs.services.drill.rate_limit import Refusal, rate_limit
from aijobs.services.drill.report import Account, Check, DrillReport
from aijobs.services.drill.webhook_replay import webhook_replay
from aijobs.store import switches

Act = Callable[[Ground], Account]

RATE_LIMIT = "rate-limit"
_OTHERS: Mapping[str, Act] = MappingProxyType(
    {
        "idempotency": idempotency,
        "lease-recovery": lease_recovery,
        "dead-letter": dead_letter,
        "webhook-replay": webhook_replay,
        "outage": outage,
    }
)
NAMES = (RATE_LIMIT, *_OTHERS)
"""Every drill, in the order in which `all` runs them."""


class Drills:
    """Runs drills one after the other, each on a ground of its own. *refusal* is that of `rate-limit`."""

    def __init__(self, around: Surroundings, refusal: Refusal) -> None:
        self._around = around
        self._acts: dict[str, Act] = {RATE_LIMIT: partial(rate_limit, refusal=refusal), **_OTHERS}

    def check(self) -> None:
        """Raise Conflict when a pause keeps jobs of priority 0 from starting in this store."""
        store = self._around.store
        now = store.clock.now()
        with store.read() as tx:
            pauses = Pauses.of(switches.in_force(tx, now), now)
        if pauses.everything or (pauses.below is not None and pauses.below > 0):
            raise Conflict(
                "this store is paused: the jobs of a drill would not start", hint="see 'aijobs switch list'"
            )

    def clear_up(self) -> tuple[list[Leftover], list[Leftover]]:
        """Remove what drills that were killed left; what was removed, and what may still run.

        Raises StoreError.
        """
        return clear(self._around.store)

    def run(self, name: str) -> DrillReport:
        """One drill, from an empty ground to its verdict, with nothing left behind. Raises StoreError."""
        clock = self._around.store.clock
        began = clock.monotonic()
        with ground(self._around) as here:
            account = _account(self._acts[name], here)
            troubles = tuple(here.troubles())
        return DrillReport(
            name=name,
            did=account.did,
            checks=account.checks + troubles,
            seconds=clock.monotonic() - began,
        )


def _account(act: Act, here: Ground) -> Account:
    """What the drill tells; one that was refused something it needs has failed, and says by what."""
    try:
        return act(here)
    except StoreError:
        raise
    except AijobsError as error:
        failed = Check(expected="the drill goes through", saw=f"it was refused: {error.message}", ok=False)
        return Account(did="it began, and did not get to its end", checks=(failed,))
