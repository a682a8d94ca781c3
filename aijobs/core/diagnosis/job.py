"""Why one job is where it is: accepted, due, claimable, claimed, called, ended, stored, told."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from aijobs.core.diagnosis.ends import ENDS
from aijobs.core.diagnosis.findings import Diagnosis, Finding, Layer, ago, conclude, layer_of, many
from aijobs.core.diagnosis.snapshot import DeliverySeen, JobSnapshot, NotificationSeen
from aijobs.core.diagnosis.steps import LIMIT_STEPS, layer_at, not_called, pause_of, provider_steps
from aijobs.core.limits import Tally
from aijobs.core.model import Status
from aijobs.core.switches import Pauses
from aijobs.core.timeouts import longest_timeout

__all__ = ["DeliverySeen", "JobSnapshot", "NotificationSeen", "diagnose_job"]

Check = Callable[[JobSnapshot], Iterator[Finding]]

NOTICED_WITHIN = timedelta(minutes=1)
"""Within so long a live worker sees a request to cancel, and looks at a provider when it is time."""


def diagnose_job(snapshot: JobSnapshot) -> Diagnosis:
    """Every check in order, and the layer that keeps the job, if any does."""
    findings = (finding for check in CHECKS for finding in check(snapshot))
    return conclude(findings, well=_well(snapshot))


def _well(s: JobSnapshot) -> str:
    match s.job.status:
        case Status.SUCCEEDED:
            return "the job succeeded and its result is stored"
        case Status.CANCELLED:
            return "the job was cancelled, as somebody asked"
        case Status.PROCESSING:
            return "the job is being carried out"
        case _:
            return "nothing keeps the job: it is about to start"


# --- Accepted, and may it start? ------------------------------------------------------------------


def _saved(s: JobSnapshot) -> Iterator[Finding]:
    job = s.job
    parts = [f"accepted from {job.created_by or 'somebody unnamed'}", f"status {job.status}"]
    if job.request_id:
        parts.append(f"request {job.request_id}")
    yield Finding(check="saved", ok=True, evidence=", ".join(parts), since=job.created_at)


def _configured(s: JobSnapshot) -> Iterator[Finding]:
    known = s.job.type in s.settings.types
    if not known and s.job.status.final:
        return
    name = s.job.type
    text = f"type {name} is configured" if known else f"no type {name} is configured: nobody runs it"
    steps = (
        "aijobs config show",
        f"add type {name} to the configuration of the workers",
        f"aijobs cancel {s.job.id} --reason '...'",
    )
    yield Finding(
        check="type", ok=known, evidence=text, layer=None if known else Layer.WORKER,
        next_steps=() if known else steps,
    )  # fmt: skip


def _held(s: JobSnapshot) -> Iterator[Finding]:
    job = s.job
    if job.hold_reason is None:
        return
    yield Finding(
        check="held",
        ok=False,
        evidence=f"it waits for a person: {job.hold_reason}",
        since=job.updated_at,
        layer=layer_of(job.last_error_class, job.last_error_code),
        next_steps=(
            f"find out at provider {job.provider or ''} whether the work was done".replace("  ", " "),
            f"aijobs retry {job.id} --reason '...'",
            f"aijobs cancel {job.id} --reason '...'",
        ),
    )


def _deadline(s: JobSnapshot) -> Iterator[Finding]:
    if s.waiting and s.job.deadline and s.job.deadline <= s.now:
        yield Finding(
            check="deadline",
            ok=False,
            evidence=f"its deadline passed {ago(s.now - s.job.deadline)} ago while it waited",
            since=s.job.deadline,
            layer=Layer.QUEUE,
            next_steps=("aijobs sweep", "aijobs stats"),
        )


def _due(s: JobSnapshot) -> Iterator[Finding]:
    job, at = s.job, s.job.next_run_at
    if not s.waiting or at is None:
        return
    if at <= s.now:
        yield Finding(check="due", ok=True, evidence=f"due for {ago(s.now - at)}", since=at)
        return
    wait = f"in {ago(at - s.now)}"
    if job.last_error_class is None:
        text, layer = f"it was asked for later: it starts {wait}", Layer.CLIENT
        steps: tuple[str, ...] = (f"aijobs inspect {job.id}",)
    else:
        error = _error(job.last_error_class, job.last_error_code)
        text = f"attempt {max(job.attempts, 1)} failed ({error}); the next one comes {wait}"
        layer = layer_of(job.last_error_class, job.last_error_code)
        steps = (f"aijobs inspect {job.id}", f"aijobs provider show {job.provider or ''}".strip())
    yield Finding(check="due", ok=False, evidence=text, since=job.updated_at, layer=layer, next_steps=steps)


def _paused(s: JobSnapshot) -> Iterator[Finding]:
    if not s.waiting:
        return
    kept = pause_of(Pauses.of(s.switches, s.now), s.switches, s.job.type, s.job.priority)
    if kept is None:
        yield Finding(check="pause", ok=True, evidence="no pause keeps it")
        return
    yield Finding(
        check="pause", ok=False, evidence=kept.why, since=kept.since, layer=Layer.QUEUE,
        next_steps=(kept.resume, "aijobs switch list"),
    )  # fmt: skip


def _provider(s: JobSnapshot) -> Iterator[Finding]:
    seen = s.provider
    if not s.waiting or seen is None:
        return
    if seen.allowed != 0:
        yield Finding(check="provider", ok=True, evidence=f"{seen.name} may be called: {seen.reason}")
        return
    yield Finding(
        check="provider",
        ok=False,
        evidence=not_called(seen),
        since=seen.since,
        layer=layer_at(seen),
        next_steps=provider_steps(seen),
    )


def _limits(s: JobSnapshot) -> Iterator[Finding]:
    if not s.waiting or s.provider_name is None:
        return
    tally = Tally(s.limits.along({s.job.type: s.provider_name}), s.running)
    why = (
        tally.blocked_type(s.job.type)
        or tally.blocked_user(s.job.type, s.job.user)
        or tally.blocked_priority(s.job.priority)
    )
    yield Finding(
        check="limits",
        ok=why is None,
        evidence=why or "no limit keeps it",
        layer=Layer.QUEUE if why else None,
        next_steps=LIMIT_STEPS if why else (),
    )


def _worker(s: JobSnapshot) -> Iterator[Finding]:
    if s.job.status.final or s.job.hold_reason is not None or s.job.type not in s.settings.types:
        return
    serving = [worker for worker in s.workers if worker.serves(s.job.type)]
    alive = [worker for worker in s.workers if worker.alive]
    if serving:
        names = ", ".join(worker.name for worker in serving[:3]) + (", ..." if len(serving) > 3 else "")
        yield Finding(check="worker", ok=True, evidence=f"{len(serving)} serve its type: {names}")
        return
    if s.job.status is Status.PROCESSING and not s.background:
        return  # the lease tells
    text = f"no live worker serves type {s.job.type}" if alive else "no worker is alive"
    since = max((worker.heartbeat_at for worker in s.workers), default=None)
    yield Finding(
        check="worker", ok=False, evidence=text, since=since, layer=Layer.WORKER,
        next_steps=(f"aijobs worker --type {s.job.type}", "aijobs doctor"),
    )  # fmt: skip


def _line(s: JobSnapshot) -> Iterator[Finding]:
    at, patience = s.job.next_run_at, s.settings.alerts.rules.queue_wait.longer_than
    if not s.waiting or at is None or at > s.now or patience is None or s.now - at <= patience:
        return
    slots = sum(worker.concurrency for worker in s.workers if worker.serves(s.job.type))
    running = many(sum(one.count for one in s.running), "job")
    yield Finding(
        check="line",
        ok=False,
        evidence=f"in line for {ago(s.now - at)}; {running} running, workers have {slots} slots",
        since=at,
        layer=Layer.QUEUE,
        next_steps=("aijobs stats", "start more workers, or give this job a priority when it is enqueued"),
    )


# --- Claimed, called ------------------------------------------------------------------------------


def _lease(s: JobSnapshot) -> Iterator[Finding]:
    job = s.job
    if job.status is not Status.PROCESSING or s.background or job.locked_until is None:
        return
    if job.locked_until > s.now:
        evidence = f"claimed by {job.locked_by}, whose lease has {ago(job.locked_until - s.now)} left"
        yield Finding(check="lease", ok=True, evidence=evidence, since=job.claimed_at)
        return
    out = ago(s.now - job.locked_until)
    yield Finding(
        check="lease",
        ok=False,
        evidence=f"the lease of {job.locked_by} ran out {out} ago: it crashed, hung, or lost the store",
        since=job.locked_until,
        layer=Layer.WORKER,
        next_steps=("aijobs sweep", f"look at the log of {job.locked_by}", "aijobs worker"),
    )


def _running(s: JobSnapshot) -> Iterator[Finding]:
    job = s.job
    kind = s.settings.types.get(job.type)
    if job.status is not Status.PROCESSING or s.background or not job.claimed_at or kind is None:
        return
    most = longest_timeout(kind, s.settings.timeouts) + s.settings.timeouts.save
    took = s.now - job.claimed_at
    if took <= most:
        yield Finding(check="call", ok=True, evidence=f"attempt {job.attempts} runs for {ago(took)}")
        return
    yield Finding(
        check="call",
        ok=False,
        evidence=f"attempt {job.attempts} runs for {ago(took)}; its call should end within {ago(most)}",
        since=job.claimed_at,
        layer=Layer.PROVIDER,
        next_steps=(f"aijobs provider show {job.provider}", f"aijobs cancel {job.id} --reason '...'"),
    )


def _cancel(s: JobSnapshot) -> Iterator[Finding]:
    job = s.job
    if job.status is not Status.PROCESSING or job.cancel_requested_at is None:
        return
    waited = s.now - job.cancel_requested_at
    noticed = waited <= NOTICED_WITHIN
    yield Finding(
        check="cancel",
        ok=noticed,
        evidence=f"asked to stop {ago(waited)} ago" + ("" if noticed else ", and nobody has noticed"),
        since=job.cancel_requested_at,
        layer=None if noticed else Layer.WORKER,
        next_steps=() if noticed else ("aijobs sweep", f"look at the log of {job.locked_by}"),
    )


def _followed(s: JobSnapshot) -> Iterator[Finding]:
    """A job that the provider works on in the background: accepted there, looked at, not for ever."""
    job = s.job
    if not s.background or job.claimed_at is None or job.locked_until is None:
        return
    name = f"{job.provider} works on it as {job.provider_job_id}"
    yield Finding(check="provider id", ok=True, evidence=name, since=job.parked_at or job.claimed_at)
    kind = s.settings.types.get(job.type)
    if kind is not None and s.now - job.claimed_at > kind.background_options.max_run:
        yield Finding(
            check="run time",
            ok=False,
            evidence=f"{name} for {ago(s.now - job.claimed_at)}, longer than max_run",
            since=job.claimed_at,
            layer=Layer.PROVIDER,
            next_steps=(f"aijobs provider show {job.provider}", f"aijobs cancel {job.id} --reason '...'"),
        )
    late = s.now - job.locked_until
    if late > NOTICED_WITHIN:
        yield Finding(
            check="polls",
            ok=False,
            evidence=f"nobody has looked at the provider since it was time, {ago(late)} ago",
            since=job.locked_until,
            layer=Layer.WORKER,
            next_steps=(f"aijobs worker --type {job.type}", "aijobs stats"),
        )
    else:
        next_look = "is looked at now" if late >= timedelta(0) else f"is looked at in {ago(-late)}"
        yield Finding(check="polls", ok=True, evidence=f"the provider {next_look}", since=job.updated_at)


def _error(error_class: str | None, code: str | None) -> str:
    return " ".join(part for part in (error_class, code) if part)


CHECKS: Sequence[Check] = (
    _saved, _configured, _held, _deadline, _due, _paused, _provider, _limits, _worker, _line, _lease,
    _running, _cancel, _followed, *ENDS,
)  # fmt: skip
"""In the order in which a job passes through the layers; the first that is not well names the layer."""
