"""How the whole is: store, clocks, schedules, workers, providers, backlog, webhooks, notifications."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from aijobs.core.diagnosis.findings import Diagnosis, Finding, Layer, ago, conclude, many
from aijobs.core.diagnosis.steps import LIMIT_STEPS, layer_at, pause_of, provider_steps, until_called
from aijobs.core.limits import Limits, Running, Tally
from aijobs.core.overview import OVERDUE, FailedJob, Overview, ProviderSeen
from aijobs.core.settings import Settings
from aijobs.core.switches import Pauses, SwitchKind, types_of

LARGEST_SKEW = 5.0
"""Seconds that this machine's clock and the store's may be apart."""


@dataclass(frozen=True, kw_only=True)
class SystemSnapshot:
    """What the checks look at.

    *skew_seconds*: how far the server's clock is ahead; None without a server. *failures*: some of the jobs
    that failed last, the latest first: what a provider that is not called died of. *running*: what counts in
    the *limits*.
    """

    overview: Overview
    settings: Settings
    limits: Limits
    store: str
    skew_seconds: float | None = None
    failures: Sequence[FailedJob] = ()
    running: Sequence[Running] = ()

    def last_failure(self, provider: str) -> FailedJob | None:
        """The latest of `failures` of a type that goes to *provider*."""
        types = {name for name, kind in self.settings.types.items() if kind.provider == provider}
        return next((job for job in self.failures if job.type in types), None)

    @cached_property
    def routes(self) -> dict[str, str]:
        """The provider that the next calls of each type go to: that of a fallback while it is switched on."""
        on_fallback = types_of(self.overview.switches, SwitchKind.FALLBACK, self.overview.now)
        kinds = self.settings.types.items()
        return {name: kind.route(fallback=name in on_fallback)[0] for name, kind in kinds}

    def ready_at(self, provider: str) -> int:
        """How many jobs wait for *provider* alone: no pause or limit keeps them, and a worker serves them."""
        seen = self.overview
        pauses = Pauses.of(seen.switches, seen.now)
        return sum(
            load.ready
            for name, load in seen.loads.items()
            if self.routes.get(name) == provider
            and name not in self.limited
            and pauses.why(name, 0) is None
            and any(worker.serves(name) for worker in seen.alive)
        )

    @cached_property
    def limited(self) -> dict[str, str]:
        """The types with ready jobs of which none may start, and the limit that is reached, in words."""
        tally = Tally(self.limits.along(self.routes), self.running)
        found = {name: tally.blocked_type(name) for name in self.routes if self.overview.loads[name].ready}
        return {name: why for name, why in found.items() if why}


def diagnose_system(snapshot: SystemSnapshot) -> Diagnosis:
    """Every check, and the layer that keeps jobs, if any does."""
    findings = (finding for check in CHECKS for finding in check(snapshot))
    return conclude(findings, well="nothing keeps jobs")


def _store(s: SystemSnapshot) -> Iterator[Finding]:
    total = s.overview.total
    counts = f"{total.waiting} wait, {total.running} run, {total.parked} parked, {total.held} held"
    yield Finding(check="store", ok=True, evidence=f"{s.store}: {counts}")


def _clock(s: SystemSnapshot) -> Iterator[Finding]:
    if s.skew_seconds is None:
        return
    ok = abs(s.skew_seconds) <= LARGEST_SKEW
    side = "ahead of" if s.skew_seconds > 0 else "behind"
    yield Finding(
        check="clock",
        ok=ok,
        evidence=f"the server's clock is {abs(s.skew_seconds):.1f} s {side} this machine's",
        layer=None if ok else Layer.WORKER,
        next_steps=() if ok else ("set the clocks (NTP)", "aijobs doctor"),
    )


def _schedules(s: SystemSnapshot) -> Iterator[Finding]:
    for one in s.overview.schedules:
        if one.overdue_since is not None:
            late = ago(s.overview.now - one.overdue_since)
            yield Finding(
                check=f"schedule {one.name}",
                ok=False,
                evidence=f"schedule {one.name} is overdue for {late}: nobody ticks",
                since=one.overdue_since,
                layer=Layer.CLIENT,
                next_steps=("aijobs tick", "see that cron calls aijobs tick every minute"),
            )
        elif one.last_tick_at is None:
            evidence = f"no tick has seen schedule {one.name} yet: does cron call aijobs tick every minute?"
            yield Finding(check=f"schedule {one.name}", ok=True, evidence=evidence)


def _pauses(s: SystemSnapshot) -> Iterator[Finding]:
    seen = s.overview
    pauses = Pauses.of(seen.switches, seen.now)
    for name, load in seen.loads.items():
        kept = pause_of(pauses, seen.switches, name, 0)
        if kept and load.ready:
            yield Finding(
                check=f"pause {name}",
                ok=False,
                evidence=f"{kept.why}; of type {name} {many(load.ready, 'job')} ready",
                since=kept.since,
                layer=Layer.QUEUE,
                next_steps=("aijobs switch list", kept.resume),
            )


def _held(s: SystemSnapshot) -> Iterator[Finding]:
    count = s.overview.total.held
    if count:
        yield Finding(
            check="held",
            ok=False,
            evidence=f"{many(count, 'job')} held for a person, who must find out whether the work was done",
            layer=Layer.QUEUE,
            next_steps=("aijobs inspect --status failed", "aijobs retry JOB --reason '...'"),
        )


def _workers(s: SystemSnapshot) -> Iterator[Finding]:
    seen = s.overview
    alive = seen.alive
    names = ", ".join(worker.name for worker in alive[:5]) or "none"
    idle_types = [
        name
        for name, load in seen.loads.items()
        if (load.ready or load.parked) and not any(worker.serves(name) for worker in alive)
    ]
    unknown = [name for name in idle_types if name not in s.settings.types]
    text = f"{len(alive)} alive: {names}"
    if idle_types:
        text += f"; nobody serves {', '.join(idle_types)}"
    if unknown:
        text += f"; not configured: {', '.join(unknown)}"
    yield Finding(
        check="workers",
        ok=not idle_types,
        evidence=text,
        since=max((worker.heartbeat_at for worker in seen.workers), default=None) if idle_types else None,
        layer=Layer.WORKER if idle_types else None,
        next_steps=("aijobs worker", "aijobs doctor") if idle_types else (),
    )


def _leases(s: SystemSnapshot) -> Iterator[Finding]:
    count, alive = s.overview.total.expired, s.overview.alive
    if count:
        yield Finding(
            check="leases",
            ok=bool(alive),
            evidence=f"{many(count, 'lease')} ran out"
            + ("; live workers take them over" if alive else ", and no worker is alive to take them over"),
            layer=None if alive else Layer.WORKER,
            next_steps=() if alive else ("aijobs sweep", "aijobs worker"),
        )


def _providers(s: SystemSnapshot) -> Iterator[Finding]:
    for one in s.overview.providers:
        yield _provider(one, s.last_failure(one.name), well=_well(s, one))


def _well(s: SystemSnapshot, one: ProviderSeen) -> bool:
    """Whether it keeps no job; one that is shut, or held, is not well even while nothing waits for it."""
    paused = one.paused_until is not None and s.overview.now < one.paused_until
    if one.held or paused or one.breaker == "open":
        return False
    return one.allowed is None or s.ready_at(one.name) <= one.allowed


def _provider(one: ProviderSeen, failed: FailedJob | None, *, well: bool) -> Finding:
    state = "may be called" if one.allowed != 0 else "is not called now"
    ends = "" if well else until_called(one)
    steps = () if well else provider_steps(one)
    layer = None if well else layer_at(one)
    if failed is not None and layer is Layer.PROVIDER and not one.held:
        ends += f"; the last failure there: {failed.error_class} {failed.error_code or ''}".rstrip()
        steps = (f"aijobs diagnose {failed.id}", *steps)
    return Finding(
        check=f"provider {one.name}",
        ok=well,
        evidence=f"{one.name} {state}: {one.reason}{ends}",
        since=one.since,
        layer=layer,
        next_steps=steps,
    )


def _limits(s: SystemSnapshot) -> Iterator[Finding]:
    for name, why in s.limited.items():
        load = s.overview.loads[name]
        yield Finding(
            check=f"limits {name}",
            ok=False,
            evidence=f"{why}; of type {name} {many(load.ready, 'job')} ready",
            since=load.oldest_ready_at,
            layer=Layer.QUEUE,
            next_steps=LIMIT_STEPS,
        )


def _backlog(s: SystemSnapshot) -> Iterator[Finding]:
    total, now = s.overview.total, s.overview.now
    patience = s.settings.alerts.rules.queue_wait.longer_than
    if total.oldest_ready_at is None:
        yield Finding(check="backlog", ok=True, evidence="no job is ready and waits")
        return
    waits = now - total.oldest_ready_at
    ok = patience is None or waits <= patience
    helps = not s.limited and all(_well(s, one) for one in s.overview.providers)
    more = ("aijobs worker --concurrency N",) if helps else ()
    yield Finding(
        check="backlog",
        ok=ok,
        evidence=f"{many(total.ready, 'job')} ready; the oldest waits for {ago(waits)}",
        since=total.oldest_ready_at,
        layer=None if ok else Layer.QUEUE,
        next_steps=() if ok else ("aijobs stats", *more),
    )


def _stuck(s: SystemSnapshot) -> Iterator[Finding]:
    seen, patience = s.overview, s.settings.alerts.rules.stuck.longer_than
    for name, load in seen.loads.items():
        kind = s.settings.types.get(name)
        bounds = (
            (load.oldest_running_at, patience),
            (load.oldest_parked_at, kind.background_options.max_run if kind else None),
        )
        for since, most in bounds:
            if since is not None and most is not None and seen.now - since > most:
                yield Finding(
                    check=f"stuck {name}",
                    ok=False,
                    evidence=f"a job of type {name} has been running for {ago(seen.now - since)}",
                    since=since,
                    layer=Layer.PROVIDER,
                    next_steps=(f"aijobs inspect --status processing --type {name}", "aijobs diagnose JOB"),
                )


def _dead_letters(s: SystemSnapshot) -> Iterator[Finding]:
    seen = s.overview
    count = sum(seen.dead_letters.values())
    text = (
        f"{many(count, 'dead letter')} open: see aijobs deadletter list"
        if count
        else "no dead letter is open"
    )
    yield Finding(check="dead letters", ok=True, evidence=text, since=seen.oldest_dead_letter_at)


def _webhooks(s: SystemSnapshot) -> Iterator[Finding]:
    seen = s.overview
    since = seen.oldest_unmatched_at
    if since is None:
        return
    ok = seen.now - since <= OVERDUE
    yield Finding(
        check="webhooks",
        ok=ok,
        evidence=f"{many(seen.unmatched, 'webhook')} found no job, the oldest for {ago(seen.now - since)}",
        since=since,
        layer=None if ok else Layer.WEBHOOK,
        next_steps=() if ok else ("aijobs sweep", "does another store or program use the same account?"),
    )


def _notifications(s: SystemSnapshot) -> Iterator[Finding]:
    for target, count in sorted(s.overview.notifications_overdue.items()):
        yield Finding(
            check=f"notifications {target}",
            ok=False,
            evidence=f"{many(count, 'notification')} for {target} overdue",
            layer=Layer.NOTIFICATION,
            next_steps=("aijobs worker", f"check notify: {target} and its receiver"),
        )


CHECKS: Sequence[Callable[[SystemSnapshot], Iterator[Finding]]] = (
    _store, _clock, _schedules, _pauses, _held, _workers, _leases, _providers, _limits, _backlog, _stuck,
    _dead_letters, _webhooks, _notifications,
)  # fmt: skip
