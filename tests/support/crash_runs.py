"""Cutting a scenario off at one point, and at every point, and what came of it."""

import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy import event

from aijobs.core.errors import StoreError
from aijobs.store.engine import Store, open_store
from tests.support.clock import START, ManualClock
from tests.support.crash_scenarios import SCENARIOS, Scenario
from tests.support.crash_world import Process, World, heal
from tests.support.emptying import empty
from tests.support.forked import fork_context
from tests.support.fuse import Blow, Fuse, Killed

MOST_POINTS = 500
"""No scenario is as long as this: one that is has no end."""

_TRIES = 4


@dataclass(slots=True)
class Cut:
    """What came of one cut. *where* None: the scenario ended before it."""

    where: str | None
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    paid_twice: int = 0  # calls whose answer was lost with the process, and that were made again

    @property
    def faults(self) -> list[str]:
        return [*self.lost, *self.doubled, *self.broken]


@dataclass(slots=True)
class Result:
    """What came of cutting a scenario off at every point."""

    points: list[str] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)  # (where, what)
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, at: int, one: Cut) -> None:
        """Add what came of a cut at point number *at*."""
        assert one.where is not None
        self.points.append(one.where)
        self.faults += [(f"{at}: {one.where}", fault) for fault in one.faults]
        for name in ("lost", "doubled", "broken"):
            self.counts[name] += len(getattr(one, name))
        self.counts["paid twice"] += one.paid_twice


class Ground:
    """Where worlds are: one after the other in one store, which tells the time by a `ManualClock`."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        if store.dialect == "sqlite":  # only processes die here, and never the machine
            event.listen(store.engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous=OFF"))

    @contextmanager
    def world(self, *, pruned: bool = False) -> Iterator[World]:
        """A new world, gone afterwards."""
        Fuse().attach(self.store)
        empty(self.store)
        self.store.clock.set(START)  # type: ignore[attr-defined]
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield World(self.store, folder, pruned=pruned)
        finally:
            shutil.rmtree(folder)


def cut(ground: Ground, scenario: Scenario, at: int, blow: Blow) -> Cut:
    """Cut *scenario* off at point number *at*, let a new process go on, and look at what is there."""
    with ground.world(pruned=scenario.pruned) as world:
        _undisturbed(world, scenario.prepare)
        where = _WAYS[blow](world, scenario, Fuse(at, blow))
        if where is None:
            return Cut(None)
        broken = world.broken(settled=False)
        if blow is not Blow.CUT:  # whoever lives has gone on by itself
            _undisturbed(world, scenario.act)
        broken += heal(world)
        broken += scenario.check(world)
        return _told(world, where, broken)


def everywhere(ground: Ground, scenario: Scenario, blow: Blow) -> Result:
    """Cut *scenario* off at every point, until it runs through without reaching the next."""
    result = Result()
    for at in range(1, MOST_POINTS):
        one = cut(ground, scenario, at, blow)
        if one.where is None:
            return result
        result.take(at, one)
    raise AssertionError(f"{scenario.name} has no end")


def each_kind(ground: Ground, names: Collection[str] = ()) -> dict[str, Result]:
    """A part of `everywhere`, by scenario: each kind of transaction that writes, where it comes first, is cut
    off twice: the process dies before the commit, which for the store is like any place before it; and a
    process that lives loses the answer. Around each kind of call the process dies on both sides. *names*:
    only these scenarios; none: all.
    """
    known: set[tuple[str, ...]] = set()
    results: dict[str, Result] = {}
    for scenario in SCENARIOS:
        if names and scenario.name not in names:
            continue
        fuse = Fuse()
        with ground.world(pruned=scenario.pruned) as world:
            _undisturbed(world, scenario.prepare)
            _cut_off(world, scenario, fuse)
        result = results[scenario.name] = Result()
        for at, blow in _new_kinds(fuse.passed, known):
            result.take(at, cut(ground, scenario, at, blow))
    return results


def _new_kinds(passed: list[str], known: set[tuple[str, ...]]) -> list[tuple[int, Blow]]:
    """Those of the points that were *passed*, as numbers from 1, that are of a kind not *known* yet."""
    found: list[tuple[int, Blow]] = []
    begun = calls = 0
    for number, what in enumerate(passed, 1):
        if " the " in what:
            found += [(number, Blow.KILLED)] if (what,) not in known else []
            known.add((what,))
            calls += 1
            begun = number
        elif what == "committed":
            kind = tuple(passed[begun : number - 2])
            if kind not in known and not all(one.startswith("SELECT") for one in kind):
                found.append((number - 1, Blow.KILLED))
                found.append((number - calls, Blow.CUT))  # who loses only the store counts no calls
            known.add(kind)
            begun = number
    return found


def _told(world: World, where: str, broken: list[str]) -> Cut:
    calls = Counter(fact[0] for fact in world.outside.facts("call"))
    wanted = dict(world.outside.facts("script"))
    again = sum(max(0, n - wanted.get(job_id, 1)) for job_id, n in calls.items())
    lost = [one for one in broken if one.endswith("is lost")]
    rest = [one for one in broken if one not in lost]
    return Cut(where, lost, world.doubled(), list(dict.fromkeys(rest)), again)


def _undisturbed(world: World, step: Callable[[Process], None]) -> None:
    process = world.process()
    try:
        step(process)
    finally:
        process.close()


# --- The three ways -----------------------------------------------------------------------------------


def _killed(world: World, scenario: Scenario, fuse: Fuse) -> str | None:
    """The process plays dead: whatever it raises on its way out is nobody's business any more."""
    process = world.process(fuse)
    try:
        scenario.act(process)
    except (Killed, Exception):
        if fuse.blown is None:
            raise
    finally:
        process.close()
    return fuse.blown


def _cut_off(world: World, scenario: Scenario, fuse: Fuse) -> str | None:
    """The store is lost for a moment; the process is told, and does it again."""
    process = world.process(fuse)
    try:
        for _ in range(_TRIES):
            with suppress(StoreError):
                scenario.act(process)
                return fuse.blown
        raise AssertionError(f"{scenario.name} does not get over a cut at {fuse.blown}")
    finally:
        process.close()


def _killed_for_good(world: World, scenario: Scenario, fuse: Fuse) -> str | None:
    """A process of its own, killed by the kernel."""
    there = (world.store.url, str(world.folder), world.clock.now(), scenario.name, fuse.at)
    world.store.close()
    child = fork_context().Process(target=_child, args=there, daemon=True)
    child.start()
    child.join(60)
    world.look_at_the_clock()
    if child.exitcode == 0:
        return None
    assert child.exitcode == -signal.SIGKILL, f"{scenario.name} ended with {child.exitcode} at {fuse.at}"
    return "killed"


def _child(url: str, folder: str, now: datetime, name: str, at: int) -> None:
    scenario = next(one for one in SCENARIOS if one.name == name)
    store = open_store(url, clock=ManualClock(now))
    world = World(store, Path(folder), pruned=scenario.pruned)
    scenario.act(world.process(Fuse(at, Blow.SIGKILL)))


_WAYS: dict[Blow, Callable[[World, Scenario, Fuse], str | None]] = {
    Blow.KILLED: _killed,
    Blow.CUT: _cut_off,
    Blow.SIGKILL: _killed_for_good,
}
