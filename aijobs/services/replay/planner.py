"""The preview: a stored plan of what a replay would do, and why not the rest."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from aijobs.core.clock import Chance
from aijobs.core.ids import new_id
from aijobs.core.replaying import (
    Check,
    GroupFacts,
    JobFacts,
    ReplayOptions,
    check_group,
    check_workers,
    same_again,
    steps,
    why_not,
)
from aijobs.core.settings import Settings
from aijobs.providers.contract import Probed
from aijobs.services.replay.facts import group_facts, job_facts
from aijobs.services.statistics import workers_seen
from aijobs.store import dead_letters, replays
from aijobs.store.dead_letters import DeadLetter, DeadLetterFilter
from aijobs.store.engine import Store, Tx
from aijobs.store.replays import Item, Replay

PLAN_LIVES = timedelta(hours=24)
"""How long a plan may be run after its preview; later its checks mean nothing."""

_CHUNK = 500

Probe = Callable[[Sequence[str]], Mapping[str, Probed]]
"""Asks providers, by one free call each, whether they take our credentials."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A dead letter that will not be replayed, and why."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """What becomes of the dead letters of one type and error class.

    *unchanged* of them are skipped only because nothing has changed here since they died.
    """

    type: str
    error_class: str
    count: int
    replayable: int
    oldest: datetime
    newest: datetime
    verdict: str
    unchanged: int
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A preview: exactly what `run` would do."""

    id: str
    replayable: int
    skipped: tuple[Skipped, ...]
    groups: tuple[PlannedGroup, ...]
    checks: tuple[Check, ...]
    batches: tuple[int, ...]
    estimated: timedelta
    expires_at: datetime

    @property
    def blocked(self) -> bool:
        """Whether a check is in the way, or none of what was found can be replayed."""
        return (self.replayable == 0 and bool(self.groups)) or any(check.blocks for check in self.checks)


class Planner:
    """Makes plans. Nothing changes but that the plan is stored."""

    def __init__(
        self, store: Store, settings: Settings, *, chance: Chance, probe: Probe | None = None
    ) -> None:
        self.store = store
        self.settings = settings
        self.chance = chance
        self.probe = probe

    def plan(
        self, wanted: DeadLetterFilter, options: ReplayOptions, *, limit: int, actor: str, reason: str | None
    ) -> Plan:
        """Judge at most *limit* of the dead letters that *wanted* names, the oldest first, and store it."""
        with self.store.read() as tx:
            found = dead_letters.oldest(tx, wanted, limit)
        probed = self._probed(found)  # takes seconds: in no transaction
        now = self.store.clock.now()
        with self.store.read() as tx:
            facts = self._groups(tx, found, probed, now)
            judged = list(self._judge(tx, found, facts, options))
            seen = workers_seen(tx, now, self.settings.worker.lease)
        items = [_item(position, dead, reason) for position, (dead, reason) in enumerate(judged)]
        there = check_workers(seen, {dead.type for dead in found})
        plan = self._described(judged, facts, there, options, now)
        with self.store.write() as tx:
            replays.create(tx, self._row(plan, wanted, options, now, actor=actor, reason=reason), items)
        return plan

    def _probed(self, found: Sequence[DeadLetter]) -> Mapping[str, Probed]:
        types = {dead.type for dead in found} & self.settings.types.keys()
        names = sorted({self.settings.types[name].provider for name in types})
        return self.probe(names) if self.probe is not None and names else {}

    def _groups(
        self, tx: Tx, found: Sequence[DeadLetter], probed: Mapping[str, Probed], now: datetime
    ) -> Mapping[tuple[str, str], GroupFacts]:
        facts = group_facts(tx, self.settings, {(dead.type, dead.error_class) for dead in found}, now)
        return {key: _with_probe(one, probed) for key, one in facts.items()}

    def _judge(
        self, tx: Tx, found: Sequence[DeadLetter], groups: Mapping[tuple[str, str], GroupFacts],
        options: ReplayOptions,
    ) -> Iterator[tuple[DeadLetter, str | None]]:  # fmt: skip
        """Each dead letter with the reason not to replay it, or None."""
        for start in range(0, len(found), _CHUNK):
            chunk = found[start : start + _CHUNK]
            facts = job_facts(tx, self.settings, [(dead.job_id, dead.round) for dead in chunk])
            for dead in chunk:
                yield dead, verdict(groups[dead.type, dead.error_class], facts.get(dead.job_id), options)

    def _described(
        self, judged: Sequence[tuple[DeadLetter, str | None]], facts: Mapping[tuple[str, str], GroupFacts],
        there: Check, options: ReplayOptions, now: datetime,
    ) -> Plan:  # fmt: skip
        groups = [self._group(one, judged, options) for one in facts.values()]
        replayable = sum(reason is None for _, reason in judged)
        return Plan(
            id=new_id(now, self.chance),
            replayable=replayable,
            skipped=tuple(Skipped(dead.job_id, reason) for dead, reason in judged if reason is not None),
            groups=tuple(sorted(groups, key=lambda group: (-group.count, group.type, group.error_class))),
            checks=(
                *dict.fromkeys(check for group in groups for check in group.checks),
                *([there] if judged else []),
            ),
            batches=tuple(steps(replayable, options)),
            estimated=options.span_of(replayable),
            expires_at=now + PLAN_LIVES,
        )

    def _group(
        self, facts: GroupFacts, judged: Sequence[tuple[DeadLetter, str | None]], options: ReplayOptions
    ) -> PlannedGroup:
        ours = [(d, why) for d, why in judged if (d.type, d.error_class) == (facts.type, facts.error_class)]
        reasons = Counter(why for _, why in ours if why is not None)
        replayable = len(ours) - reasons.total()
        commonest = ", ".join(f"{count} x {_kind(why)}" for why, count in _kinds(reasons).most_common(3))
        word = "replay" if replayable == len(ours) else "skip" if replayable == 0 else "replay some"
        return PlannedGroup(
            type=facts.type,
            error_class=facts.error_class,
            count=len(ours),
            replayable=replayable,
            oldest=min(dead.at for dead, _ in ours),
            newest=max(dead.at for dead, _ in ours),
            verdict=f"{word}: {commonest}" if commonest else word,
            unchanged=reasons[same_again(facts.error_class)],
            checks=tuple(check_group(facts, force=options.force)),
        )

    def _row(
        self, plan: Plan, wanted: DeadLetterFilter, options: ReplayOptions, now: datetime, *, actor: str,
        reason: str | None,
    ) -> Replay:  # fmt: skip
        return Replay(
            id=plan.id, state="planned", actor=actor, reason=reason,
            filters=replays.to_json({k: v for k, v in asdict(wanted).items() if v not in (None, ())}),
            options=replays.to_json(options_json(options)),
            checks=replays.to_json([asdict(check) for check in plan.checks]),
            created_at=now, updated_at=now, expires_at=plan.expires_at, owner=None, owner_until=None,
            owner_token=0, stopped_because=None, finished_at=None,
        )  # fmt: skip


def _with_probe(facts: GroupFacts, probed: Mapping[str, Probed]) -> GroupFacts:
    provider = facts.provider
    answer = probed.get(provider.name) if provider else None
    if provider is None or answer is None:
        return facts
    return replace(facts, provider=replace(provider, probe=(answer.ok, answer.evidence)))


def verdict(group: GroupFacts, facts: JobFacts | None, options: ReplayOptions) -> str | None:
    """Why one dead letter must not be replayed, or None; asked by the preview and, again, by the run."""
    for check in check_group(group, force=options.force):
        if not check.ok:
            return f"{check.check}: {check.evidence}"
    if facts is None:
        return "the job is gone"
    return why_not(facts, group.code_now, force=options.force)


def options_json(options: ReplayOptions) -> dict[str, object]:
    """Options as they are kept and shown."""
    return {
        "batch_size": options.batch_size, "rate": str(options.rate), "canary": options.canary,
        "ramp": options.ramp, "max_failure_ratio": options.max_failure_ratio, "force": options.force,
    }  # fmt: skip


def _item(position: int, dead: DeadLetter, reason: str | None) -> Item:
    return Item(
        job_id=dead.job_id, position=position, round=dead.round, type=dead.type, error_class=dead.error_class,
        state="planned" if reason is None else "skipped", reason=reason,
    )  # fmt: skip


def _kind(reason: str) -> str:
    return reason.partition(":")[0]


def _kinds(reasons: Counter[str]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for reason, count in reasons.items():
        kinds[_kind(reason)] += count
    return kinds
