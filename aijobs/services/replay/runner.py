"""Carrying a plan out: canary, batches, each after the one before has settled; stoppable at any point.

How far it has come is in the store and nowhere else. Whoever carries it out holds a lease on the plan; one
that died is followed by `--resume`. Each batch is one transaction with a compare-and-set on every job.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from aijobs.core.durations import parse_rate
from aijobs.core.errors import Conflict, NotFound
from aijobs.core.model import Event, Job, Status
from aijobs.core.reasons import checked_reason
from aijobs.core.replaying import (
    LOWEST_PRIORITY,
    GroupFacts,
    NextAct,
    ReplayOptions,
    Standing,
    check_group,
    next_act,
)
from aijobs.services.coordinator import Coordinator
from aijobs.services.replay.facts import group_facts, job_facts
from aijobs.services.replay.patience import Patience, Tell
from aijobs.services.replay.planner import options_json, verdict
from aijobs.store import history, replays
from aijobs.store.engine import Store, Tx
from aijobs.store.replays import Item, Progress, Replay

LEASE = timedelta(seconds=60)
LOOK_EVERY = 0.5
"""Seconds between two looks at jobs that have not settled."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job: `replayed`, `skipped`, `succeeded` or `failed`, and why."""

    job_id: str
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """How a run ended: `done`, `stopped`, `interrupted` or `aborted`."""

    replay: str
    state: str
    progress: Progress
    stopped_because: str | None = None


Hear = Callable[[Outcome], None]
Changes = Mapping[str, Any]
"""Options of `ReplayOptions` by name."""
NO_CHANGES: Changes = MappingProxyType({})


class Runner:
    """Carries out one plan at a time."""

    def __init__(self, store: Store, coordinator: Coordinator, *, owner: str, actor: str) -> None:
        self.store = store
        self.coordinator = coordinator
        self.settings = coordinator.settings
        self.owner = owner
        self.actor = actor

    def check_fresh(self, replay_id: str, changes: Changes = NO_CHANGES) -> Replay:
        """The plan, if it may be begun. NotFound; Conflict when it is stale or its checks no longer hold."""
        replay = self._get(replay_id)
        now = self.store.clock.now()
        if replay.state != "planned":
            raise Conflict(f"plan {replay_id} is {replay.state} already", hint=_go_on(replay))
        if replay.expires_at is not None and now >= replay.expires_at:
            raise Conflict(f"plan {replay_id} is too old to be run", hint="make a new one with --preview")
        with self.store.read() as tx:
            blocked = self._troubles(tx, replay, options_of(replay, changes), now)
        if blocked:
            raise Conflict(
                f"the checks of plan {replay_id} no longer hold: {blocked[0]}", hint="preview again"
            )
        return replay

    def check_resumable(self, replay_id: str) -> Replay:
        """The replay, if it may go on. NotFound; Conflict when it has ended."""
        replay = self._get(replay_id)
        if replay.state in ("done", "aborted"):
            raise Conflict(f"replay {replay_id} is {replay.state}: nothing was changed", hint=_go_on(replay))
        return replay

    def run(
        self, replay_id: str, *, hear: Hear, stop: threading.Event, changes: Changes = NO_CHANGES,
        reason: str | None = None, tell: Tell = lambda _: None,
    ) -> RunReport:  # fmt: skip
        """Carry the plan out from where it stands until it is done, stopped, or *stop* is set.

        *changes* are options to go on by instead of the plan's, from now on; so is *reason*. *tell* is told
        what it waits for when nothing ends for a while. Raises NotFound, and Conflict when it has ended or
        somebody else carries it out.
        """
        replay = self._take(replay_id, changes, reason)
        options = options_of(replay)
        patience = Patience(self.store, self.settings, replay_id, tell)
        while True:
            if self._settle(replay, hear):
                patience.heard()
            if stop.is_set():
                return self._end(replay, "interrupted", None)
            act = self._next(replay, options)
            if act.done:
                return self._end(replay, "done", None)
            if act.stop:
                return self._end(replay, "stopped", act.stop)
            if act.size:
                if not self._batch(replay, options, act.size, hear):
                    return self._lost(replay_id)
                patience.heard()
            else:
                if act.settling:
                    patience.look(act.settling)
                stop.wait(self._pause(act))
            if not self._keep(replay):
                return self._lost(replay_id)

    def abort(self, replay_id: str, *, reason: str) -> None:
        """End a replay for good; what it has replayed goes on. NotFound; Conflict when it has ended."""
        checked_reason(reason)
        replay = self._get(replay_id)
        with self.store.write() as tx:
            if not replays.abort(tx, replay_id, f"aborted by {self.actor}: {reason}", self.store.clock.now()):
                raise Conflict(f"replay {replay_id} is {replay.state} already: nothing was changed")
            self._note(tx, replay_id, "aborted", reason)

    # --- One act ---

    def _next(self, replay: Replay, options: ReplayOptions) -> NextAct:
        now = self.store.clock.now()
        with self.store.read() as tx:
            standing = _standing(replays.progress(tx, replay.id))
            troubles = self._troubles(tx, replay, options, now)
        return next_act(standing, options, troubles, now)

    def _troubles(self, tx: Tx, replay: Replay, options: ReplayOptions, now: datetime) -> list[str]:
        groups = group_facts(tx, self.settings, sorted(replays.kinds(tx, replay.id)), now)
        return [why for group in groups.values() if (why := _blocked(group, options))]

    def _batch(self, replay: Replay, options: ReplayOptions, size: int, hear: Hear) -> bool:
        """Replay the next *size* jobs in one transaction; what has changed since the preview is skipped.

        False, and nothing is done, when the plan is ours no more. Its row is held until the commit, so that
        no batch follows an abort that was answered.
        """
        now = self.store.clock.now()
        heard: list[Outcome] = []
        with self.store.write() as tx:
            if not replays.keep(tx, replay, now, now + LEASE):
                return False
            batch = replays.progress(tx, replay.id).batches + 1
            for item, found in self._judged(tx, replays.next_items(tx, replay.id, size), options, now):
                forced = options.force
                reason = (
                    found if isinstance(found, str) else self._reopen(tx, replay, found, now, forced=forced)
                )
                state = "skipped" if reason else "replayed"
                replays.mark(
                    tx, replay.id, item, state, reason=reason, batch=None if reason else batch,
                    replayed_at=None if reason else now,
                )  # fmt: skip
                heard.append(Outcome(item.job_id, state, reason))
        for outcome in heard:
            hear(outcome)
        return True

    def _judged(
        self, tx: Tx, items: Sequence[Item], options: ReplayOptions, now: datetime
    ) -> Iterator[tuple[Item, Job | str]]:
        """Each item with its job, locked, or with the reason not to replay it."""
        groups = group_facts(tx, self.settings, {(item.type, item.error_class) for item in items}, now)
        present = self.coordinator.lock_jobs(tx, [item.job_id for item in items])
        facts = job_facts(tx, self.settings, [(item.job_id, item.round) for item in items], present=present)
        for item in items:
            why = verdict(groups[item.type, item.error_class], facts.get(item.job_id), options)
            yield item, why or present[item.job_id]

    def _reopen(self, tx: Tx, replay: Replay, job: Job, now: datetime, *, forced: bool) -> str | None:
        """Replay one job; why not, in words, or None."""
        priority = min(job.priority, LOWEST_PRIORITY)
        name = f"{'forced ' if forced else ''}replay {replay.id}"
        reason = f"{name}: {replay.reason}" if replay.reason else name
        try:
            self.coordinator.reopen_in(tx, job, now, actor=self.actor, reason=reason, priority=priority)
        except Conflict as error:
            return error.message
        return None

    def _settle(self, replay: Replay, hear: Hear) -> int:
        """Note which replayed jobs have ended again, and how; how many they are."""
        heard: list[Outcome] = []
        with self.store.write() as tx:
            for item, status, error_class in replays.settled(tx, replay.id):
                well = status == Status.SUCCEEDED.value
                reason = None if well else f"{status}: {error_class or 'no error'}"
                state = "succeeded" if well else "failed"
                if replays.mark(
                    tx, replay.id, item, state, reason=reason, batch=item.batch, replayed_at=item.replayed_at
                ):
                    heard.append(Outcome(item.job_id, state, reason))
        for outcome in heard:
            hear(outcome)
        return len(heard)

    def _pause(self, act: NextAct) -> float:
        if act.wait_until is None:
            return LOOK_EVERY
        left = (act.wait_until - self.store.clock.now()).total_seconds()
        return min(max(left, 0.0), LEASE.total_seconds() / 3)

    # --- Owning the plan ---

    def _get(self, replay_id: str) -> Replay:
        with self.store.read() as tx:
            replay = replays.get(tx, replay_id)
        if replay is None:
            raise NotFound(f"no replay {replay_id}", hint="'aijobs deadletter replays' lists them")
        return replay

    def _take(self, replay_id: str, changes: Changes, reason: str | None) -> Replay:
        if reason is not None:
            checked_reason(reason)
        self._get(replay_id)
        now = self.store.clock.now()
        with self.store.write() as tx:
            taken = replays.take(tx, replay_id, self.owner, now, now + LEASE)
            replay = replays.get(tx, replay_id)
            if taken and replay is not None:
                kept = replays.to_json(options_json(options_of(replay, changes)))
                replays.amend(tx, replay, kept, reason)
                self._note(tx, replay_id, "begun", reason)
                replay = replays.get(tx, replay_id)
        assert replay is not None
        if not taken:
            who = f"carried out by {replay.owner}" if replay.state == "running" else replay.state
            raise Conflict(f"replay {replay_id} is {who}: nothing was changed")
        return replay

    def _keep(self, replay: Replay) -> bool:
        now = self.store.clock.now()
        with self.store.write() as tx:
            return replays.keep(tx, replay, now, now + LEASE)

    def _end(self, replay: Replay, state: str, because: str | None) -> RunReport:
        with self.store.write() as tx:
            held = replays.end(tx, replay, state, because, self.store.clock.now())
            progress = replays.progress(tx, replay.id)
            if held:
                self._note(tx, replay.id, state, because)
        if not held:
            return self._lost(replay.id)
        return RunReport(replay=replay.id, state=state, progress=progress, stopped_because=because)

    def _note(self, tx: Tx, replay_id: str, what: str, reason: str | None) -> None:
        detail: dict[str, object] = {"replay": replay_id, "what": what, "owner": self.owner}
        now = self.store.clock.now()
        event = Event(kind="replay", actor=self.actor, at=now, reason=reason, detail=detail)
        history.add_events(tx, [event])

    def _lost(self, replay_id: str) -> RunReport:
        """Somebody aborted it, or took it over because we were silent for too long."""
        replay = self._get(replay_id)
        with self.store.read() as tx:
            progress = replays.progress(tx, replay_id)
        because = replay.stopped_because or f"taken over by {replay.owner or 'somebody else'}"
        state = "aborted" if replay.state == "aborted" else "interrupted"
        return RunReport(replay=replay_id, state=state, progress=progress, stopped_because=because)


def _blocked(group: GroupFacts, options: ReplayOptions) -> str | None:
    checks = check_group(group, force=options.force)
    return next((check.evidence for check in checks if not check.ok), None)


def _standing(progress: Progress) -> Standing:
    return Standing(
        batches=progress.leg_batches,
        planned=progress.planned,
        running=progress.replayed,
        succeeded=progress.leg_succeeded,
        failed=progress.leg_failed,
        last_batch_at=progress.last_batch_at,
        last_batch_size=progress.last_batch_size,
    )


def options_of(replay: Replay, changes: Changes = NO_CHANGES) -> ReplayOptions:
    """The options of a stored plan, with *changes*."""
    kept = json.loads(replay.options or "{}")
    if "rate" in kept:
        kept["rate"] = parse_rate(kept["rate"])
    return ReplayOptions(**{**kept, **changes})


def _go_on(replay: Replay) -> str:
    if replay.state in ("interrupted", "stopped"):
        return f"go on with 'aijobs deadletter replay --resume {replay.id}'"
    if replay.state == "running":
        return f"if nobody carries it out: 'aijobs deadletter replay --resume {replay.id}', a minute later"
    return "make a new one with --preview"
