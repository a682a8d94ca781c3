"""What drills that were killed left in a store: found by its names, and removed once they are surely over."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.services.drill.names import PREFIX, drill_of
from aijobs.store import traces, workers
from aijobs.store.engine import Store, Tx
from aijobs.store.workers import WorkerRecord

SILENCE = timedelta(minutes=15)
"""After so long without a sign of it a drill is over: its workers give one every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A drill that has jobs in the store, and for how long no job has changed and no worker was heard of."""

    drill: str
    jobs: int
    silent: timedelta
    types: tuple[str, ...]
    workers: tuple[str, ...]


def clear(store: Store) -> tuple[list[Leftover], list[Leftover]]:
    """Remove all that drills left which are over; what was removed, and those that may still run.

    Raises StoreError.
    """
    now = store.clock.now()
    with store.read() as tx:
        there = list(_found(tx, now))
    if not there:
        return [], []
    with store.write() as tx:
        there = list(_found(tx, now))  # anew: another one may have cleared up
        over = [one for one in there if one.silent >= SILENCE]
        for one in over:
            names = traces.Names(types=one.types, providers=[one.drill], workers=one.workers, after_event=0)
            traces.remove(tx, names)
    return over, [one for one in there if one not in over]


def _found(tx: Tx, now: datetime) -> Iterator[Leftover]:
    """The drills that have jobs here. A name that others use as well, for a job of theirs, is none."""
    kinds: dict[str, list[traces.Kind]] = defaultdict(list)
    for kind in traces.kinds(tx, PREFIX):
        if drill := drill_of(kind.type):
            kinds[drill].append(kind)
    known: dict[str, list[WorkerRecord]] = defaultdict(list)
    for worker in workers.listed(tx) if kinds else ():
        known[drill_of(worker.name) or ""].append(worker)
    for drill, its in sorted(kinds.items()):
        if all(drill_of(kind.user) == drill for kind in its):
            signs = [kind.changed_at for kind in its] + [worker.heartbeat_at for worker in known[drill]]
            yield Leftover(
                drill=drill,
                jobs=sum(kind.jobs for kind in its),
                silent=now - max(signs),
                types=tuple(sorted({kind.type for kind in its})),
                workers=tuple(worker.name for worker in known[drill]),
            )
