"""Ways to break aijobs, one promise each, for the tests of what is to notice it.

In a process whose environment is `broken(name)`, the module `sitecustomize` in the folder beside this calls
`break_down` before anything else runs.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, select, text, update

from aijobs.store.engine import Store
from tests.support.command_line import ROOT

_NEVER = ("never_rescued", "never_given_up")
_HOOK = Path(__file__).parent / "broken"


def broken(name: str) -> dict[str, str]:
    """The environment in which every process is broken in that way."""
    return {"PYTHONPATH": f"{_HOOK}{os.pathsep}{ROOT}", "BREAK": name}


def break_down(name: str) -> None:
    """Break this process. A drill waits less for what will never come."""
    BREAKS[name]()
    if name in _NEVER and "drill" in sys.argv:
        from aijobs.services.drill import ground

        ground.PATIENCE = 8.0


def around(owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Put *change*, which is given the original first, in the place of a function."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *given, **named: change(original, *given, **named))


def immediate_retry() -> None:
    """Whatever the provider says of when to come back, it is called again at once."""
    from aijobs.core import breaker
    from aijobs.core.retry import Policy

    around(Policy, "again", lambda again, *given: replace(again(*given), delay=timedelta(0)))
    breaker._throttled = lambda health, *_, **__: breaker.Change(health=health)  # type: ignore[assignment]


def no_limits() -> None:
    """A claim takes whatever there is."""
    from aijobs.services.coordinator import claiming

    claiming.choose = lambda found, _, slots: list(found)[:slots]


def no_key() -> None:
    """No key is looked up, and none is unique."""  # the index has to be dropped beside: `drop_key`
    from aijobs.services.coordinator import admission
    from aijobs.store import intake, moves

    intake.create_one = lambda *_, **__: False
    admission._owners = lambda *_: {}
    moves._CREATE = dict.fromkeys(("sqlite", "postgresql"), moves._CREATE_UNKEYED)  # type: ignore[assignment]


def unfenced() -> None:
    """A worker does not notice that its leases are over, and writes under any fence."""
    if not any(word.endswith("-2") for word in sys.argv):
        return
    from aijobs.services.coordinator import finishing
    from aijobs.services.worker.leases import LeaseKeeper

    finishing._still_held = lambda *_: True
    LeaseKeeper._over = lambda *_: False  # type: ignore[method-assign]
    LeaseKeeper.renew_now = lambda _: None  # type: ignore[method-assign]


def never_rescued() -> None:
    """Nobody looks for the attempts of workers that died."""
    from aijobs.services.coordinator import Coordinator, Rescue

    Coordinator.rescue = lambda *_, **__: Rescue()  # type: ignore[method-assign]


def paid_again() -> None:
    """What a provider has begun is forgotten when its job is looked at again, and begun anew."""
    from aijobs.store import claims

    over = claims._c.locked_until <= bindparam("now")
    claims.parked_due = lambda *_: []
    claims._EXPIRED = select(*claims.COLUMNS).where(over).limit(bindparam("limit"))


def never_given_up() -> None:
    """Attempts are counted and do not matter."""
    from aijobs.services.coordinator import finishing

    around(
        finishing,
        "decide",
        lambda decide, job, *given: decide(replace(job, max_attempts=10_000), *given),
    )


def unlimited_replay() -> None:
    """A dead letter is replayed however often it died."""
    from aijobs.services.coordinator import Coordinator

    def retry(self: Any, tx: Any, job_id: str, now: Any, actor: str, reason: str) -> Any:
        return self.reopen_in(tx, self._locked(tx, job_id), now, actor=actor, reason=reason)

    Coordinator._retry = retry  # type: ignore[method-assign]


def blind_replay() -> None:
    """A replay writes without comparing: whoever else has replayed the job meanwhile."""
    from aijobs.services.coordinator import Coordinator
    from aijobs.store.tables import jobs

    def reopen_in(_: Any, tx: Any, job: Any, now: Any, **__: Any) -> Any:
        values = {"status": "pending", "attempts": 0, "next_run_at": now, "turn": None, "finished_at": None}
        fresh = update(jobs).where(jobs.c.id == job.id).values(round=jobs.c.round + 1, **values)
        tx.execute(fresh)
        return job

    Coordinator.reopen_in = reopen_in  # type: ignore[method-assign]


def no_dedup() -> None:
    """Every copy of a delivery passes for a new one."""
    from aijobs.core.clock import system_chance
    from aijobs.services.coordinator import inbox

    chance = system_chance()

    def receive(original: Any, tx: Any, found: Any, now: Any) -> Any:
        fresh = [replace(one, delivery_id=f"{one.delivery_id}-{chance.getrandbits(64)}") for one in found]
        return original(tx, fresh, now)

    around(inbox, "receive", receive)


def never_opening() -> None:
    """No failure opens a breaker."""
    from aijobs.core import breaker

    breaker._open = lambda health, *_: breaker.Change(health=health)


def all_at_once() -> None:
    """A replay has one batch, and all is in it."""
    from aijobs.services.replay import runner

    def next_act(original: Any, *given: Any) -> Any:
        act = original(*given)
        return replace(act, size=1000) if act.size else act

    around(runner, "next_act", next_act)


BREAKS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        immediate_retry, no_limits, no_key, unfenced, never_rescued, paid_again, never_given_up,
        unlimited_replay, blind_replay, no_dedup, never_opening, all_at_once,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Notice:
    """The drill that is to notice, words of the promise it should miss, and what it has to see instead.

    *seen* is a regular expression: a drill that fails for another reason has not noticed.
    """

    drill: str
    promise: str
    seen: str
    in_suite: bool = True


NOTICED = {
    "immediate_retry": Notice("rate-limit", "before the 1 s are over", "[1-6] of them too early"),
    "no_limits": Notice("rate-limit", "at most 3 calls at once", "at most [4-6] at once", in_suite=False),
    "no_key": Notice("idempotency", "one submission makes the job", "jobs: [2-8];"),
    "unfenced": Notice("lease-recovery", "the worker that slept", "says: 1 succeeded"),
    "never_rescued": Notice("lease-recovery", "recorded as lost and made again", "no attempt has ended"),
    "paid_again": Notice("lease-recovery", "asked after, not begun again", "bills: [2-9]", in_suite=False),
    "never_given_up": Notice("dead-letter", "after 3 attempts", "was still at it", in_suite=False),
    "unlimited_replay": Notice("dead-letter", "replayed 1 time at most", "[23] of 3 replays"),
    "blind_replay": Notice("dead-letter", "one is let", "[2-4] of 4 were let", in_suite=False),
    "no_dedup": Notice("webhook-replay", "one is accepted", "[2-6] accepted"),
    "never_opening": Notice("outage", "3 failures open the breaker", "the breaker was closed"),
    "all_at_once": Notice("outage", "sends one job ahead", "the first was not alone", in_suite=False),
}


def drop_key(store: Store) -> None:
    """Take the unique key of jobs away from a store of the test's own."""
    with store.write() as tx:
        tx.execute(text("DROP INDEX uq_jobs_user_type_key"))
