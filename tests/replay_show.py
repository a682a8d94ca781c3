"""`python -m tests.replay_show --jobs 5000 --database both`: dead letters of four kinds, brought back.

A provider was down, inputs were bad, credentials had expired, and keys have passed to newer jobs that
succeeded. The preview has to tell them apart. The replay of what can be recovered goes at its rate against a
provider that fails again after a while: it has to stop by itself in time, go on after the repair, and account
for every job in the end. Providers answer as scripted and the clock is moved by hand, so that the rate is
exact and an hour takes seconds; everything else is the real thing.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Event as Bell
from typing import Any

from aijobs.core.clock import seeded_chance
from aijobs.core.durations import Rate
from aijobs.core.lifecycle import Failed, Succeeded
from aijobs.core.model import ErrorClass, Execution, NewJob
from aijobs.core.replaying import ReplayOptions
from aijobs.providers.contract import Probed
from aijobs.services.coordinator import Claim, Coordinator
from aijobs.services.replay import Plan, Planner, Runner, RunReport
from aijobs.store import dead_letters, jobs, replays
from aijobs.store.dead_letters import DeadLetterFilter
from aijobs.store.engine import Store, open_store
from tests.replay_kills import databases
from tests.support.clock import ManualClock
from tests.support.jobs import claim_some, ended, failure, new_job, settings_of

RATE = Rate(50, timedelta(seconds=1))
RATIO = 0.2

_PROVIDERS = {name: {"kind": "openai-chat", "api_key": "k"} for name in ("main", "other")}
_TYPES = {
    "outage": {"provider": "main"},
    "taken": {"provider": "main"},
    "bad": {"provider": "main", "input_schema": {"type": "object", "required": ["text"]}},
    "expired": {"provider": "other"},
}
_DIES_OF = {
    "outage": ErrorClass.BAD_RESPONSE,
    "taken": ErrorClass.BAD_RESPONSE,
    "bad": ErrorClass.INVALID_REQUEST,
    "expired": ErrorClass.PERMISSION,
}
_SLOTS = 500
_Histories = Mapping[str, Sequence[Execution]]


@dataclass(slots=True, kw_only=True)
class Show:
    """The stage: *key_renewed* is what a probe of `other` finds, *good_for* how many calls go well."""

    store: Store
    clock: ManualClock
    each: int
    good_for: int
    batch: int
    key_renewed: bool = False
    mended: bool = False
    called: list[str] = field(default_factory=list)
    kinds: dict[str, list[str]] = field(default_factory=dict)
    coordinator: Coordinator = field(init=False)

    def __post_init__(self) -> None:
        settings = settings_of(providers=_PROVIDERS, types=_TYPES)
        self.coordinator = Coordinator(self.store, settings, chance=seeded_chance(1))

    # --- The disaster -----------------------------------------------------------------------------

    def let_die(self) -> None:
        """Make *each* dead letters of every kind."""
        expires = self.clock.now() + timedelta(hours=1)
        for name in _TYPES:
            keyed = {"key_expires_at": expires} if name == "taken" else {}
            self.kinds[name] = self._enqueue(name, keyed)
        self._work(lambda claim: Failed(failure=failure(_dies_of(claim))))
        self.clock.set(expires)
        self._enqueue("taken", {})  # the same keys, which have expired: newer jobs
        self._work(lambda claim: Succeeded(result='"done"'))

    def _enqueue(self, name: str, changes: Mapping[str, Any]) -> list[str]:
        def new(n: int) -> NewJob:
            key = {"key": f"k{n}"} if name == "taken" else {}
            return new_job({"n": n}, type=name, user=f"u{n % 7}", max_attempts=1, **key, **changes)

        made = self.coordinator.enqueue_many([new(n) for n in range(self.each)], actor="t")
        return [one.job.id for one in made]  # type: ignore[union-attr]

    def _work(self, end: Callable[[Claim], Any]) -> int:
        """Let a worker do all there is to do."""
        total = 0
        while claims := claim_some(self.coordinator, _SLOTS):
            self.coordinator.finish([ended(claim.job, end(claim)) for claim in claims])
            total += len(claims)
        return total

    # --- The recovery -----------------------------------------------------------------------------

    def probe(self, names: Sequence[str]) -> dict[str, Probed]:
        """What a free call finds."""
        fine = {name: name == "main" or self.key_renewed for name in names}
        return {
            name: Probed(ok, f"{name} {'takes' if ok else 'refuses'} the key") for name, ok in fine.items()
        }

    def plan(self) -> Plan:
        """A preview of everything."""
        planner = Planner(
            self.store, self.coordinator.settings, chance=seeded_chance(len(self.called)), probe=self.probe
        )
        options = ReplayOptions(batch_size=self.batch, rate=RATE, max_failure_ratio=RATIO)
        return planner.plan(DeadLetterFilter(), options, limit=1_000_000, actor="ana", reason="INC-1")

    def run(self, plan: Plan) -> RunReport:
        """Carry it out, with a worker that works whenever the replay waits."""
        runner = Runner(self.store, self.coordinator, owner="host-1", actor="ana")
        return runner.run(plan.id, hear=lambda outcome: None, stop=_Working(self))

    def answer(self, claim: Claim) -> Failed | Succeeded:
        """What the provider answers to one more call."""
        self.called.append(claim.job.id)
        if self.mended or len(self.called) <= self.good_for:
            return Succeeded(result='"late but here"')
        return Failed(failure=failure(ErrorClass.BAD_RESPONSE))

    def close(self, ids: Sequence[str], reason: str) -> None:
        """What a person does with what cannot be recovered."""
        for job_id in ids:
            self.coordinator.close(job_id, actor="ana", reason=reason)

    # --- The books --------------------------------------------------------------------------------

    def histories(self) -> _Histories:
        """Every attempt of every job that died."""
        with self.store.read() as tx:
            return {job_id: jobs.executions_of(tx, job_id) for job_id in self._died()}

    def statuses(self) -> Counter[tuple[str, str]]:
        """How the jobs that died stand now, as (status, state of the newest dead letter)."""
        with self.store.read() as tx:
            found = jobs.many(tx, self._died())
            deaths = dead_letters.find(tx, DeadLetterFilter(state=None), 1_000_000)
        newest: dict[str, Any] = {}
        for one in deaths:
            newest[one.job_id] = max(newest.get(one.job_id, one), one, key=lambda death: death.round)
        return Counter((job.status.value, newest[job.id].state) for job in found.values())

    def items(self, plan: Plan) -> list[replays.Item]:
        """The items of a plan as they stand now."""
        with self.store.read() as tx:
            return replays.items(tx, plan.id)

    def _died(self) -> list[str]:
        return [job_id for ids in self.kinds.values() for job_id in ids]


class _Working(Bell):
    """Instead of waiting, let the worker work and the clock move on."""

    def __init__(self, show: Show) -> None:
        super().__init__()
        self._show = show

    def wait(self, timeout: float | None = None) -> bool:
        self._show._work(self._show.answer)
        self._show.clock.advance(seconds=timeout or 0.5)
        return False


def _dies_of(claim: Claim) -> ErrorClass:
    return _DIES_OF[claim.job.type]


# --- The scenes -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen, for a table or a test to judge. Times are the manual clock's."""

    each: int
    good_for: int
    preview: Plan
    verdicts: Mapping[str, str]  # by kind: what every one of it was told
    stopped: RunReport
    failed_before_stop: int
    calls_before_stop: int
    resumed: RunReport
    second: RunReport
    third: RunReport
    paces: Sequence[tuple[int, float]]  # of the batches: jobs, seconds until the next
    calls: Counter[str]
    before: _Histories
    after: _Histories
    statuses: Mapping[tuple[str, str], int]


def play(store: Store, clock: ManualClock, *, total: int, good_for: int, batch: int) -> Seen:
    """The whole show with *total* dead letters on an empty store."""
    show = Show(store=store, clock=clock, each=total // 4, good_for=good_for, batch=batch)
    show.let_die()
    before = show.histories()
    preview = show.plan()
    stopped = show.run(preview)
    so_far = len(show.called)
    show.mended = True
    resumed = show.run(preview)
    second = show.run(show.plan())  # what died again meanwhile
    show.key_renewed = True
    third = show.run(show.plan())
    show.close(show.kinds["bad"], "the import was wrong")
    show.close(show.kinds["taken"], "done by a newer job")
    return Seen(
        each=show.each, good_for=good_for, preview=preview, verdicts=_verdicts(show, preview),
        stopped=stopped, failed_before_stop=so_far - good_for, calls_before_stop=so_far, resumed=resumed,
        second=second, third=third, paces=_paces(show.items(preview)), calls=Counter(show.called),
        before=before, after=show.histories(), statuses=show.statuses(),
    )  # fmt: skip


def _verdicts(show: Show, plan: Plan) -> dict[str, str]:
    """What every dead letter of a kind was told, ids and numbers aside."""
    reasons = {one.job_id: one.reason for one in plan.skipped}
    told = {
        name: {reasons.get(job_id, "replay").partition(" job ")[0] for job_id in ids}
        for name, ids in show.kinds.items()
    }
    return {name: " / ".join(sorted(words)) for name, words in told.items()}


def _paces(items: Sequence[replays.Item]) -> list[tuple[int, float]]:
    """Of each batch: how many jobs, and how many seconds until the next one began."""
    batches: dict[datetime, int] = {}
    for item in items:
        if item.replayed_at is not None:
            batches[item.replayed_at] = batches.get(item.replayed_at, 0) + 1
    times = sorted(batches)
    return [(batches[one], (after - one).total_seconds()) for one, after in pairwise(times)]


# --- As a program -----------------------------------------------------------------------------------


def main() -> int:
    """Play it and print what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay_show")
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--good-for", type=int, default=300, help="calls before the provider fails again")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    given = parser.parse_args()
    kinds = ("sqlite", "postgresql") if given.database == "both" else (given.database,)
    for kind in kinds:
        with databases(kind) as fresh, tempfile.TemporaryDirectory() as folder:
            clock = ManualClock()
            store = open_store(fresh(Path(folder)), clock=clock, create=True)
            try:
                print(f"--- {kind}")
                _tell(play(store, clock, total=given.jobs, good_for=given.good_for, batch=given.batch_size))
            finally:
                store.close()
    return 0


def _tell(seen: Seen) -> None:
    for name, verdict in seen.verdicts.items():
        print(f"{seen.each:>5} x {name:<8} {verdict}")
    runs = {
        "first run": seen.stopped,
        "resumed": seen.resumed,
        "second plan": seen.second,
        "key renewed": seen.third,
    }
    for name, report in runs.items():
        done = report.progress
        print(
            f"{name:<12} {report.state:<8} succeeded {done.succeeded}, failed {done.failed}, "
            f"left {done.planned}, skipped {done.skipped}; {report.stopped_because or ''}"
        )
    print(f"calls before it stopped: {seen.calls_before_stop}, of which {seen.failed_before_stop} failed")
    print(f"in the end: {dict(seen.statuses)}")
    kept = sum(list(seen.after[job][: len(rows)]) == list(rows) for job, rows in seen.before.items())
    print(f"histories that begin as they were before: {kept} of {len(seen.before)}")
    print("side by side, one of each end:")
    shown: set[tuple[str, ...]] = set()
    for job_id, rows in seen.after.items():
        line = tuple(f"{one.round}:{one.outcome.value}" for one in rows)
        if line not in shown:
            shown.add(line)
            was = " ".join(f"{one.round}:{one.outcome.value}" for one in seen.before[job_id])
            print(f"  {job_id}  before {was}   after {' '.join(line)}")


if __name__ == "__main__":
    sys.exit(main())
