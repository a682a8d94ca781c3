"""Replaying dead letters: what may run again, in which steps, and when to stop. Pure.

The preview and the run use the same functions on the same facts: what was shown is what is done.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aijobs.core.durations import Rate
from aijobs.core.model import ErrorClass, Job, Status
from aijobs.core.overview import WorkerSeen

LOWEST_PRIORITY = -1000
"""What replayed jobs run at, so that live ones keep their place."""

_E = ErrorClass
_SAME_AGAIN = frozenset(
    {_E.INVALID_REQUEST, _E.CONTEXT_LENGTH, _E.CONTENT_POLICY, _E.NOT_FOUND, _E.OUTPUT_TRUNCATED}
)
"""Classes where the same request meets the same answer, until something changes: here, or at the provider."""

FORCIBLE = frozenset({"provider_health", "probe"})
"""Checks that a person may overrule: they are about the moment, and the breaker still guards the provider."""

ADVISORY = frozenset({"workers"})
"""Checks that keep nothing away: what they ask for may come after the plan was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How fast and how careful. *ramp*: batches double from the canary on instead of being full at once.

    *force*: go on although a provider is unwell (its jobs then wait where all its jobs wait), or although
    nothing has changed here: a person says that something has where we cannot see it.
    """

    batch_size: int = 10
    rate: Rate = field(default_factory=lambda: Rate(1, timedelta(seconds=1)))
    canary: int = 1
    ramp: bool = False
    max_failure_ratio: float = 0.2
    force: bool = False

    def span_of(self, count: int) -> timedelta:
        """How long *count* jobs take at the rate."""
        return self.rate.per * (count / self.rate.count)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at, with what was seen."""

    check: str
    ok: bool
    evidence: str

    @property
    def blocks(self) -> bool:
        """Whether it keeps its jobs from being replayed."""
        return not self.ok and self.check not in ADVISORY


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFacts:
    """What is known of a provider at the moment."""

    name: str
    configured: bool
    has_credentials: bool
    keyless: bool = False  # called without any
    trouble: str | None = None  # breaker, pause or hold, in words
    limits: str | None = None  # what its last headers said
    probe: tuple[bool, str] | None = None  # whether a free call found all well, and what; None: none was made


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What is known of the dead letters of one type and error class, apart from the single job."""

    type: str
    error_class: str
    configured: bool  # whether the type is there
    provider: ProviderFacts | None
    code_now: str | None
    paused: str | None = None  # the pause in force, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is known of one dead letter. *code_then* is the version its last attempt ran under."""

    job: Job
    round: int
    state: str
    code_then: str | None
    input_there: bool
    input_faults: tuple[str, ...] = ()
    key_owner: Job | None = None
    max_replays: int | None = None


def check_group(facts: GroupFacts, *, force: bool = False) -> list[Check]:
    """What has to hold before any dead letter of the group is replayed, each with its evidence.

    With *force* an unwell provider is no obstacle. What nothing but a change mends always is one.
    """
    return [_overruled(check) if force and check.check in FORCIBLE else check for check in _checks(facts)]


def _overruled(check: Check) -> Check:
    return check if check.ok else Check(check.check, True, f"{check.evidence} (overruled by --force)")


def _checks(facts: GroupFacts) -> list[Check]:
    provider = facts.provider
    checks = [Check("type_known", facts.configured, f"type {facts.type} {_there(facts.configured)}")]
    if provider is not None:
        checks += [
            Check(
                "provider_known",
                provider.configured,
                f"provider {provider.name} {_there(provider.configured)}",
            ),
            Check("credentials", provider.has_credentials, _credentials(provider)),
            Check(
                "provider_health", provider.trouble is None, provider.trouble or f"{provider.name} is well"
            ),
            Check("quota", True, provider.limits or f"{provider.name} has said nothing of its limits"),
        ]
        if provider.probe is not None:
            checks.append(Check("probe", *provider.probe))
    checks.append(
        Check("not_paused", facts.paused is None, facts.paused or f"type {facts.type} is not paused")
    )
    return checks


def check_workers(workers: Iterable[WorkerSeen], types: Iterable[str]) -> Check:
    """Whether somebody is alive to run what is replayed of *types*."""
    alive = [worker for worker in workers if worker.alive]
    if not alive:
        return Check("workers", False, "no worker is alive: what is replayed waits for one (aijobs worker)")
    idle = sorted(name for name in set(types) if not any(worker.serves(name) for worker in alive))
    if idle:
        return Check("workers", False, f"{len(alive)} alive, none of which serves type {', '.join(idle)}")
    return Check("workers", True, f"{len(alive)} alive")


def why_not(facts: JobFacts, code_now: str | None, *, force: bool = False) -> str | None:
    """Why this dead letter must not be replayed, in words, or None. The run asks again before it acts.

    With *force* it is no obstacle that nothing has changed.
    """
    job = facts.job
    if job.status is not Status.DEAD_LETTER or facts.state != "open" or job.round != facts.round:
        return f"changed since: it is {job.status}, round {job.round}, {facts.state}"
    if not facts.input_there:
        return "its input is no longer kept"
    if facts.input_faults:
        return f"its input no longer fits the schema: {facts.input_faults[0]}"
    if facts.max_replays is not None and job.round > facts.max_replays:
        return f"replayed {job.round - 1} times already, as often as its type allows"
    if facts.key_owner is not None:
        return f"its key belongs to the newer job {facts.key_owner.id}, which is {facts.key_owner.status}"
    return None if force else _not_recoverable(job, facts.code_then, code_now)


def _not_recoverable(job: Job, code_then: str | None, code_now: str | None) -> str | None:
    if job.last_error_class not in {error.value for error in _SAME_AGAIN}:
        return None
    if code_then is None or code_now is None or code_then != code_now:
        return None
    return same_again(job.last_error_class)


def same_again(error_class: str) -> str:
    """Why a dead letter of that class is skipped when nothing but --force stands for a change."""
    return f"{error_class}: the same request would meet the same answer; nothing has changed since"


def steps(total: int, options: ReplayOptions) -> list[int]:
    """The sizes of the batches for *total* jobs: the canary first, then doubling or full ones."""
    sizes: list[int] = []
    left = total
    while left > 0:
        size = min(left, _size(sizes, options))
        sizes.append(size)
        left -= size
    return sizes


def next_size(batches_done: int, options: ReplayOptions) -> int:
    """The size of the batch after *batches_done* others."""
    sizes: list[int] = []
    for _ in range(batches_done + 1):
        sizes.append(_size(sizes, options))  # each depends on those before
        if sizes[-1] >= options.batch_size and len(sizes) > 1:
            return options.batch_size
    return sizes[-1]


def _size(before: Sequence[int], options: ReplayOptions) -> int:
    if not before and options.canary > 0:
        return min(options.canary, options.batch_size)
    if options.ramp and before:
        return min(before[-1] * 2, options.batch_size)
    return options.batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a replay has come. *settled* jobs have ended again: well or not."""

    batches: int
    planned: int  # still to be replayed
    running: int  # replayed, not yet settled
    succeeded: int
    failed: int
    last_batch_at: datetime | None
    last_batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextAct:
    """What to do now: start *size* jobs, wait until *wait_until*, end, or else let *settling* settle."""

    size: int = 0
    wait_until: datetime | None = None
    settling: str | None = None
    stop: str | None = None
    done: bool = False


def next_act(standing: Standing, options: ReplayOptions, troubles: Iterable[str], now: datetime) -> NextAct:
    """The next act of a replay that stands as it does; *troubles* are its providers' troubles, in words.

    A batch begins only when the one before has settled, so whatever goes wrong costs at most one batch more
    than the bound.
    """
    failed, settled = standing.failed, standing.failed + standing.succeeded
    if standing.batches == 1 and options.canary and failed:
        return NextAct(stop=f"the canary failed: {failed} of {settled}")
    if settled and failed / settled > options.max_failure_ratio and standing.batches > 0:
        share = f"{failed} of {settled} failed again"
        return NextAct(stop=f"{share}, more than {options.max_failure_ratio:.0%}")
    trouble = next(iter(troubles), None)
    if trouble and standing.planned:  # nor are jobs waited for that wait for it: they end without us
        return NextAct(stop=trouble)
    if standing.running:
        return NextAct(settling="the canary" if standing.batches == 1 and options.canary else "the batch")
    if standing.planned == 0:
        return NextAct(done=True)
    if standing.last_batch_at is not None:
        due = standing.last_batch_at + options.span_of(standing.last_batch_size)
        if now < due:
            return NextAct(wait_until=due)
    return NextAct(size=min(standing.planned, next_size(standing.batches, options)))


def _credentials(provider: ProviderFacts) -> str:
    if not provider.has_credentials:
        return f"credentials of {provider.name} are missing"
    return (
        f"{provider.name} is called without any" if provider.keyless else f"those of {provider.name} are set"
    )


def _there(known: bool) -> str:
    return "is configured" if known else "is no longer configured"
