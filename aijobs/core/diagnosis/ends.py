"""The later checks of a job: what the last call came to, webhook, result, notifications."""

from collections.abc import Callable, Iterator
from datetime import timedelta

from aijobs.core.diagnosis.findings import Finding, Layer, ago, layer_of, many
from aijobs.core.diagnosis.snapshot import JobSnapshot, NotificationSeen
from aijobs.core.diagnosis.steps import cures, provider_steps
from aijobs.core.model import Execution, Status
from aijobs.core.overview import OVERDUE


def _call(s: JobSnapshot) -> Iterator[Finding]:
    """The last attempt that ended, and whether it was the last for good."""
    last = s.last
    dead = s.job.status is Status.DEAD_LETTER
    if last is None:
        if dead:
            yield _died(s, "no attempt was made")
        return
    if dead:
        yield _died(s, _told(last))
        return
    yield Finding(check="last attempt", ok=True, evidence=_told(last), since=last.finished_at)


def _died(s: JobSnapshot, told: str) -> Finding:
    job = s.job
    layer = layer_of(job.last_error_class, job.last_error_code)
    steps = [f"aijobs deadletter show {job.id}", *cures(job)]
    if s.provider is not None and s.provider.allowed == 0:
        steps += provider_steps(s.provider)
    elif layer is Layer.PROVIDER and job.provider:
        steps.append(f"aijobs provider show {job.provider}")
    error = " ".join(part for part in (job.last_error_class, job.last_error_code) if part)
    return Finding(
        check="attempts",
        ok=False,
        evidence=f"it became a dead letter ({error}) after {many(job.attempts, 'attempt')}: {told}",
        since=job.finished_at,
        layer=layer,
        next_steps=(*steps, f"aijobs retry {job.id} --reason '...'"),
    )


def _told(one: Execution) -> str:
    where = " ".join(part for part in (one.provider, one.model) if part)
    error = " ".join(str(part) for part in (one.error_class, one.error_code, one.http_status) if part)
    parts = [f"attempt {one.attempt} {one.outcome}" + (f" at {where}" if where else "")]
    ids = (("provider request", one.provider_request_id), ("provider id", one.provider_job_id))
    parts += [error] if error else []
    parts += [f"{name} {value}" for name, value in ids if value]
    if one.maybe_billed and one.error_class:
        parts.append("maybe billed")
    parts += [one.message] if one.message and one.error_class else []
    return ", ".join(parts)


def _webhook(s: JobSnapshot) -> Iterator[Finding]:
    lost = [one for one in s.deliveries if one.job_id is None]
    if lost:
        first = min(lost, key=lambda one: one.received_at)
        when = ago(s.now - first.received_at)
        text = f"{many(len(lost), 'webhook')} about its work found no job, the first {when} ago"
        yield _missed(s, text, since=first.received_at)
    elif s.deliveries:
        latest = max(s.deliveries, key=lambda one: one.received_at)
        text = f"{latest.event_type} came {ago(s.now - latest.received_at)} ago"
        yield Finding(check="webhook", ok=True, evidence=text, since=latest.received_at)
    elif _expected(s):
        end = s.job.finished_at
        yield _missed(s, "no webhook about its work ever came; its end was found by looking", since=end)


def _expected(s: JobSnapshot) -> bool:
    """Whether a webhook should have come by now: the work ran in the background and has ended for a while."""
    job, last = s.job, s.last
    provider = s.settings.providers.get(job.provider or "")
    if job.finished_at is None or last is None or last.provider_job_id is None or provider is None:
        return False
    kind = s.settings.types.get(job.type)
    called_back = bool(provider.webhook_secret) and kind is not None and kind.background
    return called_back and job.status is Status.SUCCEEDED and s.now - job.finished_at > OVERDUE


def _missed(s: JobSnapshot, text: str, **more: object) -> Finding:
    name = s.job.provider or ""
    return Finding(
        check="webhook",
        ok=False,
        evidence=text,
        layer=Layer.WEBHOOK,
        next_steps=(
            f"check the webhook address and secret of {name or 'the provider'}, at the provider and here",
            "aijobs sweep",
        ),
        **more,  # type: ignore[arg-type]  # since, as the caller knows it
    )


def _result(s: JobSnapshot) -> Iterator[Finding]:
    if s.job.status is not Status.SUCCEEDED:
        return
    kept = s.settings.retention.results
    end = s.job.finished_at
    dropped = isinstance(kept, timedelta) and end is not None and s.now - end >= kept
    if s.has_result or dropped:
        text = "the result is stored" if s.has_result else "the result was dropped, as retention says"
        yield Finding(check="result", ok=True, evidence=text, since=end)
        return
    yield Finding(
        check="result",
        ok=False,
        evidence="it succeeded, and its result is not in the store",
        since=end,
        layer=Layer.RESULT,
        next_steps=("aijobs db check", "look for who deletes from job_results, and at the backups"),
    )


def _notified(s: JobSnapshot) -> Iterator[Finding]:
    for one in s.notifications:
        yield _notification(s, one)


def _notification(s: JobSnapshot, one: NotificationSeen) -> Finding:
    check = f"notification {one.target}"
    if one.state == "delivered":
        evidence = f"{one.event} delivered to {one.target}"
        return Finding(check=check, ok=True, evidence=evidence, since=one.delivered_at)
    late = one.next_run_at is not None and s.now - one.next_run_at > OVERDUE
    if one.state == "pending" and not one.attempts and not late:
        return Finding(check=check, ok=True, evidence=f"{one.event} is about to be delivered")
    answer = f"HTTP {one.http_status}" if one.http_status else "no answer"
    tries = many(one.attempts, "attempt")
    text = {
        "gone": f"{one.target} wants no more deliveries (410)",
        "failed": f"{one.target} did not take it in {tries} ({answer}); it was given up",
    }.get(one.state, f"{one.target} has not taken it in {tries} ({answer}); it is tried again")
    if one.state == "pending" and not one.attempts:
        text = f"nobody has delivered it to {one.target}: workers do"
    return Finding(
        check=check,
        ok=False,
        evidence=text,
        since=one.created_at,
        layer=Layer.NOTIFICATION,
        next_steps=(f"check notify: {one.target} and its receiver", "aijobs worker", "aijobs sweep"),
    )


ENDS: tuple[Callable[[JobSnapshot], Iterator[Finding]], ...] = (_call, _webhook, _result, _notified)
