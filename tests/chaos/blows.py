"""What is done to the processes, the databases and the provider, in an order that a seed decides."""

import contextlib
import random
import resource
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import psycopg

from aijobs.core.errors import StoreError
from aijobs.services.provider_desk import ProviderDesk
from aijobs.store.engine import open_store
from tests.chaos.place import GRACE, LEASE, Child, Place
from tests.chaos.watch import Span
from tests.support.postgres import Restartable

SPELLS = (
    "429=1:0.7", "429_no_hint:0.5", "500:0.5", "529:0.6", "503_overloaded=1:0.5", "header_hang=30:0.3",
    "body_hang:0.2", "close_before_headers:0.4", "rst:0.4", "chunked_cut:0.4", "200_truncated_json:0.2",
    "200_html:0.2", "401", "poll_500:0.6,poll_429=1:0.5", "failed_server_error:0.3", "failed_429_in_200:0.3",
    "close_after_reply:0.5", "500_html:0.4",
)  # fmt: skip
"""What is wrong with the provider, one at a time."""

HOOKS = (
    "", "webhook_duplicate:0.7", "webhook_late=4:0.6", "webhook_out_of_order:0.6", "webhook_never:0.5",
    "webhook_bad_sig:0.5", "webhook_before_response:0.6", "webhook_duplicate:0.3,webhook_late=3:0.5",
)  # fmt: skip
"""And with its webhooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """One entry of the timeline; *at* in seconds from the start."""

    at: float
    what: str
    detail: str = ""


class Foe(Protocol):
    """What can be done to one kind of database; each method returns a word on what it did."""

    def blows(self) -> dict[str, Callable[[], str]]:
        """Every blow by its name."""
        ...

    def make_peace(self) -> None:
        """Undo what lasts."""
        ...

    def is_blocked(self) -> bool:
        """Whether somebody who does not go on holds a lock that keeps the others from writing."""
        ...


@dataclass
class Clockwork:
    """What is to happen later, and when nobody could have done anything: no store, or no worker awake."""

    later: list[tuple[float, str, Callable[[], object]]] = field(default_factory=list)
    away: list[Span] = field(default_factory=list)
    alone_since: float | None = None

    def after(self, seconds: float, what: str, action: Callable[[], object]) -> None:
        """Do *action* then."""
        self.later.append((time.monotonic() + seconds, what, action))

    def run_due(self, *, everything: bool = False) -> list[str]:
        """Do what is due; its names."""
        now = time.monotonic()
        due = sorted((one for one in self.later if everything or one[0] <= now), key=lambda one: one[0])
        self.later = [one for one in self.later if one not in due]
        for _, _, action in due:
            action()
        return [what for _, what, _ in due]

    def was_away(self, since: float, *, margin: float = 0.0) -> None:
        """The store was not there from *since* (Unix seconds) until now."""
        self.away.append((since, time.time() + margin))

    def alone(self, now: bool) -> None:
        """Whether there is no worker awake at this moment."""
        if now and self.alone_since is None:
            self.alone_since = time.time()
        elif not now and self.alone_since is not None:
            self.was_away(self.alone_since)
            self.alone_since = None


class PostgresFoe:
    """Restarts the server, and cuts its sessions."""

    def __init__(self, server: Restartable, chance: random.Random, clockwork: Clockwork) -> None:
        self._server = server
        self._chance = chance
        self._clockwork = clockwork

    def blows(self) -> dict[str, Callable[[], str]]:
        return {
            "restart_fast": lambda: self._restart(immediate=False),
            "restart_immediate": lambda: self._restart(immediate=True),
            "cut_connections": self._cut,
            "cut_one_connection": lambda: self._cut(most=1),
        }

    def make_peace(self) -> None:
        """Nothing lasts."""

    def is_blocked(self) -> bool:
        with psycopg.connect(self._server.server.url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE"
                " 'idle in transaction%' AND state_change < clock_timestamp() - interval '0.3 s'"
            ).fetchone()
        return bool(row and row[0])

    def _restart(self, *, immediate: bool) -> str:
        since, pause = time.time(), self._chance.uniform(0.1, 5)
        self._server.stop(immediate=immediate)
        time.sleep(pause)
        self._server.start()
        self._clockwork.was_away(since, margin=2.0)  # workers wait up to 2 s before they look again
        return f"away for {time.time() - since:.1f} s"

    def _cut(self, *, most: int = 1000) -> str:
        with psycopg.connect(self._server.server.url, autocommit=True) as connection:
            pids = [
                row[0]
                for row in connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() ORDER BY pid"
                )
            ]
            chosen = self._chance.sample(pids, min(most, len(pids)))
            for pid in chosen:
                connection.execute("SELECT pg_terminate_backend(%s)", [pid])
        return f"{len(chosen)} of {len(pids)} sessions ended"


class SqliteFoe:
    """Holds the lock of the file, and lets its disk take no more bytes from the processes."""

    def __init__(self, place: Place, chance: random.Random, clockwork: Clockwork) -> None:
        self._place = place
        self._chance = chance
        self._clockwork = clockwork
        self._holder: sqlite3.Connection | None = None
        self._full_since = 0.0

    def blows(self) -> dict[str, Callable[[], str]]:
        return {"lock": self._lock, "lock_long": lambda: self._lock(longest=13), "fill_disk": self._fill}

    def make_peace(self) -> None:
        self._unlock(time.time())
        self._free()

    def is_blocked(self) -> bool:
        assert self._place.store.path is not None
        try:
            with contextlib.closing(sqlite3.connect(self._place.store.path, timeout=0.3)) as connection:
                connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False

    def _lock(self, *, longest: float = 5.0) -> str:
        if self._holder is not None:
            return "locked already"
        assert self._place.store.path is not None
        seconds = self._chance.uniform(longest * 0.7, longest)
        holder = sqlite3.connect(self._place.store.path, timeout=20, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        self._holder, since = holder, time.time()
        self._clockwork.after(seconds, "unlocked", lambda: self._unlock(since))
        return f"for {seconds:.1f} s"

    def _unlock(self, since: float) -> None:
        if self._holder is not None:
            self._holder.execute("ROLLBACK")
            self._holder.close()
            self._holder = None
            self._clockwork.was_away(since, margin=2.0)

    def _fill(self) -> str:
        """No process may write beyond the first bytes of any file: as a full disk, and without being root."""
        if self._full_since:
            return "full already"
        seconds = self._chance.uniform(1, 6)
        self._full_since = time.time()
        self._limit(512)
        self._clockwork.after(seconds, "disk freed", self._free)
        return f"for {seconds:.1f} s"

    def _free(self) -> None:
        if self._full_since:
            self._limit(resource.RLIM_INFINITY)
            self._clockwork.was_away(self._full_since, margin=2.0)
            self._full_since = 0.0

    def _limit(self, size: int) -> None:
        for child in self._place.children:
            if child.alive and child.what != "simulator":
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Director:
    """Deals the blows. Each kind comes once in a round, in an order of the seed's choosing."""

    def __init__(
        self, place: Place, foe: Foe, clockwork: Clockwork, chance: random.Random, *, pace: float
    ) -> None:
        self.timeline: list[Blow] = []
        self._place = place
        self._foe = foe
        self._clockwork = clockwork
        self._chance = chance
        self._pace = pace
        self._deck: list[str] = []
        self._began = time.monotonic()
        self._known = {
            "kill_worker": self._kill,
            "kill_all_workers": self._kill_all,
            "stop_worker": self._stop,
            "stop_two_workers": lambda: f"{self._stop()}; {self._stop()}",
            "term_worker": self._term,
            "kill_server": self._kill_server,
            **foe.blows(),
        }

    def run(self, seconds: float) -> None:
        """Deal blows for so long, each *pace* seconds after the one before, on average."""
        until = time.monotonic() + seconds
        next_blow = time.monotonic() + 1.0
        self._spell()
        while time.monotonic() < until:
            for what in filter(None, self._clockwork.run_due()):
                self._note(what)
            self.keep_up()
            if time.monotonic() >= next_blow:
                self._strike()
                next_blow = time.monotonic() + self._chance.uniform(0.3, 1.7) * self._pace
            time.sleep(0.05)

    def make_peace(self) -> None:
        """Everything that lasts is undone; the provider is well and known to be."""
        for what in filter(None, self._clockwork.run_due(everything=True)):
            self._note(what)
        self._clockwork.later.clear()
        self._foe.make_peace()
        self._place.set_fault("")
        self._reset_provider()
        self._note("peace")

    def keep_up(self) -> None:
        """As a supervisor does: start again what has ended."""
        self._clockwork.run_due()
        for _ in range(self._place.wanted - len(self._place.of("worker"))):
            self._place.worker()
        if not self._place.of("serve"):
            self._place.serve()
        self._clockwork.alone(not any(one.ready and not one.asleep for one in self._place.of("worker")))

    def _note(self, what: str, detail: str = "") -> None:
        self.timeline.append(Blow(at=round(time.monotonic() - self._began, 2), what=what, detail=detail))

    def _strike(self) -> None:
        if not self._deck:
            self._deck = sorted(self._known)
            self._chance.shuffle(self._deck)
        what = self._deck.pop()
        try:
            self._note(what, self._known[what]())
        except (psycopg.OperationalError, sqlite3.OperationalError) as fault:
            self._note(what, f"came to nothing: {fault}")

    # --- Processes ---

    def _one(self) -> Child | None:
        found = [one for one in self._place.of("worker") if one.ready and not (one.told or one.asleep)]
        return self._chance.choice(found) if found else None

    def _kill(self) -> str:
        if (one := self._one()) is None:
            return "nobody there"
        one.end(signal.SIGKILL)
        return f"pid {one.process.pid}"

    def _kill_all(self) -> str:
        found = [one for one in self._place.of("worker") if one.ready]
        for one in found:
            one.end(signal.SIGKILL)
        return f"{len(found)} of them"

    def _stop(self) -> str:
        if (one := self._one()) is None:
            return "nobody there"
        seconds = self._chance.uniform(1.1, 2.2) * LEASE
        one.send(signal.SIGSTOP)
        one.asleep, since = True, time.time()
        time.sleep(0.3)
        blocked = self._foe.is_blocked()
        self._clockwork.after(
            seconds,
            f"pid {one.process.pid} continues",
            lambda: self._continue(one, since if blocked else None),
        )
        return f"pid {one.process.pid} for {seconds:.1f} s{', a lock in its hand' if blocked else ''}"

    def _continue(self, one: Child, blocked_since: float | None) -> None:
        one.asleep = False
        one.send(signal.SIGCONT)
        if blocked_since is not None:
            self._clockwork.was_away(blocked_since)

    def _term(self) -> str:
        if (one := self._one()) is None:
            return "nobody there"
        one.end(signal.SIGTERM)
        return f"pid {one.process.pid}"

    def _kill_server(self) -> str:
        for one in self._place.of("serve"):
            one.end(signal.SIGKILL)
        return ""

    # --- The provider ---

    def _spell(self) -> None:
        """Something is wrong with the provider for a while, then nothing is, then the next."""
        spell = "" if self._chance.random() < 0.35 else self._chance.choice(SPELLS)
        wanted = ",".join(part for part in (spell, self._chance.choice(HOOKS)) if part)
        self._place.set_fault(wanted)
        self._note("provider", wanted or "well")
        self._clockwork.after(self._chance.uniform(1.5, 5), "", lambda: self._next_spell(spell))

    def _next_spell(self, spell: str) -> None:
        if spell == "401":  # somebody has put the right key in
            self._place.set_fault("")
            self._reset_provider()
        self._spell()

    def _reset_provider(self) -> None:
        """At the first moment that the store is there: we may be the one that holds its lock."""
        try:
            with contextlib.closing(open_store(self._place.url, lock_wait=0.2)) as store:
                desk = ProviderDesk(store, self._place.settings)
                for name in ("sim", "code"):  # a python job whose own call is refused holds its provider too
                    desk.reset(name, actor="chaos", reason="mended")
        except StoreError:
            self._clockwork.after(1.0, "", self._reset_provider)


LONGEST_STOP = GRACE + 15.0
"""Seconds from SIGTERM to the end: the grace, what the worker needs beyond it, and a machine that is busy."""
